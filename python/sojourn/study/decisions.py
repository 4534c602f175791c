"""Decides findings: figures by repetition, each tested against its bounds.

A finding about every place holds if each place's own interval lies within its bounds. That is an intersection-union
test: its error probability is that of one place, however many there are (R. Berger, Technometrics 24, 1982). It does
not hold if one place, or the mean over them, is shown to be outside; these are many tests, which share the error
probability (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sojourn.loading.confidence import LEVEL, Estimate
from sojourn.study.cells import estimate, geometric_mean

Finding = Literal["holds", "does not hold", "not decided", "not enough points"]
FINDINGS: tuple[Finding, ...] = get_args(Finding)
DECIDED: tuple[Finding, ...] = ("holds", "does not hold")
Side = Literal["above", "below"]
"""A side of a bound."""
BOTH: frozenset[Side] = frozenset(("above", "below"))
ABOVE: frozenset[Side] = frozenset(("above",))
BELOW: frozenset[Side] = frozenset(("below",))
NEITHER: frozenset[Side] = frozenset()
ERROR = 1 - LEVEL
"""The probability of a wrong decision at a single look."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of a figure."""

    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Sample:
    """A figure at a place, by repetition, with its bounds."""

    name: str
    """The place's name."""
    values: Mapping[int, float]
    bounds: Bounds
    sides: frozenset[Side] = BOTH
    """The sides on which it can be shown to lie: a lower bound cannot show that it lies below."""
    untrusted_because: str | None = None
    """The reason why it cannot be shown on both."""
    lacking: str | None = None
    """The reason why it has no values, if repetitions do not help."""

    def interval(self, error: float, repetitions: int | None = None) -> Estimate | None:
        """The figure with its interval, or with the one expected from that many repetitions with the same spread."""
        return estimate(list(self.values.values()), 1 - error, repetitions)

    def is_inside(self, error: float, repetitions: int | None = None) -> bool:
        """Returns true if it is shown to lie within its bounds."""
        least, most = self.bounds.least, self.bounds.most
        above = least is None or self._is("above", least, error, repetitions)
        return above and (most is None or self._is("below", most, error, repetitions))

    def is_outside(self, error: float, repetitions: int | None = None) -> bool:
        """Returns true if it is shown to violate a bound."""
        least, most = self.bounds.least, self.bounds.most
        below = least is not None and self._is("below", least, error, repetitions)
        return below or (most is not None and self._is("above", most, error, repetitions))

    def _is(self, side: Side, bound: float, error: float, repetitions: int | None) -> bool:
        found = self.interval(error, repetitions)
        if found is None or found.low is None or found.high is None or side not in self.sides:
            return False
        return found.low > bound if side == "above" else found.high < bound


@dataclass(frozen=True)
class Outcome:
    """The joint result of samples, the sample that alone decides it if any, and its interval's error probability."""

    finding: Finding
    by: Sample | None = None
    error: float = ERROR


@dataclass(frozen=True)
class Question:
    """Samples that must all lie within their bounds."""

    samples: Sequence[Sample]
    mean: Sample | None = None
    """The mean over samples with equal bounds: if it is outside, one of them is."""

    def outcome(self, error: float, repetitions: int | None = None) -> Outcome:
        """The result at this error probability; or the one expected from that many repetitions with the same spread."""
        ways = len(self.samples) * (2 if self.mean else 1)
        for sample in self.samples:
            if sample.is_outside(error / ways, repetitions):
                return Outcome("does not hold", sample, error / ways)
        if self.mean is not None and self.mean.is_outside(error / 2, repetitions):
            return Outcome("does not hold", self.mean, error / 2)
        open_ones = [each for each in self.samples if not each.is_inside(error, repetitions)]
        if not open_ones:
            return Outcome("holds", error=error)
        if lacking := next((each for each in open_ones if each.untrusted_because or each.lacking), None):
            return Outcome("not decided", lacking, error)
        if few := next((each for each in open_ones if len(each.values) < 2), None):
            return Outcome("not enough points", few, error)
        return Outcome("not decided", open_ones[0], error)

    def open_places(self, error: float) -> int:
        """The number of samples not shown to lie within their bounds."""
        return sum(not each.is_inside(error) for each in self.samples)

    def ends(self) -> tuple[Sample, Sample]:
        """The samples with the smallest and the largest figure."""
        known = [each for each in self.samples if each.values]
        ordered = sorted(known, key=lambda each: centre(list(each.values.values())))
        return ordered[0], ordered[-1]

    def repetitions_to_decide(self, looks: Iterable[tuple[int, float]]) -> int | None:
        """The first of the looks (repetitions with error probability) that would decide at the present spread.

        None if none of them would, or if repetitions cannot help.
        """
        return next((count for count, error in looks if self.outcome(error, count).finding in DECIDED), None)


def mean_of(samples: Sequence[Sample], name: str) -> Sample | None:
    """The mean over samples with equal bounds, in the repetitions that all have; None for fewer than two."""
    if len(samples) < 2:
        return None
    first = samples[0]
    whole = [each for each in first.values if all(each in sample.values for sample in samples)]
    values = {each: centre([sample.values[each] for sample in samples]) for each in whole}
    sides = frozenset.intersection(*(sample.sides for sample in samples))
    return Sample(name, values, first.bounds, sides)


def centre(values: Sequence[float]) -> float:
    """The geometric mean; the arithmetic mean for values that may be 0."""
    return geometric_mean(values) if all(value > 0 for value in values) else math.fsum(values) / len(values)
