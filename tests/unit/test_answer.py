"""The answer: what bounds the rate, what is not known, and that nothing absurd is ever said."""

from __future__ import annotations

import math
import re
from random import Random

import numpy as np
import pytest

from sojourn.assessment import plausibility
from sojourn.assessment.answer import DEARER_MAX, Evidence, answer
from sojourn.assessment.resources import Helpers, Line, LogRates
from sojourn.assessment.summary import Answer, Knee, Model, Prediction, PredictionError, Step
from sojourn.loading.record import Saturation, Use
from sojourn.loading.saturation import RESOURCES
from sojourn.results.records import Interval, Spread

TARGET = 0.2
RATES = LogRates(average=1.0, peak=4.0)


def same(value: float) -> Spread:
    return Spread(median=value, minimum=value, maximum=value)


def step(rate: float, busy: float | None = None, own: float | None = None, got: float | None = None) -> Step:
    within = got is None or got >= 0.97 * rate
    return Step(
        offered_requests_per_second=rate,
        repetitions=1,
        requests_per_second=same(rate if got is None else got),
        bytes_per_second=same(1000 * rate),
        time_to_first_byte_p95_seconds=same(0.001),
        response_time_mean_seconds=same(0.001),
        response_time_p50_seconds=same(0.001),
        response_time_p95_seconds=same(0.001),
        response_time_p99_seconds=same(0.001),
        error_fraction=same(0.0),
        connections_open_mean=same(1.0),
        server_cpu_fraction=None if own is None and busy is None else same(busy if own is None else own),  # type: ignore[arg-type]
        server_cpu_seconds_per_request=None,
        server_core_busy_fraction=None if busy is None else same(busy),
        generator_cpu_fraction=same(0.2),
        generator_limited=False,
        steady=True,
        within_target=within,
        held_out=False,
        closed_form=None,
        simulation=None,
        closed_form_error=None,
        simulation_error=None,
    )


STEPS = (step(500, 0.5), step(900, 0.9), step(1100, 0.99, got=1000))
COSTS = tuple(zip(STEPS, (0.0005, 0.0008, 0.0007), strict=True))


def knee(rate: float = 1000, reason: str = "throughput", others: float | None = 0.02) -> Knee:
    return Knee.model_validate(
        {
            "requests_per_second": rate,
            "low": rate,
            "high": rate,
            "per_repetition": [rate],
            "others_fraction": others,
            "reason": reason,
            "is_lower_bound": reason in ("generator", "not reached"),
        }
    )


def saturation(**values: list[float | None]) -> Saturation:
    """Resources by name at the loads of `STEPS`."""
    names = {"cpu": "CPU", "queue": "accept queue", "helpers": "helpers", "disk": "disk"}
    by_name = {names[key]: value for key, value in values.items()}
    uses = [
        Use(name=each.name, criterion=each.criterion, limit=each.limit, unit=each.unit, values=by_name[each.name])
        for each in RESOURCES
        if each.name in by_name
    ]
    loads, rates = ["500/s", "900/s", "1,100/s"], [500.0, 900.0, 1100.0]
    return Saturation(loads=loads, uses=uses, first=None, at=None, sentence="", rates=rates)


def answered(
    found: Knee,
    line: Line | None = None,
    helpers: Helpers | None = None,
    model: Model | None = None,
    steps: tuple[Step, ...] = STEPS,
    seen: Saturation | None = None,
) -> Answer:
    return answer(Evidence(found, steps, model, seen, line, helpers, RATES, TARGET, 1))


def gains(given: Answer) -> dict[str, float]:
    return {doubling.resource: doubling.gain_fraction for doubling in given.doubling}


NARROW_LINE = Line(1e6, np.full(100, 12_500.0))
"""12,500 bytes over 1 Mbit/s: 0.1 s each, at most 10/s, less for the p95 to stay within 0.2 s."""


def test_alone_the_server_is_the_bottleneck_and_doubling_it_doubles_the_rate() -> None:
    given = answered(knee())
    assert (given.bottleneck, given.next_bottleneck) == ("server CPU", None)
    assert given.largest_rate_requests_per_second == 1000
    assert gains(given) == {"server CPU": pytest.approx(1.0)}
    assert given.headroom_over_log_peak == 250


