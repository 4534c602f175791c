from typing import Any

import pytest

from sojourn.assessment.knee import locate
from sojourn.assessment.rising_load import limit_of

TARGET = 0.2


def step(
    offered: float, got: float | None = None, p95: float = 0.001, errors: int = 0, limited: bool = False
) -> dict[str, Any]:
    return {
        "offered_requests_per_second": offered,
        "requests_per_second": offered if got is None else got,
        "requests": 10_000,
        "errors": errors,
        "unfinished": 0,
        "time_to_first_byte_intended_seconds": {"p95": p95},
        "generator": {"limited": limited},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (step(100), None),
        (step(100, p95=0.3), "time to first byte"),
        (step(100, got=90), "throughput"),
        (step(100, errors=11), "errors"),
        (step(100, got=90, limited=True), "generator"),
        (step(100, limited=True), None),
    ],
)
def test_why_a_step_is_beyond_the_knee(given: dict[str, Any], expected: str | None) -> None:
    assert limit_of(given, TARGET) == expected


def test_a_throughput_limit_is_what_the_overloaded_server_reached() -> None:
    knee = locate([[step(100), step(200), step(300, got=230, p95=0.9)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason, knee.is_lower_bound) == (230, "throughput", False)


def test_a_response_time_limit_is_interpolated_on_a_logarithmic_scale() -> None:
    knee = locate([[step(100, p95=0.02), step(200, p95=2.0)]], TARGET)
    assert knee is not None
    assert knee.requests_per_second == pytest.approx(150)


def test_a_disturbed_step_below_good_ones_is_not_the_knee() -> None:
    knee = locate([[step(100), step(200, got=150), step(300), step(400, got=310)]], TARGET)
    assert knee is not None
    assert knee.requests_per_second == 310


def test_the_generators_limit_is_a_lower_bound() -> None:
    knee = locate([[step(100), step(200, got=150, limited=True)]] * 3, TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason, knee.is_lower_bound) == (100, "generator", True)


def test_a_generator_at_its_limit_in_the_highest_step_could_not_have_raised_the_load() -> None:
    knee = locate([[step(100), step(200, limited=True)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason) == (200, "generator")


def test_a_generator_that_limits_every_step_says_nothing_of_the_server() -> None:
    limited = [step(100, got=90, p95=0.5, limited=True), step(200, got=150, p95=0.9, limited=True)]
    assert locate([limited], TARGET) is None
    knee = locate([limited, [step(100), step(200), step(300, got=230, p95=0.9)]], TARGET)
    assert knee is not None
    assert knee.per_repetition == [230]


def test_without_a_failing_step_the_knee_was_not_reached() -> None:
    knee = locate([[step(100), step(200)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason, knee.is_lower_bound) == (200, "not reached", True)


def test_repetitions_give_a_median_and_extremes() -> None:
    knee = locate([[step(100), step(200, got=got)] for got in (150, 160, 130)], TARGET)
    assert knee is not None
    assert (knee.low, knee.requests_per_second, knee.high) == (130, 150, 160)


def test_nothing_measured_gives_no_knee() -> None:
    assert locate([[]], TARGET) is None
