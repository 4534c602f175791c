import numpy as np
import pytest

from sojourn.assessment import demand
from sojourn.failure import CouldNotRun
from sojourn.site import FIXED_SIZES_BYTES
from sojourn.summary import DemandPoint


def point(
    size: int, seconds: float, connection: str = "keep-alive", clients: int = 16, **changes: object
) -> DemandPoint:
    fields: dict[str, object] = {
        "size_bytes": size,
        "clients": clients,
        "connection": connection,
        "requests": 1000,
        "errors": 0,
        "requests_per_second": 1 / seconds,
        "response_time_mean_seconds": seconds * clients,
        "demand_by_response_law_seconds": seconds,
        "demand_by_cpu_seconds": seconds,
        "server_core_busy_fraction": 1.0,
        "generator_limited": False,
    }
    return DemandPoint.model_validate(fields | changes)


def line(size: int) -> float:
    return 0.5e-9 * size + 6e-6


def test_an_exact_line_is_found() -> None:
    fit = demand.fit([point(size, line(size)) for size in FIXED_SIZES_BYTES], seed=1)
    assert fit.seconds_per_byte.estimate == pytest.approx(0.5e-9, rel=1e-3)
    assert fit.fixed_seconds.estimate == pytest.approx(6e-6, rel=1e-3)
    assert fit.basis == "cpu"


def test_an_outlier_moves_the_line_little_and_widens_the_interval() -> None:
    random = np.random.default_rng(3)
    points = [
        point(size, line(size) * random.normal(1, 0.02), clients=clients)
        for size in FIXED_SIZES_BYTES
        for clients in demand.CLIENTS
    ]
    points[4] = point(points[4].size_bytes, line(points[4].size_bytes) * 4)
    fit = demand.fit(points, seed=1)
    assert fit.fixed_seconds.estimate == pytest.approx(6e-6, rel=0.1)
    assert fit.fixed_seconds.low < 6e-6 < fit.fixed_seconds.high


def test_a_connection_costs_the_difference() -> None:
    points = [point(size, line(size)) for size in FIXED_SIZES_BYTES]
    points += [point(size, line(size) + 12e-6, "close") for size in demand.CONNECTION_SIZES_BYTES]
    fit = demand.fit(points, seed=1)
    assert fit.connection_seconds is not None
    assert fit.connection_seconds.estimate == pytest.approx(12e-6)


def test_without_cpu_time_only_saturated_points_count() -> None:
    points = [point(size, line(size), demand_by_cpu_seconds=None) for size in FIXED_SIZES_BYTES]
    points.append(point(500, 1.0, demand_by_cpu_seconds=None, server_core_busy_fraction=0.3))
    fit = demand.fit(points, seed=1)
    assert (fit.basis, fit.points_left_out) == ("response law", 1)
    assert fit.fixed_seconds.estimate == pytest.approx(6e-6, rel=1e-3)


def test_one_size_is_not_enough() -> None:
    with pytest.raises(CouldNotRun, match="fewer than two"):
        demand.fit([point(500, 1e-5), point(500, 1e-5)], seed=1)
