"""How far a model was off: the largest error counts, below 90 % utilisation, on steps that were held out."""

from __future__ import annotations

import pytest

from example_run import example_summary
from sojourn.assessment.held_out import AIMS, distances
from sojourn.assessment.summary import PredictionError, Step, Summary, Undisturbed
from sojourn.results.records import Spread


def summary(errors: dict[int, PredictionError], **changes: object) -> Summary:
    """The example with these errors of its held-out steps, by their place; 0 of all others."""
    found = example_summary()
    none = PredictionError(requests_per_second=0.0, response_time_mean=0.0, response_time_p95=0.0)
    held = [place for place, step in enumerate(found.steps) if step.held_out]
    by_step = {held[place]: error for place, error in errors.items()}
    steps = [
        step.model_copy(update={"simulation_error": by_step.get(place, none), **(changes if place in by_step else {})})
        for place, step in enumerate(found.steps)
    ]
    return found.model_copy(update={"steps": steps})


def error(mean: float, throughput: float = 0.0) -> PredictionError:
    return PredictionError(requests_per_second=throughput, response_time_mean=mean, response_time_p95=None)


def test_what_meets_its_aim_says_so() -> None:
    throughput, mean, p95 = distances(summary({0: error(-0.1, 0.04)}))
    assert throughput is not None
    assert mean is not None
    assert (throughput.missed_by, mean.missed_by) == (None, None)
    assert mean.short == "10 %: met"
    assert p95 is not None, "the other steps have one"


def test_at_the_measured_knee_no_error_counts() -> None:
    found = summary({1: error(-0.4)})
    assert found.knee is not None
    rate = max(step.offered_requests_per_second for step in found.steps if step.simulation_error == error(-0.4))
    for knee, missed in ((rate / 0.89, True), (rate / 0.91, False)):
        at = found.model_copy(update={"knee": found.knee.model_copy(update={"requests_per_second": knee})})
        mean = distances(at)[1]
        assert mean is not None
        assert (mean.missed_by is not None) == missed
    bound = {"requests_per_second": rate, "is_lower_bound": True}
    unknown = found.model_copy(update={"knee": found.knee.model_copy(update=bound)})
    assert distances(unknown)[1] is not None


@pytest.mark.parametrize(
    ("place", "off", "lacks"),
    [
        (0, -0.4, "does not depend on the load"),
        (1, -0.4, "bursts of arrivals"),
        (1, 0.4, "wait less than at its station"),
    ],
)
def test_what_misses_its_aim_says_by_how_much_and_what_the_model_lacks(place: int, off: float, lacks: str) -> None:
    _, mean, _ = distances(summary({place: error(off)}))
    assert mean is not None
    assert mean.missed_by == pytest.approx(0.25)
    assert "missed by 25.0 points" in mean.said
    assert lacks in mean.said


def known_to(mean: float) -> Undisturbed:
    return Undisturbed.model_construct(
        response_time_mean_known_to=mean,
        response_time_p95_known_to=None,
        requests=0,
        server_cpu_seconds_per_request=None,
    )


def test_a_miss_within_what_the_measurement_is_known_to_is_not_decided() -> None:
    for precision, off, decided in ((0.14, -0.2, False), (0.2, -0.4, True)):
        _, mean, _ = distances(summary({0: error(off)}, undisturbed=known_to(precision)))
        assert mean is not None
        assert mean.error == off
        assert mean.is_decided == decided
        assert ("measured to ±14 %" in mean.short) != decided


def test_a_step_that_was_measured_too_roughly_does_not_count_beside_others() -> None:
    _, mean, _ = distances(summary({0: error(-0.4)}, undisturbed=known_to(0.3)))
    assert mean is not None
    assert mean.error == 0
    assert mean.steps_told == mean.steps - 1
    assert mean.short == f"0 %: met ({mean.steps_told} of {mean.steps} steps can tell)"


def test_steps_that_were_all_measured_too_roughly_decide_nothing() -> None:
    found = example_summary()
    steps = [
        step.model_copy(update={"undisturbed": known_to(0.3), "simulation_error": error(-0.1)})
        if step.held_out
        else step
        for step in found.steps
    ]
    _, mean, _ = distances(found.model_copy(update={"steps": steps}))
    assert mean is not None
    assert (mean.steps_told, mean.missed_by, mean.is_decided) == (0, None, False)
    assert mean.short == "10 %: not decided, measured to ±30 %"


def test_a_step_is_as_busy_as_it_was_measured_where_the_model_says_less() -> None:
    found = example_summary()
    assert found.model is not None
    step = found.steps[1]
    half = {"busy_capacity_requests_per_second": 2 * step.offered_requests_per_second}
    model = found.model.model_copy(update=half)
    used = Spread(median=0.95 / step.throughput_for_model, minimum=0.0, maximum=1.0)
    busy = step.model_copy(update={"server_cpu_seconds_per_request": used, "undisturbed": None})
    unknown = busy.model_copy(update={"server_cpu_seconds_per_request": None})
    usual = step.server_core_usual_fraction or 0.0
    assert model.utilisation(busy) == pytest.approx(0.95 + usual, rel=0.05)
    assert model.utilisation(unknown) == pytest.approx(0.5)


def test_of_a_share_of_a_processor_utilisation_is_what_was_used_of_it() -> None:
    found = example_summary()
    assert found.model is not None
    low = {"offered_requests_per_second": 0.5 * found.model.busy_capacity_requests_per_second}
    share = found.model.model_copy(update={"processor_share": 0.1})
    for used, utilisation in ((0.04, 0.5), (0.095, 0.95)):
        cpu = Spread(median=used, minimum=used, maximum=used)
        step = found.steps[1].model_copy(update={**low, "server_cpu_fraction": cpu})
        assert share.utilisation(step) == pytest.approx(utilisation)
        assert found.model.utilisation(step) == pytest.approx(0.5)


def test_steps_near_saturation_and_with_a_late_generator_do_not_count() -> None:
    model = example_summary().model
    assert model is not None
    near = {"offered_requests_per_second": 0.95 * model.busy_capacity_requests_per_second}
    for found in (summary({2: error(9.0)}, **near), summary({2: error(9.0)}, generator_limited=True)):
        _, mean, _ = distances(found)
        assert mean is not None
        assert mean.error == 0


def test_a_run_without_such_steps_has_no_distance() -> None:
    found = example_summary()
    steps: list[Step] = [step.model_copy(update={"held_out": False}) for step in found.steps]
    assert distances(found.model_copy(update={"steps": steps})) == [None] * len(AIMS)