def test_a_narrow_line_saturates_first_and_only_doubling_it_helps() -> None:
    given = answered(knee(), NARROW_LINE)
    assert (given.bottleneck, given.next_bottleneck) == ("access line", "server CPU")
    assert 1 < given.largest_rate_requests_per_second < 10
    assert given.largest_rate_requests_per_second == pytest.approx(NARROW_LINE.largest_rate(TARGET, 1))
    assert gains(given)["access line"] == pytest.approx(1.0)
    assert gains(given)["server CPU"] == pytest.approx(0.0)


def test_a_line_too_slow_for_the_target_at_any_rate_says_so() -> None:
    given = answered(knee(), Line(1e5, np.full(100, 12_500.0)))
    assert given.largest_rate_requests_per_second == 0
    assert given.sentences[0].startswith("No rate keeps")


class KnownLine(Line):
    """A line whose limit is given, 1/s per 100 kbit/s: simulating it would take half a second."""

    def largest_rate(self, target_p95_seconds: float, seed: int) -> float:
        return self.bits_per_second / 1e5


def line_of(requests_per_second: float) -> Line:
    return KnownLine(requests_per_second * 1e5, np.full(2, 12_500.0))


SPREAD = knee().model_copy(update={"low": 800.0, "high": 1200.0, "per_repetition": [800.0, 1000.0, 1200.0]})


def test_a_line_within_the_interval_of_the_knee_and_below_it_ends_the_answer() -> None:
    given = answered(SPREAD, line_of(900))
    assert (given.largest_rate_requests_per_second, given.bottleneck) == (900, "access line")
    assert (given.low_requests_per_second, given.high_requests_per_second) == (800, 900)
    assert "the server may reach its own limit at 800 requests/s" in given.interval_because


def test_a_line_within_the_interval_of_the_knee_and_above_it_ends_the_interval() -> None:
    given = answered(SPREAD, line_of(1100))
    assert (given.largest_rate_requests_per_second, given.bottleneck) == (1000, "server CPU")
    assert (given.low_requests_per_second, given.high_requests_per_second) == (800, 1100)
    assert "the access line carries 1,100 requests/s at most" in given.interval_because


def test_a_lower_bound_ends_at_the_line_too() -> None:
    given = answered(knee(reason="generator"), line_of(1500))
    assert (given.is_lower_bound, given.high_requests_per_second) == (True, 1500)
    assert "The access line carries 1,500 requests/s at most." in given.sentences
    assert "other work" not in " ".join(given.sentences)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("time to first byte", "No rate keeps the p95 within 200 ms: the p95 time to first byte passed the target"),
        ("errors", "No rate keeps requests from failing: requests began to fail"),
    ],
)
def test_a_target_that_no_load_meets_is_answered_in_these_words(reason: str, said: str) -> None:
    missed = tuple(each.model_copy(update={"within_target": False}) for each in STEPS)
    for line in (None, line_of(900)):
        given = answered(knee(0, reason).model_copy(update={"high": 500.0}), line, steps=missed)
        assert given.largest_rate_requests_per_second == given.low_requests_per_second == 0
        assert not given.is_lower_bound
        assert given.sentences[0].startswith(said)
    beside_others = answered(knee(0, reason, others=0.4), steps=missed)
    assert beside_others.sentences[0].startswith("No rate that was measured kept")


def test_doubling_moves_the_bottleneck() -> None:
    given = answered(knee(), helpers=Helpers(count=4, busy_seconds_per_request=4 / 1200))
    assert (given.bottleneck, given.next_bottleneck) == ("server CPU", "helpers")
    assert gains(given)["server CPU"] == pytest.approx(0.2)


def test_helpers_that_hardly_work_are_no_limit() -> None:
    given = answered(knee(), helpers=Helpers(count=4, busy_seconds_per_request=1e-8))
    assert given.next_bottleneck is None


def test_helpers_of_which_a_starved_machine_says_that_they_could_do_millions_are_withheld() -> None:
    given = answered(knee(), helpers=Helpers(count=4, busy_seconds_per_request=4 / 90_000))
    assert given.next_bottleneck is None
    assert [each.figure for each in given.withheld] == ["limit of the helpers"]


