"""Verdicts: decides by intervals whether the shape that a source reports shows in the measurements.

*Holds* and *does not hold* require intervals wholly on one side; anything else is *not decided*, and missing points or
a trial run give *not enough points*. Each check stands for itself: of twenty checks without a true effect, one is
decided by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise

from sojourn.loading.confidence import Estimate
from sojourn.study.cells import Cells
from sojourn.study.decisions import (
    ABOVE,
    BOTH,
    ERROR,
    NEITHER,
    Bounds,
    Finding,
    Outcome,
    Question,
    Sample,
    centre,
    mean_of,
)
from sojourn.study.declarations import Check, Crossing, Evidence, FixedPart, Monotone, Ratio, Value, Where, Within
from sojourn.study.figures import Figure
from sojourn.study.fits import fixed_part
from sojourn.study.places import ALL, Metrics, Place, along, name, places, position, samples, together, told_apart
from sojourn.study.points import number
from sojourn.study.units import writer
from sojourn.text import format

_NO_REPETITION = "no repetition has all of its points yet"
_NOT_BOTH = "nothing was measured on both sides"
_EXPLAINS: dict[Finding, str] = {"holds": "why", "does not hold": "not so"}
Writer = Callable[[float], str]


@dataclass(frozen=True)
class Verdict:
    says: str
    metric: str
    finding: Finding
    why: str
    explanations: list[Verdict] = field(default_factory=list)
    """Verdicts on possible explanations for a finding that does not hold."""
    evidence: Evidence | None = None
    """The kind of evidence behind its points."""
    repetitions: int = 0
    """The repetitions used."""
    repetitions_to_decide: int | None = None
    """The number of repetitions that would decide it at the present spread; None if it is decided or cannot be."""
    points_to_repeat: int = 0
    """The points at which other programs took the generator's core, if only these keep it open."""
    seconds_to_decide: float | None = None
    """The time that a decision would take."""

    def __str__(self) -> str:
        return f"{self.finding} here"

    @property
    def because(self) -> list[str]:
        """Explanations that apply, those that do not, and those that are open."""
        return [
            f"{_EXPLAINS.get(each.finding, each.finding)}: {each.says}: {each.metric}: {each.why}"
            for each in self.explanations
        ]

    @property
    def to_decide(self) -> str | None:
        """The cost of a decision in words."""
        if self.seconds_to_decide is None:
            return None
        takes = format.duration(self.seconds_to_decide)
        if self.repetitions_to_decide is None:
            return f"{self.points_to_repeat:,} points would have to be measured again, which takes about {takes}"
        more = self.repetitions_to_decide - self.repetitions
        return f"about {more:,} more repetitions would decide it, which take {takes}"

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "because": self.because, "to_decide": self.to_decide}


@dataclass(frozen=True)
class _Asked:
    """A check as a statistical question, or the reason why it cannot be asked; with the format of its figures."""

    question: Question | None
    what: str = ""
    """The name of the figure."""
    expected: str = ""
    write: Writer = format.number
    unasked: str = ""
    places: str = "places"
    """What its samples describe."""

    def why(self, outcome: Outcome) -> str:
        """The figures behind the verdict."""
        assert self.question is not None
        figures, by, error = self.question.samples, outcome.by, outcome.error
        if by is not None and outcome.finding == "not decided" and (reason := by.untrusted_because or by.lacking):
            return reason
        if by is not None and not by.values:
            return _NO_REPETITION
        if len(figures) == 1:
            return f"{self.what} is {self._of(figures[0], error)}{_reach(figures[0])}; {self.expected}"
        low, high = self.question.ends()
        reach = f"from {self._middle(low)} at {low.name} to {self._middle(high)} at {high.name}"
        number = f"{len(figures)} {self.places}"
        if by is None:
            reach = f"from {self._of(low, error)} at {low.name} to {self._of(high, error)} at {high.name}"
            said = f"as expected at each of {number}, {reach}{_reach(low)}"
        elif by is self.question.mean:
            said = f"{self._of(by, error)} in the mean over {number}, {reach}"
        elif outcome.finding == "does not hold":
            said = f"{self._of(by, error)} at {by.name}{_reach(by)}, one of {number}, {reach}"
        else:
            open_ones = self.question.open_places(error)
            said = f"{self._of(by, error)} at {by.name} and open at {open_ones} of {number}, {reach}"
        return f"{self.what} is {said}; {self.expected}"

    def _of(self, sample: Sample, error: float) -> str:
        found = sample.interval(error)
        assert found is not None
        return _written(found, self.write, error)

    def _middle(self, sample: Sample) -> str:
        return self.write(centre(list(sample.values.values())))


