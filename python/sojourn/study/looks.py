"""Looking at a study's points again after more repetitions, without being right by chance more often.

What is open after the planned repetitions is measured on, and looked at whenever there are half as many again. Who
looks often sees something by chance sooner or later, so the error of 5 % is spent over the looks: each has half of what
is left. That is an alpha-spending function (K. Lan, D. DeMets, Biometrika 70, 1983), and the sum bounds the error
whatever the looks have in common (Bonferroni). The first look that decides counts; what comes later changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from sojourn.study.cells import Cells
from sojourn.study.checks import Verdict, judge, question
from sojourn.study.declarations import SYSTEM, Check
from sojourn.study.document import Study
from sojourn.study.points import Point, Settings, cells, matches, shuffled
from sojourn.study.runner import estimate_seconds
from sojourn.study.samples import DECIDED, ERROR

GROWTH = 1.5
"""Of the repetitions, from look to look."""
LOOKS_MAX = 8
"""After which a finding stays open: seventeen times the planned repetitions."""
_LOOKS_FORESEEN = 20
"""How far ahead it is said what a decision would take."""
QUICK = "--quick is to try, not to believe"


def schedule(first: int, looks: int = LOOKS_MAX) -> list[tuple[int, float]]:
    """After how many repetitions it is looked at, and with which error."""
    counts = [first]
    while len(counts) < looks:
        counts.append(max(counts[-1] + 1, math.ceil(counts[-1] * GROWTH)))
    return [(count, ERROR / 2 ** (look + 1)) for look, count in enumerate(counts)]


@dataclass(frozen=True)
class Looks:
    """What has been measured of a study, looked at."""

    study: Study
    cells: Cells

    def verdict(self, check: Check) -> Verdict:
        """By the first look that decides, or else the last for which all points are there."""
        study = self.study
        if study.tried or not study.until_decided:
            verdict = judge(check, self.cells, study.figure, QUICK if study.tried else None)
            return verdict if study.tried else self._foreseen(check, verdict, self.cells)
        found: Verdict | None = None
        for count, error in schedule(study.repetitions):
            if not self._is_there(check, count):
                break
            seen = self.cells.until(count)
            found = judge(check, seen, study.figure, error=error)
            if found.finding in DECIDED:
                return found
        if found is None:
            short = judge(check, self.cells, study.figure, error=schedule(1)[0][1])
            why = f"not all of the first {study.repetitions} repetitions are there; so far {short.why}"
            return Verdict(check.says, check.metric, "not enough points", why)
        return self._foreseen(check, found, self.cells.until(found.repetitions))

    def open_points(self, verdicts: Sequence[Verdict], seconds: float | None = None) -> list[Point]:
        """What is to be measured up to the next look at those findings that may be decided in so much time."""
        wanted: dict[tuple[int, int], Point] = {}
        for check, verdict in zip(self.study.checks, verdicts, strict=True):
            more = [count for count, _ in schedule(self.study.repetitions) if count > verdict.repetitions]
            takes = verdict.seconds_to_decide
            if not more or takes is None or (seconds is not None and takes > seconds):
                continue
            needed = {cell for cell, _ in self._needed(check)}
            for repetition in range(verdict.repetitions + 1, more[0] + 1):
                for point in shuffled(self.study, repetition):
                    if point.cell in needed:
                        wanted[repetition, point.cell] = point
        order = {each: shuffled(self.study, each) for each in sorted({repetition for repetition, _ in wanted})}
        return [point for points in order.values() for point in points if (point.repetition, point.cell) in wanted]

    def _foreseen(self, check: Check, verdict: Verdict, seen: Cells) -> Verdict:
        """With what a decision would take, where it is open and the spread so far tells."""
        asked = question(check, seen)
        if verdict.finding != "not decided" or asked is None:
            return verdict
        first = self.study.repetitions if self.study.until_decided else len(seen.repetitions)
        later = [look for look in schedule(first, _LOOKS_FORESEEN) if look[0] > verdict.repetitions]
        count = asked.repetitions_to_decide(later)
        if count is None:
            return verdict
        one = sum(self._seconds(settings) for _, settings in self._needed(check))
        seconds = one * (count - verdict.repetitions)
        return replace(verdict, repetitions_to_decide=count, seconds_to_decide=seconds)

    def _needed(self, check: Check) -> list[tuple[int, Settings]]:
        """The planned cells that the check is of, without those of systems that never ran."""
        ran = {cell.settings[SYSTEM] for cell in self.cells.cells}
        return [
            (place, settings)
            for place, settings in enumerate(cells(self.study))
            if settings[SYSTEM] in ran and any(matches(settings, where) for where in check.wheres)
        ]

    def _is_there(self, check: Check, count: int) -> bool:
        found = (self._measured.get(_key(settings), frozenset()) for _, settings in self._needed(check))
        return all(each >= frozenset(range(1, count + 1)) for each in found)

    def _seconds(self, settings: Settings) -> float:
        """What a point of the cell took."""
        return self._took.get(_key(settings)) or estimate_seconds(self.study, 1)

    @cached_property
    def _measured(self) -> dict[tuple[tuple[str, object], ...], frozenset[int]]:
        return {_key(cell.settings): frozenset(cell.records) for cell in self.cells.cells}

    @cached_property
    def _took(self) -> dict[tuple[tuple[str, object], ...], float]:
        found = {}
        for cell in self.cells.cells:
            times = [record["took_seconds"] for record in cell.records.values() if "took_seconds" in record]
            if times:
                found[_key(cell.settings)] = fmean(times)
        return found


def _key(settings: Settings) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(settings.items()))