def test_helpers_that_did_more_than_their_limit_are_withheld() -> None:
    given = answered(knee(), helpers=Helpers(count=4, busy_seconds_per_request=4 / 300))
    assert given.bottleneck == "server CPU"
    assert "kept up with" in given.withheld[0].reason


@pytest.mark.parametrize("reason", ["generator", "not reached"])
def test_a_limit_that_is_not_the_servers_is_a_lower_bound_and_is_said(reason: str) -> None:
    given = answered(knee(reason=reason))
    assert given.is_lower_bound
    assert given.high_requests_per_second is None
    assert "at least" in given.sentences[0]
    assert given.sentences[1].startswith("This is a lower bound, and the bottleneck is unknown:")
    assert (given.bottleneck, given.doubling) == (None, [])


def test_a_lower_bound_of_the_server_does_not_weaken_an_answer_that_the_line_gives() -> None:
    assert not answered(knee(reason="generator"), NARROW_LINE).is_lower_bound


def test_other_work_on_the_servers_core_makes_a_lower_bound_without_a_bottleneck() -> None:
    given = answered(knee(others=0.4))
    assert given.is_lower_bound
    assert given.bottleneck is None
    assert "other work had 40 %" in given.bottleneck_because


def test_other_work_before_the_first_stage_makes_a_lower_bound_though_it_spared_the_knee() -> None:
    given = answer(Evidence(knee(), STEPS, None, None, None, None, RATES, TARGET, 1, other_work_before=0.25))
    assert given.is_lower_bound
    assert given.bottleneck is None
    assert "25 % of the server's core before the first stage" in given.bottleneck_because
    assert not answered(knee()).is_lower_bound


def test_a_core_that_was_hardly_busy_is_not_the_bottleneck() -> None:
    idle = (step(500, 0.05), step(900, 0.12), step(1100, 0.18, got=1000))
    given = answered(knee(), steps=idle)
    assert given.bottleneck is None
    assert "look for a limit in the server" in given.bottleneck_because


def test_what_was_full_at_the_knee_is_named_with_its_figure() -> None:
    idle = (step(500, 0.05), step(900, 0.12), step(1100, 0.18, got=1000))
    given = answered(knee(), steps=idle, seen=saturation(cpu=[0.1, 0.2, 0.2], disk=[0.1, 0.5, 1.5]))
    assert given.bottleneck == "disk"
    assert "1.5 threads waiting on average" in given.bottleneck_because


def test_the_cause_is_named_before_its_effect() -> None:
    given = answered(knee(), seen=saturation(cpu=[0.5, 0.8, 0.98], queue=[0.0, 3.0, 30.0]))
    assert given.bottleneck == "server CPU"
    # Once its queue overflows, a server may use less of its core than before.
    given = answered(knee(), seen=saturation(cpu=[0.5, 0.95, 0.86], queue=[0.0, 0.0, 30.0]))
    assert given.bottleneck == "server CPU"
    assert "95 %" in given.bottleneck_because
    given = answered(knee(), seen=saturation(cpu=[0.95, 0.8, 0.8], queue=[0.0, 0.0, 30.0]))
    assert given.bottleneck == "accept queue"


def test_a_generator_at_its_limit_beside_a_full_core_leaves_an_interval() -> None:
    found = knee(reason="generator").model_copy(update={"is_lower_bound": False, "high": 1080.0})
    given = answered(found, seen=saturation(cpu=[0.5, 0.93, 0.93], queue=[0.0, 0.0, 5.0]))
    assert (given.bottleneck, given.is_lower_bound, given.high_requests_per_second) == ("server CPU", False, 1080.0)
    assert "busy already" in given.bottleneck_because
    assert "upper end" in " ".join(given.interval_because)
    beside_others = answered(found.model_copy(update={"others_fraction": 0.4}))
    assert beside_others.high_requests_per_second is None
    assert "upper end" not in " ".join(beside_others.interval_because)


