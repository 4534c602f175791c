import pytest

from sojourn.assessment.knee import locate
from sojourn.engine.results import Generator, ServerUse, StepLimit, Summary
from sojourn.loading.record import Step

TARGET = 0.2


def step(
    offered: float,
    limit: StepLimit | None = None,
    got: float | None = None,
    p95: float | None = 0.001,
    limited: bool = False,
    saturated: bool = False,
    busy: float | None = None,
) -> Step:
    """A step as the engine reports it; the engine judges the limit."""
    return Step(
        start_seconds=0.0,
        duration_seconds=1.0,
        offered_requests_per_second=offered,
        requests_per_second=offered if got is None else got,
        limit=limit,
        server_saturated=saturated,
        time_to_first_byte_intended_seconds=Summary(p95=p95),
        generator=Generator(limited=limited),
        server=None if busy is None else ServerUse(core_busy_fraction=busy),
    )


def test_a_throughput_limit_is_what_the_overloaded_server_reached() -> None:
    knee = locate([[step(100), step(200), step(300, "throughput", got=230, p95=0.9)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason, knee.is_lower_bound) == (230, "throughput", False)


def test_a_response_time_limit_is_interpolated_on_a_logarithmic_scale() -> None:
    knee = locate([[step(100, p95=0.02), step(200, "time to first byte", p95=2.0)]], TARGET)
    assert knee is not None
    assert knee.requests_per_second == pytest.approx(150)


def test_a_server_that_is_full_delivers_less_when_it_is_overloaded() -> None:
    knee = locate([[step(200), step(300, "throughput", got=180, saturated=True)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.low, knee.high) == (200, 180, 300)


def test_a_full_server_carried_what_it_answered_not_what_was_offered() -> None:
    knee = locate([[step(200, got=195), step(300, "throughput", got=180, saturated=True)]], TARGET)
    assert knee is not None
    assert knee.requests_per_second == 195


def test_a_full_server_that_keeps_its_throughput_has_its_limit_there() -> None:
    knee = locate([[step(200), step(300, "throughput", got=230, saturated=True)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.low, knee.high) == (230, 230, 230)


def test_between_a_load_that_was_carried_and_one_that_was_not_lies_the_limit() -> None:
    knee = locate([[step(200), step(300, "throughput", got=180)]] * 3, TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.low, knee.high) == (200, 200, 300)


@pytest.mark.parametrize("p95", [None, 0.1])
def test_without_a_p95_beyond_the_target_the_knee_is_where_the_last_step_was(p95: float | None) -> None:
    knee = locate([[step(100, p95=0.02), step(200, "time to first byte", p95=p95)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.low, knee.high) == (100, 100, 200)


def test_a_disturbed_step_below_good_ones_is_not_the_knee() -> None:
    knee = locate([[step(100), step(200, "throughput", got=150), step(300), step(400, "throughput", got=310)]], TARGET)
    assert knee is not None
    assert knee.requests_per_second == 310


def test_the_generators_limit_is_a_lower_bound() -> None:
    knee = locate([[step(100), step(200, "generator", got=150, limited=True)]] * 3, TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason, knee.is_lower_bound) == (100, "generator", True)


def test_a_generator_at_its_limit_in_the_highest_step_could_not_have_raised_the_load() -> None:
    knee = locate([[step(100), step(200, limited=True)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason) == (200, "generator")


def test_what_is_left_of_the_servers_core_bounds_what_a_limited_generator_did_not_see() -> None:
    limited = step(120, "generator", got=110, limited=True)
    knee = locate([[step(100, busy=0.8), limited]], TARGET)
    assert knee is not None
    assert knee.is_lower_bound
    for climb in ([step(100, busy=0.92), limited], [step(100, busy=0.92, limited=True)]):
        knee = locate([climb] * 3, TARGET)
        assert knee is not None
        assert (knee.requests_per_second, knee.low, knee.reason, knee.is_lower_bound) == (100, 100, "generator", False)
        assert knee.high == pytest.approx(100 / 0.92)


def test_a_generator_that_limits_every_step_says_nothing_of_the_server() -> None:
    limited = [step(100, "generator", got=90, limited=True), step(200, "generator", got=150, limited=True)]
    assert locate([limited], TARGET) is None
    knee = locate([limited, [step(100), step(200), step(300, "throughput", got=230, p95=0.9)]], TARGET)
    assert knee is not None
    assert knee.per_repetition == [230]


def test_without_a_failing_step_the_knee_was_not_reached() -> None:
    knee = locate([[step(100), step(200)]], TARGET)
    assert knee is not None
    assert (knee.requests_per_second, knee.reason, knee.is_lower_bound) == (200, "not reached", True)


@pytest.mark.parametrize("limit", ["time to first byte", "errors"])
def test_without_a_step_within_the_target_no_rate_is_made_up(limit: StepLimit) -> None:
    found = locate([[step(100, limit, p95=0.5), step(200, limit, p95=0.6)]], TARGET)
    assert found is not None
    assert (found.requests_per_second, found.low, found.high) == (0, 0, 100)
    assert (found.reason, found.is_lower_bound) == (limit, False)


def test_an_overloaded_server_without_a_step_within_the_target_has_its_throughput() -> None:
    found = locate([[step(100, "throughput", got=80), step(200, "throughput", got=90)]], TARGET)
    assert found is not None
    assert found.requests_per_second == 85


def test_repetitions_give_a_median_and_extremes() -> None:
    knee = locate([[step(100), step(200, "throughput", got=got)] for got in (150, 160, 130)], TARGET)
    assert knee is not None
    assert (knee.low, knee.requests_per_second, knee.high) == (130, 150, 160)


def test_nothing_measured_gives_no_knee() -> None:
    assert locate([[]], TARGET) is None
