"""Fits straight lines through a study's figures along a factor, separately in each repetition.

With a reference, the figures are divided by that at the reference with all other factors equal: the line then gives
coefficients as sources print them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import linear_regression

from sojourn.loading.confidence import Estimate
from sojourn.study.cells import Cell, Cells, linear_estimate
from sojourn.study.declarations import Fit, FixedPart
from sojourn.study.points import Settings, number


@dataclass(frozen=True)
class Line:
    """A fitted line, or in `why` the reason for its absence."""

    fit: Fit
    intercept: Estimate | None = None
    slope: Estimate | None = None
    why: str | None = None

    def __str__(self) -> str:
        return f"{self.fit.says}: {self.said}"

    @property
    def said(self) -> str:
        """The line in words, or the reason for its absence."""
        if self.intercept is None or self.slope is None:
            return self.why or "nothing was measured"
        return f"{_written(self.intercept)} + {_written(self.slope)} y"

    def as_json(self) -> dict[str, object]:
        return {
            "says": self.fit.says,
            "metric": self.fit.metric,
            "along": self.fit.along,
            "printed": self.fit.printed.model_dump() if self.fit.printed else None,
            "intercept": asdict(self.intercept) if self.intercept else None,
            "slope": asdict(self.slope) if self.slope else None,
            "unavailable": self.why,
        }


def fitted(fit: Fit, cells: Cells) -> Line:
    """Fits the line through the matching cells."""
    chosen = cells.where(fit.over)
    untrusted_because = next(
        (said for cell in chosen if (said := cell.untrusted_because(fit.metric)) is not None), None
    )
    if untrusted_because is not None:
        return Line(fit, why=untrusted_because)
    found = _lines(fit, chosen, cells.repetitions)
    if not found:
        return Line(fit, why=f"no repetition has two values of {fit.along}")
    intercepts, slopes = zip(*found.values(), strict=True)
    # Coefficients may be negative, so no logarithms.
    return Line(fit, linear_estimate(intercepts), linear_estimate(slopes))


def fixed_part(check: FixedPart, cells: Cells) -> dict[int, tuple[float, float]] | None:
    """By repetition, the fixed part and the amount of the factor that costs the same; None unless all lines rise.

    Repetitions with a falling line are not left out, because the others would then claim more than was measured.
    """
    fit = Fit(says=check.says, metric=check.metric, along=check.along, over=check.over)
    lines = _lines(fit, cells.where(check.over), cells.repetitions)
    if not lines or any(slope <= 0 for _, slope in lines.values()):
        return None
    return {each: (intercept, intercept / slope) for each, (intercept, slope) in lines.items()}


def _lines(fit: Fit, chosen: Sequence[Cell], repetitions: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Intercept and slope of each repetition with at least two points."""
    found = {}
    for repetition in repetitions:
        points = _points(fit, chosen, repetition)
        if len({place for place, _ in points}) > 1:
            slope, intercept = linear_regression(*zip(*points, strict=True))
            found[repetition] = (intercept, slope)
    return found


def _points(fit: Fit, chosen: Sequence[Cell], repetition: int) -> list[tuple[float, float]]:
    """Positions along the factor with their figures, divided by the reference if given."""
    references = {
        _others(cell.settings, fit.along): cell.value(fit.metric, repetition)
        for cell in chosen
        if cell.settings[fit.along] == fit.reference
    }
    points = []
    for cell in chosen:
        place, value = number(cell.settings[fit.along]), cell.value(fit.metric, repetition)
        base = 1.0 if fit.reference is None else references.get(_others(cell.settings, fit.along))
        if place is not None and value is not None and base:
            points.append((place, value / base))
    return points


def _others(settings: Settings, along: str) -> tuple[tuple[str, object], ...]:
    return tuple((name, value) for name, value in sorted(settings.items()) if name != along)


def _written(found: Estimate) -> str:
    interval = "" if found.low is None else f" ({found.low:.3g} to {found.high:.3g})"
    return f"{found.value:.3g}{interval}"