def test_beside_other_work_the_whole_core_is_the_upper_end() -> None:
    cheap = [each.model_copy(update={"server_cpu_seconds_per_request": same(cost)}) for each, cost in COSTS]
    given = answered(knee(others=0.3), steps=tuple(cheap))
    assert (given.is_lower_bound, given.low_requests_per_second) == (True, 1000)
    # Below the knee a request costs more, because the server is woken for it.
    assert given.high_requests_per_second == pytest.approx(DEARER_MAX / 0.0007)
    assert "without it the server would come to 1,430, at the least CPU time" in given.interval_because[-1]
    assert any("Without the other work it would come to 1,860 requests/s at most" in each for each in given.sentences)
    assert answered(knee(), steps=tuple(cheap)).high_requests_per_second == 1000
    far = tuple(each.model_copy(update={"server_cpu_seconds_per_request": same(1e-6)}) for each in STEPS)
    assert answered(knee(others=0.3), steps=far).high_requests_per_second is None


def test_sources_that_disagree_name_nothing() -> None:
    helpers = Helpers(count=4, busy_seconds_per_request=4 / 950)
    given = answered(knee(), helpers=helpers, seen=saturation(cpu=[0.5, 0.8, 0.98]))
    assert given.bottleneck is None
    assert "the server CPU was full, but by its own limit the helpers" in given.bottleneck_because


FITTED = Model(
    jobs_in_service_limit=None,
    mean_demand_seconds=1e-3,
    demand_squared_coefficient_of_variation=1.0,
    calibration_factor=Interval(estimate=1.1, low=1.0, high=1.2),
    latency_seconds=0.0,
    interruption_seconds=0.0,
    latency_p95_seconds=0.0,
    interruption_p95_seconds=0.0,
    busy_capacity_requests_per_second=1100.0,
    capacity_requests_per_second=1000.0,
    steps_fitted=2,
    steps_held_out=1,
    held_out_error_requests_per_second=None,
    held_out_error_response_time_mean=None,
    held_out_error_response_time_p95=None,
    notes=[],
)


def test_a_model_that_fits_is_believed() -> None:
    assert plausibility.model(FITTED, STEPS) is None


@pytest.mark.parametrize(
    ("fitted", "steps"),
    [
        (FITTED.model_copy(update={"calibration_factor": Interval(estimate=9.0, low=8.0, high=10.0)}), STEPS),
        (FITTED.model_copy(update={"capacity_requests_per_second": 1e24}), STEPS),
        (FITTED.model_copy(update={"capacity_requests_per_second": math.nan}), STEPS),
        (
            FITTED,
            (
                STEPS[0].model_copy(
                    update={
                        "simulation_error": PredictionError(
                            requests_per_second=0.0, response_time_mean=-0.99, response_time_p95=0.0
                        )
                    }
                ),
                *STEPS[1:],
            ),
        ),
    ],
)
def test_a_model_that_the_measurements_contradict_is_withheld(fitted: Model, steps: tuple[Step, ...]) -> None:
    assert plausibility.model(fitted, steps) is not None


def test_a_model_is_not_judged_by_a_step_that_was_measured_too_roughly() -> None:
    off = PredictionError(requests_per_second=0.0, response_time_mean=-0.99, response_time_p95=0.0)
    said = Prediction(
        requests_per_second=1.0,
        response_time_mean_seconds=1.0,
        response_time_p95_seconds=1.0,
    )
    for known_to, is_believed in ((0.4, False), (0.6, True)):
        prediction = said.model_copy(update={"response_time_mean_known_to": known_to})
        rough = STEPS[0].model_copy(update={"simulation_error": off, "simulation": prediction})
        assert (plausibility.model(FITTED, (rough, *STEPS[1:])) is None) == is_believed


def test_a_model_is_not_judged_by_steps_near_its_capacity() -> None:
    # Of a busy capacity of 1,100 requests/s; the server kept up by 1,000, for as long as the step took.
    near = step(1000, 0.99).model_copy(
        update={
            "simulation_error": PredictionError(
                requests_per_second=0.0, response_time_mean=-0.99, response_time_p95=-0.99
            )
        }
    )
    assert plausibility.model(FITTED, (*STEPS[:2], near)) is None


MEASUREMENTS = 3000
REASONS = ("throughput", "time to first byte", "errors", "generator", "not reached")


