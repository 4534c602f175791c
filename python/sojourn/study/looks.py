"""Looking at a study's points again after more repetitions, without being right by chance more often.

What is open after the planned repetitions is measured on, and looked at whenever there are half as many again. Who
looks often sees something by chance sooner or later, so the error of 5 % is spent over the looks: each has half of what
is left. That is an alpha-spending function (K. Lan, D. DeMets, Biometrika 70, 1983), and the sum bounds the error
whatever the looks have in common (Bonferroni). The first look that decides counts; what comes later changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from sojourn.study.cells import Cells
from sojourn.study.checks import Verdict, judge, question
from sojourn.study.declarations import SYSTEM, Check
from sojourn.study.document import Study
from sojourn.study.folder import Record
from sojourn.study.points import Point, Settings, cells, matches, shuffled
from sojourn.study.runner import estimate_seconds
from sojourn.study.samples import DECIDED, ERROR

GROWTH = 1.5
"""Of the repetitions, from look to look."""
LOOKS_MAX = 8
"""After which a finding stays open: seventeen times the planned repetitions."""
DISTURBED_TRIES = 3
"""How often a point is measured at which others took the generator's core."""
_LOOKS_FORESEEN = 20
"""How far ahead it is said what a decision would take."""
_TROUBLES = ("failed", "generator_limited", "doubtful")
"""Keys of a record that say why its figures decide nothing."""
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
    whole: Study | None = None
    """Of which the study may be a part."""

    def verdict(self, check: Check) -> Verdict:
        """By the first look that decides, or else the last for which all points are there.

        What is said of systems or values by name does not hold while some of these were not measured.
        """
        found = self._looked(check)
        lacking = self._unmeasured(check)
        if found.finding != "holds" or not lacking:
            return found
        return replace(found, finding="not enough points", why=f"without {', '.join(lacking)}: {found.why}")

    def _unmeasured(self, check: Check) -> list[str]:
        whole = self.whole or self.study
        return [
            str(value)
            for factor in whole.names()
            for value in dict.fromkeys(check.named(factor))
            if value in whole.values(factor) and all(cell.settings[factor] != value for cell in self.cells.cells)
        ]

    def _looked(self, check: Check) -> Verdict:
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
        """What is to be measured up to the next look at those findings that may be decided in so much time.

        Where others took the generator's core at a point, and nothing else keeps a finding open, that point is measured
        again: what it says is not looked at before.
        """
        wanted: set[str] = set()
        for check, verdict in zip(self.study.checks, verdicts, strict=True):
            takes = verdict.seconds_to_decide
            if takes is not None and (seconds is None or takes <= seconds):
                wanted |= self._disturbed(check, verdict.repetitions) or self._next(check, verdict.repetitions)
        last = max((int(name.partition("-")[0]) for name in wanted), default=0)
        return [point for each in range(1, last + 1) for point in shuffled(self.study, each) if point.name in wanted]

    def _next(self, check: Check, repetitions: int) -> set[str]:
        """The points that the look after so many repetitions lacks."""
        later = [count for count, _ in schedule(self.study.repetitions) if count > repetitions]
        return {
            point.name
            for point in self._points(check, range(repetitions + 1, later[0] + 1) if later else ())
            if not self._record(point).get("metrics")
        }

    def _disturbed(self, check: Check, repetitions: int) -> set[str]:
        """The points that keep a check open and may be measured again; none where others keep it open as well."""
        points = self._points(check, range(1, repetitions + 1))
        troubled = [each for each in points if any(map(self._record(each).get, _TROUBLES))]
        records = [self._record(each) for each in troubled]
        curable = all(each.get("disturbed") and each.get("tries", 1) < DISTURBED_TRIES for each in records)
        return {each.name for each in troubled} if curable else set()

    def _foreseen(self, check: Check, verdict: Verdict, seen: Cells) -> Verdict:
        """With what a decision would take, where it is open and the spread so far tells."""
        asked = question(check, seen)
        if verdict.finding != "not decided" or asked is None:
            return verdict
        if any(each.spoilt for each in asked.samples):
            again = self._disturbed(check, verdict.repetitions)
            points = [each for each in self._points(check, range(1, verdict.repetitions + 1)) if each.name in again]
            takes = sum(self._seconds(each.settings) for each in points)
            return replace(verdict, points_to_repeat=len(points), seconds_to_decide=takes) if points else verdict
        first = self.study.repetitions if self.study.until_decided else len(seen.repetitions)
        later = [look for look in schedule(first, _LOOKS_FORESEEN) if look[0] > verdict.repetitions]
        count = asked.repetitions_to_decide(later)
        if count is None:
            return verdict
        one = sum(self._seconds(settings) for _, settings in self._needed(check))
        seconds = one * (count - verdict.repetitions)
        return replace(verdict, repetitions_to_decide=count, seconds_to_decide=seconds)

    def _points(self, check: Check, repetitions: Iterable[int]) -> list[Point]:
        needed = self._needed(check)
        return [Point(cell, repetition, settings) for repetition in repetitions for cell, settings in needed]

    def _record(self, point: Point) -> Record:
        return self._records.get(_key(point.settings), {}).get(point.repetition, {})

    def _needed(self, check: Check) -> list[tuple[int, Settings]]:
        """The planned cells that the check is of, without those of systems that never ran."""
        ran = {cell.settings[SYSTEM] for cell in self.cells.cells}
        return [
            (place, settings)
            for place, settings in enumerate(cells(self.study))
            if settings[SYSTEM] in ran and any(matches(settings, where) for where in check.wheres)
        ]

    def _is_there(self, check: Check, count: int) -> bool:
        return all(map(self._record, self._points(check, range(1, count + 1))))

    def _seconds(self, settings: Settings) -> float:
        """What a point of the cell took."""
        records = self._records.get(_key(settings), {}).values()
        times = [each["took_seconds"] for each in records if "took_seconds" in each]
        return fmean(times) if times else estimate_seconds(self.study, 1)

    @cached_property
    def _records(self) -> dict[tuple[tuple[str, object], ...], Mapping[int, Record]]:
        return {_key(cell.settings): cell.records for cell in self.cells.cells}


def _key(settings: Settings) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(settings.items()))
