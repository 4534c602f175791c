"""Compares a model with held-out steps and with the aims for its errors, and suggests what it lacks.

The aims apply to steps below 90 % utilisation, by the model's capacity or as measured, whichever is larger. The place
and the sign of the largest error suggest what the model lacks; that is a hint, not a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sojourn.assessment.summary import Model, Prediction, PredictionError, Step, Summary, Undisturbed
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
    known_to: Callable[[Prediction | Undisturbed], float | None]
    """The relative precision of the measured figure, or of its comparison with a simulation of the same requests."""


AIMS = (
    Aim("throughput", 0.05, lambda error: error.requests_per_second, lambda _: None),
    Aim(
        "mean response time",
        0.15,
        lambda error: error.response_time_mean,
        lambda figures: figures.response_time_mean_known_to,
    ),
    Aim(
        "p95 response time",
        0.25,
        lambda error: error.response_time_p95,
        lambda figures: figures.response_time_p95_known_to,
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

    @property
    def missed_by(self) -> float | None:
        """By how much it exceeds the aim; None if it meets the aim."""
        beyond = abs(self.error) - self.aim.fraction
        return beyond if beyond > 0 else None

    @property
    def is_decided(self) -> bool:
        """True if the measured figure is precise enough to decide whether the error meets the aim."""
        return abs(abs(self.error) - self.aim.fraction) > self.known_to

    @property
    def short(self) -> str:
        """The error for a table's cell."""
        missed = self.missed_by
        said = format.percent(abs(self.error)) + (": met" if missed is None else f": missed by {_points(missed)}")
        return said if missed is None or self.is_decided else f"{said}, measured to ±{format.percent(self.known_to)}"

    @property
    def said(self) -> str:
        """The error, whether it meets the aim, and otherwise what the model may lack."""
        where = f"at {format.rate(self.offered_requests_per_second)}, {format.percent(self.utilisation)} utilisation"
        if self.missed_by is None:
            return f"{self.short} ({where})"
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
    """For each aim, the largest error over held-out steps below 90 % utilisation; None without such a step."""
    return [_largest(aim, summary) for aim in AIMS]


def as_it_was_error(summary: Summary) -> float | None:
    """The largest error of the mean response time over all windows, with the measured loss of the core added.

    Over held-out steps below 90 % utilisation; None where the loss is unknown.
    """
    assert summary.model is not None, "callers ask only where there is a model"
    found = [
        abs(step.simulation.response_time_mean_as_it_was_seconds / step.response_time_mean_seconds.median - 1)
        for step in summary.steps
        if _counts(step, summary.model)
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
            _known_to(aim, step),
        )
        for step in summary.steps
        if _counts(step, summary.model)
        and step.simulation_error is not None
        and (error := aim.of(step.simulation_error)) is not None
    ]
    return max(found, key=lambda each: abs(each.error), default=None)


def _known_to(aim: Aim, step: Step) -> float:
    known = [aim.known_to(each) for each in (step.simulation, step.undisturbed) if each is not None]
    return next((each for each in known if each is not None), 0.0)


def _counts(step: Step, model: Model) -> bool:
    return step.held_out and not step.generator_limited and model.utilisation(step) < UTILISATION_MAX


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f} points"