def measured(random: Random) -> Evidence:
    """Measurements as a starved machine may give them: contradictory, of any size, with holes."""

    def rate() -> float:
        return random.choice([0.0, 1.0, 10 ** random.uniform(-6, 7)])

    def share() -> float | None:
        return random.choice([None, 0.0, 1.0, random.random()])

    def chance() -> bool:
        return random.random() < 0.5

    rates = sorted(rate() + 0.1 for _ in range(random.randrange(6)))
    steps = [
        step(each, share(), None, random.choice([None, rate()])).model_copy(
            update={
                "within_target": chance(),
                "generator_limited": chance(),
                "server_cpu_seconds_per_request": random.choice([None, same(10 ** random.uniform(-12, 3))]),
            }
        )
        for each in rates
    ]
    per_repetition = [rate() for _ in range(random.randrange(1, 5))]
    reason = random.choice(REASONS)
    found = Knee.model_validate(
        {
            "requests_per_second": sorted(per_repetition)[len(per_repetition) // 2],
            "low": min(rate(), *per_repetition),
            "high": max(rate(), *per_repetition),
            "per_repetition": per_repetition,
            "others_fraction": share(),
            "reason": reason,
            "is_lower_bound": reason in ("generator", "not reached"),
        }
    )
    uses = [
        Use(
            name=each.name,
            criterion=each.criterion,
            limit=each.limit,
            unit=each.unit,
            values=[random.choice([None, 0.0, 0.95, 99.0]) for _ in rates],
        )
        for each in RESOURCES
    ]
    loads = [f"{rate:g}" for rate in rates]
    seen = Saturation(loads=loads, uses=uses, first=None, at=None, sentence="", rates=rates)
    busy = random.choice([0.0, 1e-30, 1e-12, 10 ** random.uniform(-9, 0)])
    line = KnownLine(10 ** random.uniform(3, 12), np.full(2, 12_500.0))
    fitted = FITTED.model_copy(update={"capacity_requests_per_second": random.choice([rate(), 1e24, math.inf])})
    peak = random.choice([0.0, 10 ** random.uniform(-3, 4)])
    return Evidence(
        knee=found,
        steps=steps,
        model=fitted if plausibility.model(fitted, steps) is None else None,
        saturation=random.choice([None, seen]),
        line=random.choice([None, line]),
        helpers=random.choice([None, Helpers(random.randrange(1, 65), busy)]),
        rates=LogRates(peak / 4, peak),
        target_p95_seconds=TARGET,
        seed=1,
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_measurement_makes_an_absurd_answer(seed: int) -> None:
    random = Random(seed)
    for _ in range(MEASUREMENTS):
        judge(measured(random))


def judge(evidence: Evidence) -> None:
    given = answer(evidence)
    highest = max([evidence.knee.high, *(each.requests_per_second.maximum for each in evidence.steps)])
    bound = plausibility.LIMIT_OVER_HIGHEST_MAX * highest
    said = [
        given.largest_rate_requests_per_second,
        given.low_requests_per_second,
        given.high_requests_per_second,
        *(each.limit_requests_per_second for each in given.resources),
        *(each.requests_per_second for each in given.doubling),
    ]
    for rate in said:
        assert rate is None or (math.isfinite(rate) and 0 <= rate <= bound)
    assert given.low_requests_per_second <= given.largest_rate_requests_per_second
    line_limit = next(each.limit_requests_per_second for each in given.resources if each.name == "access line")
    if line_limit is not None:
        assert given.largest_rate_requests_per_second <= line_limit
        assert given.high_requests_per_second is not None
        assert given.high_requests_per_second <= line_limit
    if given.bottleneck is not None:
        used = {each.name: each.utilisation for each in given.resources}.get(given.bottleneck)
        assert (
            used is None
            or used >= plausibility.BOTTLENECK_UTILISATION_MIN
            or not given.largest_rate_requests_per_second
        )
    assert given.bottleneck_because
    assert (given.lower_bound_because is not None) == given.is_lower_bound
    assert all(math.isfinite(each.gain_fraction) for each in given.doubling)
    text = " ".join([*given.sentences, given.bottleneck_because, *(each.reason for each in given.withheld)])
    assert not re.search(r"nan|inf\b|∞|None|e\+\d\d", text), text
