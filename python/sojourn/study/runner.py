"""Goes through a study's points: what was measured before is not repeated, and a system that never runs is left out.

How a point is measured is somebody else's business (`Measure`). Measuring ends when all points are done, when its time
is over, or when somebody stops it; the next run goes on where it ended.
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
"""Of a point beside its warm-up and its measured time: servers start and stop."""

TRIES = 3
"""Points at which a system that has never run may fail to, before it is left out: one may be its own trouble."""

Ending = Literal["complete", "out of time", "interrupted"]


class SystemMissing(Exception):
    """The system of a point does not run: why, and what would cure it."""

    def __init__(self, because: CouldNotRun) -> None:
        super().__init__(because.said)


class Measure(Protocol):
    """Measures a point."""

    def __call__(self, point: Point) -> Record:
        """What was measured.

        Raises:
            SystemMissing: its system did not run.
            CouldNotRun: nothing could be measured; so with OSError.
            KeyboardInterrupt: somebody stopped it; nothing of the point is kept.
        """
        ...


@dataclass
class Progress:
    """How far measuring has come, and why it ended."""

    points: int
    before: int
    """Points that were measured before."""
    measured: int = 0
    failed: int = 0
    """Points of which nothing could be measured."""
    ending: Ending = "complete"
    missing: dict[str, str] = field(default_factory=dict)
    """Systems that never ran, and why not."""
    skipped: int = 0
    repeated: int = 0
    """Of those measured, beyond the planned repetitions."""

    @property
    def done(self) -> int:
        """Points that are settled."""
        return self.before + self.measured + self.failed + self.skipped


def estimate_seconds(study: Study, points: int) -> float:
    """How long so many points take, before any has been timed."""
    if study.point_seconds is not None:
        return points * study.point_seconds
    # Only load takes the time that it is told.
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
    """Measures what is missing, and then what `more` wants in the seconds that are left, until that is nothing.

    `told` hears before each point, with the seconds that are probably left.
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
                    # What was planned is there.
                    progress.ending = "complete"
                    break
    except KeyboardInterrupt:
        progress.ending = "interrupted"
    return progress


@dataclass
class _Running:
    """Measuring under way."""

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
        """Seconds of the budget."""
        return None if self.budget_seconds is None else self.budget_seconds - (self.clock() - self._began)

    def measure_all(self, points: Sequence[Point]) -> bool:
        """Measures these; False where the time was over before."""
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
            # One point's trouble is not the study's: the next run tries it again.
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
