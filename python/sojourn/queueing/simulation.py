"""The simulator: a whole system, one station under Poisson arrivals, or one station driven by a trace.

Runs stop by themselves when the 95 % half-width of every target, the mean or percentiles, is small enough. Each figure
has its own verdict in `figures`: converged, or why not. The interpreter lock is released; Ctrl-C ends a run with its
estimate so far, marked `complete: False`. The same seed gives the same result, and two systems that differ in one
parameter see the same jobs: common random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from numpy.typing import ArrayLike

from sojourn import _native
from sojourn.queueing.arrays import Array, vector
from sojourn.queueing.distributions import Distribution
from sojourn.queueing.results import Simulation, StationSimulation
from sojourn.queueing.system import System

JOBS_MAX = 50_000_000
"""Enough jobs for ±1 % of a mean at utilisation 0.9."""
JOBS_MIN = 65_536
"""Checking the half-width earlier stops too early too often; a loaded station is first checked later."""

Progress = Callable[[int, int, float | None, float | None], object]
"""Called with jobs so far, the most there will be, the estimate so far in seconds (of the target furthest from its
goal), and its half-width as a fraction of it (None before the first look)."""
Target = Literal["mean", "p50", "p90", "p95", "p99", "p999"]
"""A figure of the response time whose half-width may end a run."""


def simulate(
    system: System,
    *,
    half_width: float = 0.02,
    jobs_max: int = JOBS_MAX,
    jobs_min: int = JOBS_MIN,
    target: Target | Sequence[Target] = "mean",
    replications: int = 1,
    seed: int = 1,
    traces: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Simulates a system of stations.

    Args:
        system: what is simulated.
        half_width: stop when the 95 % half-width of each target is at most this fraction of it, over all classes.
        jobs_max: stop after this many jobs in any case, all replications together.
        jobs_min: do not stop before.
        target: the mean, a percentile, or several of them: the run goes on until all have converged.
        replications: independent runs with seeds of their own and of equal length, side by side on the cores.
        seed: everything random comes from it.
        traces: drives open classes by observed arrivals: arrival times in s and document sizes in B, both (n,).
        progress: told now and then.

    Raises:
        ValueError: if a station is unstable or a parameter is out of its domain.
    """
    columns = {
        name: (vector(times, "times"), vector(sizes, "sizes")) for name, (times, sizes) in (traces or {}).items()
    }
    result: Simulation = _native.simulate_system(  # type: ignore[assignment]
        system.text,
        half_width,
        jobs_max,
        seed,
        jobs_min=jobs_min,
        targets=_several(target),
        replications=replications,
        traces=columns or None,
        progress=progress,
    )
    return result


def simulate_poisson(
    arrival_rate: float,
    demands: ArrayLike | Distribution,
    r: int | None = None,
    *,
    weights: ArrayLike | None = None,
    servers: int = 1,
    delta: float = 0.0,
    half_width: float = 0.02,
    jobs_max: int = JOBS_MAX,
    jobs_min: int = JOBS_MIN,
    target: Target | Sequence[Target] = "mean",
    replications: int = 1,
    seed: int = 1,
    progress: Progress | None = None,
) -> StationSimulation:
    """Simulates one station under Poisson arrivals (1/s) whose demands (s) are of a law, or drawn from values given.

    With one server the workload that arrivals find, whose mean is known, is the control variate of the mean.
    Percentiles have none: ask for them by `target` to have them as narrow as the mean.

    Raises:
        ValueError: if the station is unstable or a parameter is out of its domain.
    """
    result: StationSimulation = _native.simulate_poisson(  # type: ignore[assignment]
        arrival_rate,
        demands.native if isinstance(demands, Distribution) else vector(demands, "demands"),
        r,
        half_width,
        jobs_max,
        seed,
        weights=None if weights is None else vector(weights, "weights"),
        servers=servers,
        delta=delta,
        jobs_min=jobs_min,
        targets=_several(target),
        replications=replications,
        progress=progress,
    )
    return result


def simulate_station(
    arrival_times: ArrayLike,
    demands: ArrayLike | Distribution,
    r: int | None = None,
    *,
    servers: int = 1,
    seed: int = 1,
) -> Array:
    """Response time in seconds of every job of a trace, in its order.

    Args:
        arrival_times: seconds, not decreasing, shape (n,).
        demands: seconds, shape (n,), or a law to draw them from.
        r: the most jobs in service; None for processor sharing.
        servers: equal servers that share the work.
        seed: of the demands, where a law is given.

    Raises:
        ValueError: if the trace goes back in time, or a demand is negative or not finite.
    """
    times = vector(arrival_times, "arrival_times")
    drawn = demands.sample(len(times), seed) if isinstance(demands, Distribution) else vector(demands, "demands")
    return _native.simulate_station(times, drawn, r, servers)


def _several(target: Target | Sequence[Target]) -> list[str]:
    return [target] if isinstance(target, str) else list(target)
