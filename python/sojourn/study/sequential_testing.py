"""Sequential testing: judges a study again after more repetitions, without inflating the error probability.

Findings that are open after the planned repetitions are measured further, and judged again whenever the repetitions
have grown by half. Repeated looks would eventually find something by chance, so the error probability of 5 % is spent
over the looks: each gets half of the remainder. This is an alpha-spending function (K. Lan, D. DeMets, Biometrika 70,
1983), and the sum bounds the error however the looks are correlated (Bonferroni). The first look that decides counts;
later ones change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from sojourn.study.cells import Cells
from sojourn.study.checks import Verdict, judge, question
from sojourn.study.decisions import DECIDED, ERROR
from sojourn.study.declarations import SYSTEM, Check
from sojourn.study.document import Study
from sojourn.study.folder import TROUBLES, Record
from sojourn.study.load_beside import fitted_to
from sojourn.study.points import Point, Settings, cells, matches, shuffled
from sojourn.study.runner import estimate_seconds

GROWTH = 1.5
"""The growth of the repetitions between two looks."""
LOOKS_MAX = 8
"""The number of looks after which a finding stays open: seventeen times the planned repetitions."""
DISTURBED_TRIES = 3
"""The most attempts at a point at which others took the generator's core."""
_LOOKS_FORESEEN = 20
"""The number of future looks considered when estimating the cost of a decision."""
QUICK = "--quick is a trial without verdicts"


def schedule(first: int, looks: int = LOOKS_MAX) -> list[tuple[int, float]]:
    """The looks: the number of repetitions and the error probability of each."""
    counts = [first]
    while len(counts) < looks:
        counts.append(max(counts[-1] + 1, math.ceil(counts[-1] * GROWTH)))
    return [(count, ERROR / 2 ** (look + 1)) for look, count in enumerate(counts)]


@dataclass(frozen=True)
class Looks:
    """The measurements of a study, judged at successive looks."""

    study: Study
    cells: Cells
    whole: Study | None = None
    """The complete study, if this one is a part of it."""

    def verdict(self, check: Check) -> Verdict:
        """The verdict of the first look that decides, or else of the last with complete points.

        A finding about all named systems or values cannot hold while some of them are not measured.
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
        """The points to measure before the next look at findings that can be decided in the given time.

        If others took the generator's core at a point, and only such points keep a finding open, they are measured
        again before any further look.
        """
        wanted: set[str] = set()
        for check, verdict in zip(self.study.checks, verdicts, strict=True):
            takes = verdict.seconds_to_decide
            if takes is not None and (seconds is None or takes <= seconds):
                points = self._disturbed if verdict.points_to_repeat else self._next
                wanted |= points(check, verdict.repetitions)
        last = max((int(name.partition("-")[0]) for name in wanted), default=0)
        return [point for each in range(1, last + 1) for point in shuffled(self.study, each) if point.name in wanted]

    def _next(self, check: Check, repetitions: int) -> set[str]:
        """The missing points of the look after this many repetitions."""
        later = [count for count, _ in schedule(self.study.repetitions) if count > repetitions]
        return {
            point.name
            for point in self._points(check, range(repetitions + 1, later[0] + 1) if later else ())
            if not self._record(point).get("metrics")
        }

    def _disturbed(self, check: Check, repetitions: int) -> set[str]:
        """The disturbed points that keep a check open and may be repeated; empty if others do, too."""
        points = self._points(check, range(1, repetitions + 1))
        troubled = [each for each in points if any(map(self._record(each).get, TROUBLES))]
        records = [self._record(each) for each in troubled]
        curable = all(each.get("disturbed") and each.get("tries", 1) < DISTURBED_TRIES for each in records)
        return {each.name for each in troubled} if curable else set()

    def _foreseen(self, check: Check, verdict: Verdict, seen: Cells) -> Verdict:
        """Adds the estimated cost of a decision to an open verdict, if the spread so far allows one."""
        asked = question(check, seen)
        if verdict.finding != "not decided" or asked is None:
            return verdict
        if any(each.untrusted_because for each in asked.samples):
            again = self._disturbed(check, verdict.repetitions)
            points = [each for each in self._points(check, range(1, verdict.repetitions + 1)) if each.name in again]
            if points:
                takes = sum(self._seconds(each.settings) for each in points)
                return replace(verdict, points_to_repeat=len(points), seconds_to_decide=takes)
        # What is only a lower bound may suffice at its place, so that repetitions decide at the others.
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
        """The planned cells of the check and the loads its models are fitted to, without systems that never ran."""
        ran = {cell.settings[SYSTEM] for cell in self.cells.cells}
        named = [
            (place, settings)
            for place, settings in enumerate(cells(self.study))
            if any(matches(settings, where) for where in check.wheres)
        ]
        # The error of one fit for many repetitions would not average out.
        named += [load for _, settings in named for load in fitted_to(self.study, settings)]
        return [(place, settings) for place, settings in dict(named).items() if settings[SYSTEM] in ran]

    def _is_there(self, check: Check, count: int) -> bool:
        return all(map(self._record, self._points(check, range(1, count + 1))))

    def _seconds(self, settings: Settings) -> float:
        """The time that a point of the cell took."""
        records = self._records.get(_key(settings), {}).values()
        times = [each["took_seconds"] for each in records if "took_seconds" in each]
        return fmean(times) if times else estimate_seconds(self.study, 1)

    @cached_property
    def _records(self) -> dict[tuple[tuple[str, object], ...], Mapping[int, Record]]:
        return {_key(cell.settings): cell.records for cell in self.cells.cells}


def _key(settings: Settings) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(settings.items()))