def judge(
    check: Check,
    cells: Cells,
    figure: Callable[[str], Figure] | None = None,
    tried: str | None = None,
    error: float = ERROR,
) -> Verdict:
    """Judges a check; `figure` looks up metrics, `tried` is a reason to give no verdict."""
    write = figure(check.metric).write if figure else format.number
    asked = _asked(check, cells, write)
    if asked.question is None:
        finding: Finding = "not enough points"
        why = asked.unasked
    else:
        outcome = asked.question.outcome(error)
        finding, why = outcome.finding, asked.why(outcome)
    if tried is not None:
        return Verdict(check.says, check.metric, "not enough points", f"{tried}: {why}")
    # A finding that holds needs no explanation, and an undecided one has none yet.
    explained = (
        [judge(each, cells, figure, error=error) for each in check.because] if finding == "does not hold" else []
    )
    return Verdict(check.says, check.metric, finding, why, explained, repetitions=len(cells.repetitions))


def question(check: Check, cells: Cells) -> Question | None:
    """The statistical question of the check; None without points."""
    return _asked(check, cells, format.number).question


def _asked(check: Check, cells: Cells, write: Writer) -> _Asked:
    if isinstance(check, Ratio):
        return _ratio(check, cells)
    if isinstance(check, Within):
        return _within(check, cells, write)
    if isinstance(check, FixedPart):
        return _fixed_part(check, cells, write)
    return _monotone(check, cells) if isinstance(check, Monotone) else _crossing(check, cells)


def _ratio(check: Ratio, cells: Cells) -> _Asked:
    found = places(cells, check.left, check.right, check.over, check.places == "each")
    if not found:
        return _Asked(None, unasked=_NOT_BOTH)
    metrics = check.metric, check.right_metric or check.metric
    figures = _samples(check.places, found, "", metrics, cells, Bounds(check.least, check.most))
    return _Asked(Question(figures, mean_of(figures, ALL)), _left_over_right(check), _bounds(check), _times)


def _within(check: Within, cells: Cells, write: Writer) -> _Asked:
    found = cells.where(check.over)
    if not found:
        return _Asked(None, unasked="none of it was measured")
    names = told_apart([{each: str(value) for each, value in cell.settings.items()} for cell in found])
    bounds = Bounds(check.least, check.most)
    figures = []
    for cell, called in zip(found, names, strict=True):
        values = {each: value for each in cells.repetitions if (value := cell.value(check.metric, each)) is not None}
        reason = cell.untrusted_because(check.metric)
        untrusted_because = None if reason is None else f"{name(cell.settings)}: {reason}"
        sides = BOTH if reason is None else ABOVE if cell.is_lower_bound(check.metric) else NEITHER
        figures.append(Sample(called, values, bounds, sides, untrusted_because))
    mean = mean_of(figures, ALL)
    if check.places == "together" and mean is not None:
        untrusted_because = next((each.untrusted_because for each in figures if each.untrusted_because), None)
        figures, mean = [replace(mean, untrusted_because=untrusted_because)], None
    return _Asked(Question(figures, mean), "it", _bounds(check, write), write)


def _monotone(check: Monotone, cells: Cells) -> _Asked:
    values = along(cells, check.along, check.over)
    if (unordered := _unordered(check.along, values)) is not None:
        return _Asked(None, unasked=unordered)
    rest = {each: value for each, value in check.over.items() if each != check.along}
    whole = values[0], values[-1]
    rises = check.direction == "rises"
    figures: list[Sample] = []
    for step in dict.fromkeys([*pairwise(values), whole]):
        found = places(cells, {check.along: step[1]}, {check.along: step[0]}, rest, check.places == "each")
        if not found:
            return _Asked(None, unasked=_NOT_BOTH)
        # From end to end the figure must change, without slack.
        slack = 0.0 if step == whole else check.slack
        bounds = Bounds(least=1 - slack) if rises else Bounds(most=1 + slack)
        called = f"{check.along} {step[0]}→{step[1]}"
        figures += _samples(check.places, found, called, (check.metric, check.metric), cells, bounds)
    expected = f"expected {'more' if rises else 'less'} than 1 from end to end and in every step"
    if check.slack:
        expected += f", or {format.percent(check.slack)} back at most"
    return _Asked(Question(figures), "the change", expected, _times, places="steps")


