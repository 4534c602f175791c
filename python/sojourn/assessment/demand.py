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

from sojourn.assessment.measurement import Bench, observed
from sojourn.assessment.summary import DemandFit, DemandPoint
from sojourn.calibration import service_demand
from sojourn.calibration.estimate import FloatArray
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord
from sojourn.results.records import Interval
from sojourn.workload.site import FIXED_SIZES_BYTES, fixed_size_path

CLIENTS = (4, 16, 64)
# The cost of a connection does not depend on the size, so small sizes show it best.
CONNECTION_SIZES_BYTES = (500, 5_000)
CONNECTION_CLIENTS = 16
SATURATED_CORE_FRACTION = 0.95
LENGTHENINGS = (1, 4, 16)
"""A run with fewer responses than clients is repeated longer by these factors, because requests that cross its ends
then weigh as much as those measured. On a busy machine the generator may get its core only when the run is over, or
clients still wait for requests of the warm-up.
"""

Connection = Literal["keep-alive", "close"]


@dataclass(frozen=True)
class Effort:
    """The length of the closed-loop runs that measure service demand."""

    repetitions: int
    duration_seconds: float
    warm_up_seconds: float


def expected_seconds(effort: Effort) -> float:
    """About how long the runs take, unless one is repeated longer."""
    runs = len(FIXED_SIZES_BYTES) * len(CLIENTS) + len(CONNECTION_SIZES_BYTES)
    return effort.repetitions * runs * (effort.duration_seconds + effort.warm_up_seconds)


def measure(
    bench: Bench, effort: Effort, keep: Callable[[DemandPoint], None], progress: Callable[[int, int], None]
) -> None:
    """Runs every (size, clients, connection) in random order, repetition by repetition, and yields each point."""
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
    result = _answered(bench, effort, size, clients, connection)
    step = result.steps[0]
    response_mean = result.response_time_seconds.mean
    assert response_mean is not None, "it was answered"
    assert result.requests_per_second is not None
    return DemandPoint(
        size_bytes=size,
        clients=clients,
        connection=connection,
        requests=result.requests,
        errors=result.errors,
        requests_per_second=result.requests_per_second,
        response_time_mean_seconds=response_mean,
        demand_by_response_law_seconds=response_mean / clients,
        demand_by_cpu_seconds=observed(step, "cpu_seconds_per_request"),
        server_core_busy_fraction=observed(step, "core_busy_fraction"),
        generator_limited=result.generator.limited,
    )


def _answered(bench: Bench, effort: Effort, size: int, clients: int, connection: Connection) -> RequestsRecord:
    """Runs until enough clients were answered, repeating a run with too few responses longer."""
    for times in LENGTHENINGS:
        duration, warm_up = times * effort.duration_seconds, times * effort.warm_up_seconds
        result = bench.closed_loop(fixed_size_path(size), clients, duration, warm_up, connection)
        # A longer run would not help if the server refuses requests.
        if result.requests >= clients or result.errors > 0:
            break
    if result.requests > 0:
        return result
    what = f"no request for a document of {size:,} bytes succeeded within {duration:g} s"
    if result.errors > 0:
        causes = ", ".join(f"{count:,} x {cause}" for cause, count in result.errors_by_cause.items())
        hint = (
            "give a --work-dir, and look at the server's log there"
            if bench.server.process
            else "the server must serve the site that `sojourn trace LOG --build-site DIR` builds"
        )
        raise CouldNotRun(f"{what}: {causes}", hint)
    because = result.generator.limited_because or f"all {clients} clients waited for the whole time"
    raise CouldNotRun(f"{what}: {because}", "assess on a machine with less other work, or with more --effort")


def fit(points: Sequence[DemandPoint], seed: int) -> DemandFit:
    """Fits g as a line (`service_demand.fit`) and the cost of a connection.

    CPU time is the basis where available; otherwise the response law, over points with a saturated or unobserved
    server core.
    """
    by_cpu = _has_cpu_times(points)
    sizes, demands = usable(points)
    line = service_demand.fit(sizes, demands, seed, pieces_max=1)
    return DemandFit(
        seconds_per_byte=line.seconds_per_byte[0],
        fixed_seconds=line.fixed_seconds,
        connection_seconds=_connection_cost(points, by_cpu),
        basis="cpu" if by_cpu else "response law",
        points_used=len(sizes),
        points_left_out=sum(point.connection == "keep-alive" for point in points) - len(sizes),
        relative_error_median=line.relative_error_median,
    )


def usable(points: Sequence[DemandPoint]) -> tuple[FloatArray, FloatArray]:
    """The sizes in bytes and demands in seconds used for fitting g; shapes (points,)."""
    by_cpu = _has_cpu_times(points)
    answered = [point for point in points if point.connection == "keep-alive" and point.requests >= point.clients]
    if len({point.size_bytes for point in answered}) < 2:
        raise CouldNotRun(
            "the service demand cannot be fitted: fewer than two document sizes had as many answers as clients",
            "assess on a machine with less other work, or with more --effort",
        )
    kept = [point for point in answered if by_cpu or _saturated(point)]
    if len({point.size_bytes for point in kept}) < 2:
        raise CouldNotRun(
            "the service demand cannot be fitted: fewer than two document sizes saturated the server",
            "let it run on this machine, where its CPU time can be read",
        )
    sizes = np.array([point.size_bytes for point in kept], dtype=float)
    return sizes, np.array([_demand(point, by_cpu) for point in kept])


def _has_cpu_times(points: Sequence[DemandPoint]) -> bool:
    return all(point.demand_by_cpu_seconds is not None for point in points)


def _saturated(point: DemandPoint) -> bool:
    busy = point.server_core_busy_fraction
    return not point.generator_limited and (busy is None or busy >= SATURATED_CORE_FRACTION)


def _demand(point: DemandPoint, by_cpu: bool) -> float:
    if by_cpu:
        assert point.demand_by_cpu_seconds is not None
        return point.demand_by_cpu_seconds
    return point.demand_by_response_law_seconds


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
