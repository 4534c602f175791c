import numpy as np
import pytest

from sojourn.assessment.answer import Helpers, Line, LogRates, answer
from sojourn.assessment.summary import Answer, Knee, Model

TARGET = 0.2
RATES = LogRates(average=1.0, peak=4.0)


def knee(rate: float, reason: str = "throughput") -> Knee:
    return Knee.model_validate(
        {
            "requests_per_second": rate,
            "low": rate,
            "high": rate,
            "per_repetition": [rate],
            "reason": reason,
            "is_lower_bound": reason == "generator",
        }
    )


def answered(
    found: Knee, line: Line | None = None, helpers: Helpers | None = None, model: Model | None = None
) -> Answer:
    return answer(found, [], model, line, helpers, RATES, TARGET, 1)


def gains(given: Answer) -> dict[str, float]:
    return {doubling.resource: doubling.gain_fraction for doubling in given.doubling}


def test_alone_the_server_is_the_bottleneck_and_doubling_it_doubles_the_rate() -> None:
    given = answered(knee(1000))
    assert (given.bottleneck, given.next_bottleneck) == ("server CPU", None)
    assert given.largest_rate_requests_per_second == 1000
    assert gains(given) == {"server CPU": pytest.approx(1.0)}
    assert given.headroom_over_log_peak == 250


def test_a_narrow_line_saturates_first_and_only_doubling_it_helps() -> None:
    # 12,500 bytes over 1 Mbit/s: 0.1 s each, at most 10/s, less for the p95 to stay within 0.2 s.
    line = Line(1e6, np.full(100, 12_500.0))
    given = answered(knee(1000), line)
    assert (given.bottleneck, given.next_bottleneck) == ("access line", "server CPU")
    assert 1 < given.largest_rate_requests_per_second < 10
    assert given.largest_rate_requests_per_second == pytest.approx(line.largest_rate(TARGET, 1))
    assert gains(given)["access line"] == pytest.approx(1.0)
    assert gains(given)["server CPU"] == pytest.approx(0.0)


def test_a_line_too_slow_for_the_target_at_any_rate_says_so() -> None:
    given = answered(knee(1000), Line(1e5, np.full(100, 12_500.0)))
    assert given.largest_rate_requests_per_second == 0
    assert given.sentences[0].startswith("No rate keeps")


def test_doubling_moves_the_bottleneck() -> None:
    given = answered(knee(1000), helpers=Helpers(count=4, busy_seconds_per_request=4 / 1200))
    assert (given.bottleneck, given.next_bottleneck) == ("server CPU", "helpers")
    assert gains(given)["server CPU"] == pytest.approx(0.2)


def test_helpers_that_hardly_work_are_no_limit() -> None:
    given = answered(knee(1000), helpers=Helpers(count=4, busy_seconds_per_request=1e-8))
    assert given.next_bottleneck is None


def test_the_generators_limit_is_a_lower_bound_and_is_said() -> None:
    given = answered(knee(1000, "generator"))
    assert given.is_lower_bound
    assert "at least" in given.sentences[0]
    assert "lower bound" in given.sentences[1]
    assert (given.bottleneck, given.doubling) == (None, [])
    assert "not known" in given.sentences[2]


def test_a_lower_bound_of_the_server_does_not_weaken_an_answer_that_the_line_gives() -> None:
    assert not answered(knee(1000, "generator"), Line(1e6, np.full(100, 12_500.0))).is_lower_bound
