"""Compares a model with held-out steps and with the aims for its errors, and suggests what it lacks.

The aims apply to steps below 90 % utilisation, by the model's capacity or as measured, whichever is larger, and below
90 % of the load at which the knee was measured. A step whose measured figure is too imprecise to tell whether its error
meets the aim does not count, but is mentioned. The place and the sign of the largest error suggest what the model
lacks; that is a hint, not a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sojourn.assessment.summary import Knee, Model, PredictionError, Step, Summary
from sojourn.text import format

UTILISATION_MAX = 0.9
"""Above this utilisation, small errors of the capacity cause large errors of times."""
_LIGHT = 0.5
"""Below this utilisation, waiting is negligible."""
_DELAYS = "a delay that does not depend on the load: wake-ups, timers, the network"
_WAITING = (
    "waiting that its station does not model: bursts of arrivals, other work on the core, requests that block others"
)
_LESS = "a reason to wait less than at its station: overlapping work, or delays that were rarer than in the fit"
_SERVED = "a reason for missing or additional throughput: failures, late clients, responses of other sizes"


@dataclass(frozen=True)
class Aim:
    """The aim for the error of a figure."""

    name: str
    fraction: float
    of: Callable[[PredictionError], float | None]
    known_to: Callable[[Step], float | None]
    """The relative precision of the measured figure, or of its comparison with a simulation of the same requests."""


AIMS = (
    Aim("throughput", 0.05, lambda error: error.requests_per_second, lambda _: None),
    Aim(
        "mean response time",
        0.15,
        lambda error: error.response_time_mean,
        lambda step: step.mean_known_to(step.simulation),
    ),
    Aim(
        "p95 response time",
        0.25,
        lambda error: error.response_time_p95,
        lambda step: step.p95_known_to(step.simulation),
    ),
)


@dataclass(frozen=True)
class Distance:
    """A figure's largest error, and where it occurs."""

    aim: Aim
    error: float
    """Predicted over measured, minus one."""
    utilisation: float
    offered_requests_per_second: float
    known_to: float = 0.0
    """Half the width of the measured figure's 95 % interval, relative."""
    steps_told: int = 1
    """The steps precise enough to tell, of which this is the largest error; 0 if none is."""
    steps: int = 1

    @property
    def missed_by(self) -> float | None:
        """By how much it exceeds the aim; None if it meets the aim, or the measurement cannot tell."""
        beyond = abs(self.error) - self.aim.fraction
        return beyond if beyond > 0 and self.tells else None

    @property
    def tells(self) -> bool:
        """True if the measured figure is known to within the aim, or misses it by more than it is known to."""
        return self.known_to <= self.aim.fraction or abs(self.error) - self.known_to > self.aim.fraction

    @property
    def is_decided(self) -> bool:
        """True if the whole interval of the error meets the aim, or misses it."""
        return self.tells and abs(abs(self.error) - self.aim.fraction) > self.known_to

    @property
    def short(self) -> str:
        """The error for a table's cell."""
        said, roughly = format.percent(abs(self.error)), f"measured to ±{format.percent(self.known_to)}"
        if not self.tells:
            return f"{said}: not decided, {roughly}"
        if self.missed_by is None:
            said += ": met"
        else:
            said += f": missed by {_points(self.missed_by)}" + ("" if self.is_decided else f", {roughly}")
        return said if self.steps_told == self.steps else f"{said} ({self.steps_told} of {self.steps} steps can tell)"

    @property
    def said(self) -> str:
        """The error, whether it meets the aim, and otherwise what the model may lack."""
        where = f"at {format.rate(self.offered_requests_per_second)}, {format.percent(self.utilisation)} utilisation"
        if self.missed_by is None:
            return f"{self.short}; {where}"
        side = "less" if self.error < 0 else "more"
        return f"{self.short}; {where} it predicts {side} than was measured. It lacks {self._lacks}"

    @property
    def _lacks(self) -> str:
        if self.aim is AIMS[0]:
            return _SERVED
        if self.error > 0:
            return _LESS
        return _DELAYS if self.utilisation < _LIGHT else _WAITING


def distances(summary: Summary) -> list[Distance | None]:
    """For each aim, the largest error over the held-out steps below 90 % utilisation that can tell.

    If none can, the error of the step that is known best; None without a step.
    """
    return [_largest(aim, summary) for aim in AIMS]


def as_it_was_error(summary: Summary) -> float | None:
    """The largest error of the mean response time over all windows, with the measured loss of the core added.

    Over held-out steps below 90 % utilisation; None where the loss is unknown.
    """
    assert summary.model is not None, "callers ask only where there is a model"
    found = [
        abs(step.simulation.response_time_mean_as_it_was_seconds / step.response_time_mean_seconds.median - 1)
        for step in summary.steps
        if _counts(step, summary.model, summary.knee)
        and step.simulation is not None
        and step.simulation.response_time_mean_as_it_was_seconds is not None
    ]
    return max(found, default=None)


def _largest(aim: Aim, summary: Summary) -> Distance | None:
    assert summary.model is not None, "callers ask only where there is a model"
    found = [
        Distance(
            aim,
            error,
            summary.model.utilisation(step),
            step.offered_requests_per_second,
            aim.known_to(step) or 0.0,
        )
        for step in summary.steps
        if _counts(step, summary.model, summary.knee)
        and step.simulation_error is not None
        and (error := aim.of(step.simulation_error)) is not None
    ]
    told = [each for each in found if each.tells]
    if not told:
        return replace(min(found, key=lambda each: each.known_to), steps_told=0, steps=len(found)) if found else None
    return replace(max(told, key=lambda each: abs(each.error)), steps_told=len(told), steps=len(found))


def _counts(step: Step, model: Model, knee: Knee | None) -> bool:
    highest = None if knee is None or knee.is_lower_bound else UTILISATION_MAX * knee.requests_per_second
    return (
        step.held_out
        and not step.generator_limited
        and model.utilisation(step) < UTILISATION_MAX
        and (highest is None or step.offered_requests_per_second < highest)
    )


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f} points"
