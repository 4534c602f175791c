"""The loads beside a model's point: whose arrivals a simulation has, and to which a parameter is fitted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sojourn.failure import CouldNotRun
from sojourn.study.declarations import SYSTEM
from sojourn.study.document import Study
from sojourn.study.folder import StudyFolder
from sojourn.study.load_record import DUE
from sojourn.study.points import Point, Settings, cells, matches


@dataclass(frozen=True)
class Load:
    """A measured load."""

    settings: Settings
    due_seconds: Sequence[float]
    """When each request was due, from the begin of the measured time; before it for those of the warm-up."""
    mean_seconds: float
    """The mean response time."""


@dataclass(frozen=True)
class LoadsBeside:
    """Finds the loads of a study that were measured in the repetition of a model's point."""

    study: Study
    folder: StudyFolder

    def of(self, point: Point) -> Load:
        """The load with the point's factors.

        Raises:
            CouldNotRun: none was measured.
        """
        factors = {**point.settings, SYSTEM: None}
        same = [each for each in self._cells(point) if {**each[1], SYSTEM: None} == factors]
        return self._first(same, [point.repetition])

    def fitted(self, point: Point) -> Load:
        """The load to which the model's parameter is fitted: of the same repetition, or of the last that has it.

        Where findings are open, the loads that they name are repeated alone.

        Raises:
            CouldNotRun: none was measured.
        """
        assert self.study.model is not None
        assert self.study.model.fitted is not None
        to = self.study.model.fitted
        wanted = {**to.at, **{name: point.settings[name] for name in to.same}}
        light = [each for each in self._cells(point) if matches(each[1], wanted)]
        return self._first(light, range(point.repetition, 0, -1))

    def _cells(self, point: Point) -> Iterable[tuple[int, Settings]]:
        """The cells of the system that the point is a model of, or of all that are loaded."""
        of = self.study.system(point.settings[SYSTEM]).of
        for cell, settings in enumerate(cells(self.study)):
            if self.study.system(settings[SYSTEM]).solver is None and of in (None, settings[SYSTEM]):
                yield cell, settings

    def _first(self, candidates: Sequence[tuple[int, Settings]], repetitions: Iterable[int]) -> Load:
        for repetition, (cell, settings) in itertools.product(repetitions, candidates):
            record = self.folder.record(Point(cell, repetition, settings))
            if record is not None and record.get(DUE) and record["metrics"]["mean"] is not None:
                return Load(settings, record[DUE], record["metrics"]["mean"])
        raise CouldNotRun("no load whose arrivals it would have was measured")
