"""Compares predictions with measurements, and errors with the aims of the model (`held_out`).

Errors of disturbed measurements are reported but not judged, because they show neither success nor failure. The others
are judged as those of held-out steps are: below 90 % utilisation, and where the measurement is precise enough to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sojourn.assessment.held_out import AIMS, UTILISATION_MAX, Distance
from sojourn.assessment.summary import (
    Knee,
    Prediction,
    PredictionError,
    Step,
    Verdict,
    Verification,
    VerifiedLoad,
)
from sojourn.results.records import Interval
from sojourn.text import format

SAME_LOAD = 1e-4
"""Loads with a smaller relative difference are equal: the generator receives six digits."""


def compared(
    made: Verification, knee: Knee, steps: Sequence[Step], disturbances: Sequence[str], processors: float = 1.0
) -> Verification:
    """Adds the measurements to a change's prediction; `processors` is the changed server's share of its processor."""
    predicted = made.predicted_capacity_requests_per_second
    assert predicted is not None, "a change is measured after it was predicted"
    error = None if knee.is_lower_bound else relative(predicted.estimate, knee.requests_per_second)
    loads = [_beside(load, steps, knee, processors) for load in made.loads]
    beside = made.model_copy(
        update={
            "measured_knee": knee,
            "capacity_error": error,
            "is_within_interval": _meets(predicted, knee),
            "loads": loads,
            "disturbed_because": [*made.disturbed_because, *disturbances],
        }
    )
    found = list(_distances(beside))
    _, of_means, of_p95s = (
        max((each.error for _, each in found if each.aim is aim and each.tells), key=abs, default=None) for aim in AIMS
    )
    return beside.model_copy(
        update={
            "response_time_mean_error": of_means,
            "response_time_p95_error": of_p95s,
            "missed": [f"{name}: {each.short}" for name, each in found if each.missed_by is not None],
            "undecided": [f"{name}: {each.short}" for name, each in found if not each.tells],
            "verdict": _verdict(beside, [each for _, each in found]),
        }
    )


def relative(predicted: float | None, measured: float | None) -> float | None:
    """Predicted minus measured, relative to measured; None if either is unknown."""
    if predicted is None or measured is None or measured <= 0:
        return None
    return predicted / measured - 1.0


def _meets(predicted: Interval, knee: Knee) -> bool | None:
    if predicted.low == predicted.high:
        # A single repetition has no interval.
        return None
    return predicted.low <= (float("inf") if knee.is_lower_bound else knee.high) and knee.low <= predicted.high


def at_load(load: VerifiedLoad, steps: Sequence[Step]) -> Step | None:
    """The step of this load; None if it was not reached, or the generator was the limit."""
    return next((each for each in steps if _is_same(load, each) and not each.generator_limited), None)


def _beside(load: VerifiedLoad, steps: Sequence[Step], knee: Knee, processors: float) -> VerifiedLoad:
    step = at_load(load, steps)
    if step is None:
        return load
    measured = measured_at(step)
    throughput = relative(load.predicted.requests_per_second, measured.requests_per_second)
    if throughput is None:
        return load
    said = load.judged or load.predicted
    error = PredictionError(
        requests_per_second=throughput,
        response_time_mean=relative(said.response_time_mean_seconds, measured.response_time_mean_seconds),
        response_time_p95=relative(said.response_time_p95_seconds, measured.response_time_p95_seconds),
    )
    said = said.model_copy(
        update={
            "response_time_mean_known_to": step.mean_known_to(said),
            "response_time_p95_known_to": step.p95_known_to(said),
        }
    )
    used = step.server_cpu_fraction.median / processors if step.server_cpu_fraction else 0.0
    return load.model_copy(
        update={
            "judged": said,
            "utilisation": max(load.utilisation or 0.0, used, _filled(load, knee)),
            "measured": measured,
            "error": error,
        }
    )


def _filled(load: VerifiedLoad, knee: Knee) -> float:
    """The load relative to the measured capacity: 0 where that is only a bound, 1 where no load was carried."""
    if knee.is_lower_bound:
        return 0.0
    return load.offered_requests_per_second / knee.requests_per_second if knee.requests_per_second > 0 else 1.0


def measured_at(step: Step) -> Prediction:
    """The measured figures that are compared with predictions."""
    return Prediction(
        requests_per_second=step.requests_per_second.median,
        response_time_mean_seconds=step.mean_for_model,
        response_time_p95_seconds=step.p95_for_model,
    )


def _is_same(load: VerifiedLoad, step: Step) -> bool:
    offered = load.offered_requests_per_second
    return abs(step.offered_requests_per_second - offered) <= SAME_LOAD * offered


def _distances(made: Verification) -> Iterable[tuple[str, Distance]]:
    """Each judged error with its figure's name, and what it is known to."""
    knee = made.measured_knee
    if made.capacity_error is not None and knee is not None and knee.requests_per_second > 0:
        # The aim is for the median of the repetitions. Their range may excuse an error; a small one needs no excuse.
        is_met = abs(made.capacity_error) <= AIMS[0].fraction
        known_to = 0.0 if is_met else (knee.high - knee.low) / 2 / knee.requests_per_second
        yield "capacity", Distance(AIMS[0], made.capacity_error, 1.0, knee.requests_per_second, known_to)
    for load in made.loads:
        if load.error is None or load.judged is None or (load.utilisation or 0.0) >= UTILISATION_MAX:
            continue
        known = (None, load.judged.response_time_mean_known_to, load.judged.response_time_p95_known_to)
        for aim, half_width in zip(AIMS, known, strict=True):
            error = aim.of(load.error)
            if error is not None:
                yield (
                    f"{aim.name} at {format.percent(load.fraction_of_predicted_capacity)} of the predicted capacity",
                    Distance(aim, error, load.utilisation or 0.0, load.offered_requests_per_second, half_width or 0.0),
                )


def _verdict(made: Verification, distances: Iterable[Distance]) -> Verdict:
    if made.capacity_error is None and all(load.error is None for load in made.loads):
        return "not measured"
    if made.disturbed_because:
        return "disturbed"
    told = [each for each in distances if each.tells]
    if not told:
        return "not decided"
    return "missed" if any(each.missed_by is not None for each in told) else "within the aims"
