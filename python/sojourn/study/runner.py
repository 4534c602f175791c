"""Runs a study's points: skips those measured before, and leaves out a system that never runs.

A `Measure` measures each point, here one after the other or as tasks of a cluster. Measuring ends when all points are
done, the time is over, the user interrupts, or the cluster is lost; the next run resumes there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sojourn import interrupts
from sojourn.cluster.tasks import ClusterLost, InProcess, Outcome, Tasks
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

Ending = Literal["complete", "out of time", "interrupted", "cluster lost"]


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
    cluster_lost_because: str | None = None

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
    tasks: Tasks | None = None,
) -> Progress:
    """Measures missing points, then those that `more` returns for the remaining seconds, until it returns none.

    Before each point `told` is called with the estimated remaining time. Points are measured in this process unless
    `tasks` says where; `measure` must then be a value that can be sent there.
    """
    order = in_order(folder.study)
    before = [point for point in order if folder.has(point)]
    progress = Progress(len(order), len(before))
    running = _Running(folder, measure, progress, budget_seconds, told, clock, tasks or InProcess())
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
    except ClusterLost as lost:
        progress.ending, progress.cluster_lost_because = "cluster lost", lost.said
    return progress


def _timed(measure: Measure, clock: Callable[[], float], point: Point) -> tuple[Record | Exception, float]:
    """The record of a point, or why there is none, and how long it took where it is measured."""
    began = clock()
    try:
        found: Record | Exception = measure(point)
    except (SystemMissing, CouldNotRun, OSError) as error:
        found = error
    return found, clock() - began


@dataclass
class _Running:
    """A run of measurements in progress."""

    folder: StudyFolder
    measure: Measure
    progress: Progress
    budget_seconds: float | None
    told: Callable[[Progress, Point, float], None]
    clock: Callable[[], float]
    tasks: Tasks
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
        given: list[Point] = []
        out_of_time = False

        def giving() -> Iterator[tuple[Measure, Callable[[], float], Point]]:
            nonlocal out_of_time
            for place, point in enumerate(points):
                interrupts.raise_unheard()
                if self._tries[str(point.settings[SYSTEM])] >= TRIES:
                    self.progress.skipped += 1
                    continue
                if self.left is not None and self._point_seconds > self.left:
                    self.progress.ending = "out of time"
                    out_of_time = True
                    return
                still = sum(self._tries[str(each.settings[SYSTEM])] < TRIES for each in points[place:])
                self.told(self.progress, point, still * self._point_seconds)
                given.append(point)
                yield self.measure, self.clock, point

        with closing(self.tasks.each(_timed, giving())) as outcomes:
            for outcome in outcomes:
                self._keep(given[outcome.place], outcome)
        return not out_of_time

    def _keep(self, point: Point, outcome: Outcome[tuple[Record | Exception, float]]) -> None:
        progress, system = self.progress, str(point.settings[SYSTEM])
        timed: dict[str, float] = {}
        try:
            found, seconds = outcome.result()
            timed = {"took_seconds": round(seconds, 3)}
            if isinstance(found, Exception):
                raise found
            record = found
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
            self.folder.keep(point, {**record, **timed, "tries": self.folder.tries(point) + 1})
            if record["metrics"]:
                progress.measured += 1
                progress.repeated += point.repetition > self.folder.study.repetitions
            else:
                progress.failed += 1
        self._point_seconds = (self.clock() - self._began) / (progress.measured + progress.failed)
