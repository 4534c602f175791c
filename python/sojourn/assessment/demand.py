"""Service demand against document size: g(x) = a x + b, and what a new connection adds.

Measured in a closed loop on documents of one size at a time (seed thesis, 2.2.3). Two estimates are kept for every
point: CPU seconds of the server's processes per request (utilisation law), and response time over clients (the
thesis's work demand, valid only where one saturated station and no think time make X = N / R = 1 / D).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from sojourn.failure import CouldNotRun
from sojourn.measurement import Bench, observed
from sojourn.site import FIXED_SIZES_BYTES, fixed_size_path
from sojourn.summary import DemandFit, DemandPoint, Interval

CLIENTS = (4, 16, 64)
# A new connection's cost does not depend on the size; one small size shows it best.
CONNECTION_SIZES_BYTES = (500, 5_000)
CONNECTION_CLIENTS = 16
SATURATED_CORE_FRACTION = 0.95
BOOTSTRAP_SAMPLES = 400

Connection = Literal["keep-alive", "close"]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Effort:
    """How long the demand runs take."""

    repetitions: int
    duration_seconds: float
    warm_up_seconds: float


def measure(
    bench: Bench, effort: Effort, keep: Callable[[DemandPoint], None], progress: Callable[[int, int], None]
) -> None:
    """Runs every (size, clients, connection) in random order, repetition by repetition, handing on each point."""
    plan: list[tuple[int, int, Connection]] = [
        (size, clients, "keep-alive") for size in FIXED_SIZES_BYTES for clients in CLIENTS
    ]
    plan += [(size, CONNECTION_CLIENTS, "close") for size in CONNECTION_SIZES_BYTES]
    order = Random(bench.seed)
    done = 0
    for _ in range(effort.repetitions):
        order.shuffle(plan)
        for size, clients, connection in plan:
            keep(_point(bench, effort, size, clients, connection))
            done += 1
            progress(done, effort.repetitions * len(plan))


def _point(bench: Bench, effort: Effort, size: int, clients: int, connection: Connection) -> DemandPoint:
    result = bench.closed_loop(
        fixed_size_path(size), clients, effort.duration_seconds, effort.warm_up_seconds, connection
    )
    step = result["steps"][0]
    if result["requests"] == 0:
        raise CouldNotRun(
            f"no request for a document of {size:,} bytes succeeded: {result['errors_by_cause']}",
            "look at the server's log in the run's work folder"
            if bench.server.process
            else "the server must serve the site that `sojourn trace LOG --build-site DIR` builds",
        )
    response_mean = result["response_time_seconds"]["mean"]
    return DemandPoint(
        size_bytes=size,
        clients=clients,
        connection=connection,
        requests=result["requests"],
        errors=result["errors"],
        requests_per_second=result["requests_per_second"],
        response_time_mean_seconds=response_mean,
        demand_by_response_law_seconds=response_mean / clients,
        demand_by_cpu_seconds=observed(step, "cpu_seconds_per_request"),
        server_core_busy_fraction=observed(step, "core_busy_fraction"),
        generator_limited=result["generator"]["limited"],
    )


def fit(points: Sequence[DemandPoint], seed: int) -> DemandFit:
    """Fits g by Huber regression on relative residuals, both coefficients at least zero.

    The intervals are percentile bootstrap over points (`BOOTSTRAP_SAMPLES` draws). CPU time is the basis where it
    could be read; otherwise the response law, over the points whose server core was saturated or unknown.
    """
    by_cpu = all(point.demand_by_cpu_seconds is not None for point in points)
    kept = [point for point in points if point.connection == "keep-alive" and (by_cpu or _saturated(point))]
    if len({point.size_bytes for point in kept}) < 2:
        raise CouldNotRun(
            "the service demand cannot be fitted: fewer than two document sizes saturated the server",
            "let it run on this machine, where its CPU time can be read",
        )
    sizes = np.array([point.size_bytes for point in kept], dtype=float)
    demands = np.array([_demand(point, by_cpu) for point in kept])
    slope, fixed = _huber_line(sizes, demands)
    random = np.random.default_rng(seed)
    samples = np.array([_resampled(sizes, demands, random) for _ in range(BOOTSTRAP_SAMPLES)])
    return DemandFit(
        seconds_per_byte=_interval(slope, samples[:, 0]),
        fixed_seconds=_interval(fixed, samples[:, 1]),
        connection_seconds=_connection_cost(points, by_cpu),
        basis="cpu" if by_cpu else "response law",
        points_used=len(kept),
        points_left_out=sum(point.connection == "keep-alive" for point in points) - len(kept),
        relative_error_median=float(np.median(np.abs(slope * sizes + fixed - demands) / demands)),
    )


def _saturated(point: DemandPoint) -> bool:
    busy = point.server_core_busy_fraction
    return not point.generator_limited and (busy is None or busy >= SATURATED_CORE_FRACTION)


def _demand(point: DemandPoint, by_cpu: bool) -> float:
    if by_cpu:
        assert point.demand_by_cpu_seconds is not None
        return point.demand_by_cpu_seconds
    return point.demand_by_response_law_seconds


def _huber_line(sizes: FloatArray, demands: FloatArray) -> tuple[float, float]:
    # Relative residuals: demands span three decades, and the small documents are the many.
    def residuals(coefficients: FloatArray) -> FloatArray:
        relative: FloatArray = (coefficients[0] * sizes + coefficients[1]) / demands - 1.0
        return relative

    start = np.array([demands.max() / sizes.max(), demands.min()])
    found = least_squares(
        residuals,
        start,
        bounds=(0.0, np.inf),
        x_scale=start,
        loss="huber",
        f_scale=0.1,
        xtol=1e-12,
        ftol=1e-12,
    )
    return float(found.x[0]), float(found.x[1])


def _resampled(sizes: FloatArray, demands: FloatArray, random: np.random.Generator) -> tuple[float, float]:
    while True:
        chosen = random.integers(0, len(sizes), len(sizes))
        if np.ptp(sizes[chosen]) > 0:
            return _huber_line(sizes[chosen], demands[chosen])


def _connection_cost(points: Sequence[DemandPoint], by_cpu: bool) -> Interval | None:
    differences = []
    for size in CONNECTION_SIZES_BYTES:
        closing, keeping = (
            [
                _demand(point, by_cpu)
                for point in points
                if (point.size_bytes, point.clients, point.connection) == (size, CONNECTION_CLIENTS, connection)
            ]
            for connection in ("close", "keep-alive")
        )
        if keeping:
            differences += [value - float(np.median(keeping)) for value in closing]
    if not differences:
        return None
    values = np.array(differences)
    return Interval(estimate=max(0.0, float(np.median(values))), low=float(values.min()), high=float(values.max()))


def _interval(estimate: float, samples: FloatArray) -> Interval:
    low, high = np.quantile(samples, [0.025, 0.975])
    return Interval(estimate=estimate, low=float(low), high=float(high))
