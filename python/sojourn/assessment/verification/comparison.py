"""Compares predictions with measurements, and errors with the aims of the model (`held_out`).

Errors of disturbed measurements are reported but not judged, because they show neither success nor failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sojourn.assessment.held_out import AIMS
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


def compared(made: Verification, knee: Knee, steps: Sequence[Step], disturbances: Sequence[str]) -> Verification:
    """Adds the measurements to a change's prediction."""
    predicted = made.predicted_capacity_requests_per_second
    assert predicted is not None, "a change is measured after it was predicted"
    error = None if knee.is_lower_bound else relative(predicted.estimate, knee.requests_per_second)
    loads = [_beside(load, steps) for load in made.loads]
    errors = [load.error for load in loads if load.error is not None]
    beside = made.model_copy(
        update={
            "measured_knee": knee,
            "capacity_error": error,
            "is_within_interval": _meets(predicted, knee),
            "response_time_mean_error": _largest(error.response_time_mean for error in errors),
            "response_time_p95_error": _largest(error.response_time_p95 for error in errors),
            "loads": loads,
            "disturbed_because": [*made.disturbed_because, *disturbances],
        }
    )
    missed = list(_missed(beside))
    return beside.model_copy(update={"missed": missed, "verdict": _verdict(beside, missed)})


def relative(predicted: float | None, measured: float | None) -> float | None:
    """Predicted minus measured, relative to measured; None if either is unknown."""
    if predicted is None or measured is None or measured <= 0:
        return None
    return predicted / measured - 1.0


def _largest(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None), key=abs, default=None)


def _meets(predicted: Interval, knee: Knee) -> bool | None:
    if predicted.low == predicted.high:
        # A single repetition has no interval.
        return None
    return predicted.low <= (float("inf") if knee.is_lower_bound else knee.high) and knee.low <= predicted.high


def _beside(load: VerifiedLoad, steps: Sequence[Step]) -> VerifiedLoad:
    step = next((each for each in steps if _is_same(load, each) and not each.generator_limited), None)
    if step is None:
        return load
    measured = Prediction(
        requests_per_second=step.requests_per_second.median,
        response_time_mean_seconds=step.mean_for_model,
        response_time_p95_seconds=step.p95_for_model,
    )
    said = load.predicted
    throughput = relative(said.requests_per_second, measured.requests_per_second)
    if throughput is None:
        return load
    error = PredictionError(
        requests_per_second=throughput,
        response_time_mean=relative(said.response_time_mean_seconds, measured.response_time_mean_seconds),
        response_time_p95=relative(said.response_time_p95_seconds, measured.response_time_p95_seconds),
    )
    return load.model_copy(update={"measured": measured, "error": error})


def _is_same(load: VerifiedLoad, step: Step) -> bool:
    offered = load.offered_requests_per_second
    return abs(step.offered_requests_per_second - offered) <= SAME_LOAD * offered


def _missed(made: Verification) -> Iterable[str]:
    if made.capacity_error is not None and abs(made.capacity_error) > AIMS[0].fraction:
        yield _said("capacity", made.capacity_error, AIMS[0].fraction)
    for load in made.loads:
        if load.error is None:
            continue
        for aim in AIMS:
            error = aim.of(load.error)
            if error is not None and abs(error) > aim.fraction:
                at = f"at {format.percent(load.fraction_of_predicted_capacity)} of the predicted capacity"
                yield _said(f"{aim.name} {at}", error, aim.fraction)


def _said(name: str, error: float, aim: float) -> str:
    return f"{name}: {format.error(error)}, {100 * (abs(error) - aim):.1f} points beyond the aim of {aim:.0%}"


def _verdict(made: Verification, missed: Sequence[str]) -> Verdict:
    if made.capacity_error is None and all(load.error is None for load in made.loads):
        return "not measured"
    if made.disturbed_because:
        return "disturbed"
    return "missed" if missed else "within the aims"