def _crossing(check: Crossing, cells: Cells) -> _Asked:
    values = along(cells, check.along, check.over)
    if (unordered := _unordered(check.along, values)) is not None:
        return _Asked(None, unasked=unordered)
    below, above = _apart(values, check)
    if not below or not above:
        return _Asked(None, unasked=f"nothing was measured on both sides of the change along {check.along}")
    metrics = check.metric, check.right_metric or check.metric
    figures: list[Sample] = []
    for value in [*below, *above]:
        over = {**check.over, check.along: value}
        found = places(cells, check.left, check.right, over, check.places == "each")
        if not found:
            return _Asked(None, unasked=_NOT_BOTH)
        bounds = Bounds(most=1.0) if value in below else Bounds(least=1.0)
        figures += _samples(check.places, found, f"{check.along} {value}", metrics, cells, bounds)
    expected = f"expected less than 1 up to {below[-1]} and more from {above[0]} on"
    return _Asked(Question(figures), _left_over_right(check), expected, _times)


def _apart(values: Sequence[Value], check: Crossing) -> tuple[list[Value], list[Value]]:
    """The values at which left must be below right, and those at which it must be above."""
    after, before = check.after, check.before
    places = {value: number(value) or 0.0 for value in values}
    below = [value for value in values if places[value] <= (places[values[0]] if after is None else number(after) or 0)]
    least = places[values[-1]] if before is None else number(before) or 0
    return below, [value for value in values if places[value] >= least]


def _fixed_part(check: FixedPart, cells: Cells, write: Writer) -> _Asked:
    chosen = cells.where(check.over)
    reasons = [f"{name(cell.settings)}: {said}" for cell in chosen if (said := cell.untrusted_because(check.metric))]
    lines = fixed_part(check, cells)
    if lines is None:
        return _Asked(None, unasked=f"not every repetition has a line that rises along {check.along}")
    costs = centre([costs for costs, _ in lines.values()])
    bounds = Bounds(*(None if bound is None else number(bound) for bound in (check.least, check.most)))
    worth = {each: amount for each, (_, amount) in lines.items()}
    sample = Sample(ALL, worth, bounds, NEITHER if reasons else BOTH, reasons[0] if reasons else None)
    what = f"the fixed part is {write(costs)}, and the {check.along} that costs as much"
    expected = _expected(*(None if bound is None else str(bound) for bound in (check.least, check.most)))
    return _Asked(Question([sample]), what, expected, writer([cell.settings[check.along] for cell in chosen]))


def _samples(
    kind: str, found: Sequence[Place], called: str, metrics: Metrics, cells: Cells, bounds: Bounds
) -> list[Sample]:
    if kind == "together":
        return [together(found, called, metrics, cells, bounds)]
    return samples(found, called, metrics, cells, bounds)


def _written(found: Estimate, write: Writer, error: float) -> str:
    if found.low is None or found.high is None:
        return f"{write(found.value)} (one repetition: no interval)"
    level = "" if math.isclose(error, ERROR) else f" at {100 * (1 - error):.4g} %"
    return f"{write(found.value)} ({write(found.low)} to {write(found.high)}{level})"


def _reach(sample: Sample) -> str:
    """Describes what a figure can show if the generator was the limit."""
    if sample.untrusted_because is None or sample.sides in (BOTH, NEITHER):
        return ""
    return f", and {'more' if sample.sides == ABOVE else 'less'} without a generator as the limit"


def _unordered(along: str, values: Sequence[Value]) -> str | None:
    """The reason why nothing rises, falls or changes along the values."""
    if len(values) < 2:
        return f"there is only one value of {along}"
    if names := sorted(str(each) for each in values if position(each) is None):
        return f"{along} has values that are no numbers: {', '.join(names)}"
    return None


def _times(value: float) -> str:
    return f"{value:.3g}" if value < 10 else format.number(value)


def _bounds(check: Ratio | Within, write: Writer = "{:g}".format) -> str:
    return _expected(*(None if bound is None else write(bound) for bound in (check.least, check.most)))


def _expected(least: str | None, most: str | None) -> str:
    if least is not None and most is not None:
        return f"expected {least} to {most}"
    return f"expected more than {least}" if least is not None else f"expected less than {most}"


def _left_over_right(check: Ratio | Crossing) -> str:
    sides = [_side(check.left), _side(check.right)]
    if check.right_metric is not None:
        metrics = check.metric, check.right_metric
        sides = [f"{metric} {side}".strip() for metric, side in zip(metrics, sides, strict=True)]
    return " over ".join(sides)


def _side(where: Where) -> str:
    return ", ".join(
        str(value) if name == "system" else f"{name} {value}"
        for name, each in where.items()
        for value in [" or ".join(map(str, each)) if isinstance(each, list) else each]
    )
