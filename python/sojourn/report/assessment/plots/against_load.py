"""Shared parts of plots against offered load: the axis, the knee, and the points of steps."""

from __future__ import annotations

import math
from collections.abc import Callable

from sojourn.assessment.summary import Step, Summary
from sojourn.report.assessment.run import Run
from sojourn.report.chart import Axis, Guide, Missing, Point, Trait
from sojourn.report.scales import linear
from sojourn.results.records import Spread
from sojourn.text import format

TRAITS: dict[Trait, str] = {"hollow": "held out of the fit", "crossed": "limited by the generator"}
"""The meaning of hollow and crossed marks in plots against load."""


def no_steps(identifier: str, title: str, run: Run) -> Missing:
    """The replacement for a plot without steps."""
    return Missing(identifier, title, f"no step of rising load was finished: {run.because_incomplete}")


def offered_load(summary: Summary) -> Axis:
    values = [step.offered_requests_per_second for step in summary.steps]
    values += [summary.knee.high] if summary.knee else []
    return Axis("offered load (requests/s)", linear(values), format.number)


def knee(summary: Summary) -> list[Guide]:
    """The knee with its interval over repetitions; empty if none was found."""
    found = summary.knee
    if found is None or found.requests_per_second <= 0:
        return []
    name = "at least" if found.is_lower_bound else "knee"
    label = f"{name} {format.rate(found.requests_per_second)}"
    return [Guide("x", found.requests_per_second, label, found.low, found.high)]


def measured(step: Step, spread: Spread, write: Callable[[float], str]) -> Point | None:
    """A step's figure with its error bar over repetitions; None where nothing was answered, as the bar has no end."""
    if not math.isfinite(spread.median):
        return None
    low, high = write(spread.minimum), write(spread.maximum)
    text = f"{write(spread.median)} ({low} to {high}) at {_at(step)}"
    return Point(
        step.offered_requests_per_second,
        spread.median,
        text + (", held out of the fit" if step.held_out else ""),
        spread.minimum,
        spread.maximum if math.isfinite(spread.maximum) else spread.median,
        _trait(step),
    )


def predicted(step: Step, value: float | None, write: Callable[[float], str]) -> Point | None:
    """A model's prediction for a step; None without one."""
    if value is None:
        return None
    return Point(step.offered_requests_per_second, value, f"{write(value)} at {_at(step)}")


def _at(step: Step) -> str:
    return format.rate(step.offered_requests_per_second, 4)


def _trait(step: Step) -> Trait:
    # The generator's limit takes precedence over being held out: such a point says nothing about the server.
    if step.generator_limited:
        return "crossed"
    return "hollow" if step.held_out else "plain"
