"""Goes through a study's points: what was measured before is not repeated, and a system that never runs is left out.

How a point is measured is somebody else's business (`Measure`). A sitting ends when all points are done, when its time
is over, or when somebody stops it; the next goes on where it ended.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sojourn import interrupts
from sojourn.failure import CouldNotRun
from sojourn.study.declarations import SYSTEM
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
class Sitting:
    """How far a study has come."""

    points: int
    before: int
    """Points that an earlier sitting had measured."""
    measured: int = 0
    failed: int = 0
    """Points of which nothing could be measured."""
    ending: Ending = "complete"
    missing: dict[str, str] = field(default_factory=dict)
    """Systems that never ran, and why not."""
    skipped: int = 0

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
    told: Callable[[Sitting, Point, float], None] = lambda sitting, point, left: None,
    clock: Callable[[], float] = time.monotonic,
) -> Sitting:
    """Measures what is missing; `told` hears before each point, with the seconds that are probably left."""
    study = folder.study
    order = in_order(study)
    missing = [point for point in order if not folder.has(point)]
    sitting = Sitting(len(order), len(order) - len(missing))
    ran = {point.settings[SYSTEM] for point in order if folder.has(point)}
    tries = Counter[str]()
    began, point_seconds = clock(), estimate_seconds(study, 1)
    try:
        for place, point in enumerate(missing):
            system = str(point.settings[SYSTEM])
            if tries[system] >= TRIES:
                sitting.skipped += 1
                continue
            still = sum(tries[str(each.settings[SYSTEM])] < TRIES for each in missing[place:])
            if budget_seconds is not None and clock() - began + point_seconds > budget_seconds:
                sitting.ending = "out of time"
                break
            told(sitting, point, still * point_seconds)
            try:
                record = measure(point)
            except SystemMissing as error:
                if system not in ran:
                    tries[system] += 1
                    sitting.missing[system] = str(error)
                    sitting.skipped += 1
                    continue
                record = nothing(str(error))
            except (CouldNotRun, OSError) as error:
                # One point's trouble is not the study's: the next sitting tries it again.
                record = nothing(error.said if isinstance(error, CouldNotRun) else str(error))
            else:
                ran.add(system)
                tries.pop(system, None)
                sitting.missing.pop(system, None)
            with interrupts.held():
                folder.keep(point, record)
                if record["metrics"]:
                    sitting.measured += 1
                else:
                    sitting.failed += 1
            point_seconds = (clock() - began) / (sitting.measured + sitting.failed)
    except KeyboardInterrupt:
        sitting.ending = "interrupted"
    return sitting
