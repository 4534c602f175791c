"""Runs a study's points: skips those measured before, and leaves out a system that never runs.

A `Measure` measures each point. Measuring ends when all points are done, the time is over, or the user interrupts; the
next run resumes there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sojourn import interrupts
from sojourn.failure import CouldNotRun
from sojourn.study.declarations import SYSTEM, Value
from sojourn.study.document import Study
from sojourn.study.folder import Record, StudyFolder, nothing
from sojourn.study.points import Point, in_order

OVERHEAD_SECONDS = {"workload": 0.8, "model": 0.1, "program": 3.0}
"""The overhead of a point beyond its warm-up and measured time: servers start and stop."""

TRIES = 3
"""A system that has never run is left out after this many failed points, because a single one may be at fault itself.
"""

Ending = Literal["complete", "out of time", "interrupted"]


class SystemMissing(Exception):
    """The system of a point does not run; gives the reason and a suggested fix."""

    def __init__(self, because: CouldNotRun) -> None:
        super().__init__(because.said)


class Measure(Protocol):
    def __call__(self, point: Point) -> Record:
        """Measures a point and returns its record.

        Raises:
            SystemMissing: its system did not run.
            CouldNotRun: nothing could be measured; likewise OSError.
            KeyboardInterrupt: the user interrupted; nothing of the point is stored.
        """
        ...


@dataclass
class Progress:
    """The progress of measuring, and the reason for its end."""

    points: int
    before: int
    """Points measured before this run."""
    measured: int = 0
    failed: int = 0
    """Points without any measurement."""
    ending: Ending = "complete"
    missing: dict[str, str] = field(default_factory=dict)
    """Systems that never ran, with the reasons."""
    skipped: int = 0
    repeated: int = 0
    """Measured points beyond the planned repetitions."""

    @property
    def done(self) -> int:
        """The number of finished points."""
        return self.before + self.measured + self.failed + self.skipped


def estimate_seconds(study: Study, points: int) -> float:
    """The expected duration of points before any has been timed."""
    if study.point_seconds is not None:
        return points * study.point_seconds
    # Only a load takes the time it is given.
    measured = study.warm_up_seconds + study.duration_seconds if study.kind == "workload" else 0.0
    return points * (measured + OVERHEAD_SECONDS[study.kind])


def run(
    folder: StudyFolder,
    measure: Measure,
    *,
    budget_seconds: float | None = None,
    more: Callable[[float | None], Sequence[Point]] = lambda left: (),
    told: Callable[[Progress, Point, float], None] = lambda progress, point, left: None,
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """Measures missing points, then those that `more` returns for the remaining seconds, until it returns none.

    Before each point `told` is called with the estimated remaining time.
    """
    order = in_order(folder.study)
    before = [point for point in order if folder.has(point)]
    progress = Progress(len(order), len(before))
    running = _Running(folder, measure, progress, budget_seconds, told, clock)
    running.ran.update(point.settings[SYSTEM] for point in before)
    try:
        if running.measure_all([point for point in order if point not in before]):
            asked: set[tuple[str, int]] = set()

            def tries(point: Point) -> tuple[str, int]:
                return point.name, folder.tries(point)

            while wanted := [point for point in more(running.left) if tries(point) not in asked]:
                asked |= {tries(point) for point in wanted}
                progress.points += len(wanted)
                if not running.measure_all(wanted):
                    # All planned points are measured.
                    progress.ending = "complete"
                    break
    except KeyboardInterrupt:
        progress.ending = "interrupted"
    return progress


@dataclass
class _Running:
    """A run of measurements in progress."""

    folder: StudyFolder
    measure: Measure
    progress: Progress
    budget_seconds: float | None
    told: Callable[[Progress, Point, float], None]
    clock: Callable[[], float]
    ran: set[Value] = field(default_factory=set)
    """Systems that have run."""

    def __post_init__(self) -> None:
        self._tries = Counter[str]()
        self._began = self.clock()
        self._point_seconds = estimate_seconds(self.folder.study, 1)

    @property
    def left(self) -> float | None:
        """The remaining seconds of the budget."""
        return None if self.budget_seconds is None else self.budget_seconds - (self.clock() - self._began)

    def measure_all(self, points: Sequence[Point]) -> bool:
        """Measures the points; returns false if the time ran out."""
        for place, point in enumerate(points):
            if self._tries[str(point.settings[SYSTEM])] >= TRIES:
                self.progress.skipped += 1
                continue
            if self.left is not None and self._point_seconds > self.left:
                self.progress.ending = "out of time"
                return False
            still = sum(self._tries[str(each.settings[SYSTEM])] < TRIES for each in points[place:])
            self.told(self.progress, point, still * self._point_seconds)
            self._measure(point)
        return True

    def _measure(self, point: Point) -> None:
        progress, system, began = self.progress, str(point.settings[SYSTEM]), self.clock()
        try:
            record = self.measure(point)
        except SystemMissing as error:
            if system not in self.ran:
                self._tries[system] += 1
                progress.missing[system] = str(error)
                progress.skipped += 1
                return
            record = nothing(str(error))
        except (CouldNotRun, OSError) as error:
            # A problem with one point does not affect the study: the next run tries it again.
            record = nothing(error.said if isinstance(error, CouldNotRun) else str(error))
        else:
            self.ran.add(system)
            self._tries.pop(system, None)
            progress.missing.pop(system, None)
        with interrupts.held():
            told = {"took_seconds": round(self.clock() - began, 3), "tries": self.folder.tries(point) + 1}
            self.folder.keep(point, {**record, **told})
            if record["metrics"]:
                progress.measured += 1
                progress.repeated += point.repetition > self.folder.study.repetitions
            else:
                progress.failed += 1
        self._point_seconds = (self.clock() - self._began) / (progress.measured + progress.failed)
