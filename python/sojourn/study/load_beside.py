"""The loads beside a model's point: whose arrivals a simulation has, and to which a parameter is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sojourn.failure import CouldNotRun
from sojourn.study.declarations import SYSTEM
from sojourn.study.document import Study
from sojourn.study.folder import TROUBLES, Record, StudyFolder
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
    doubts: Record
    """What is said of a model that is fitted to it if its mean does not describe the server; otherwise empty."""


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
        same = [each for each in _loaded(self.study, point.settings) if {**each[1], SYSTEM: None} == factors]
        return self._first(same, point.repetition)

    def fitted(self, point: Point) -> Load:
        """The load to which the model's parameter is fitted, of the same repetition.

        Raises:
            CouldNotRun: none was measured.
        """
        return self._first(fitted_to(self.study, point.settings), point.repetition)

    def _first(self, candidates: Sequence[tuple[int, Settings]], repetition: int) -> Load:
        for cell, settings in candidates:
            record = self.folder.record(Point(cell, repetition, settings))
            if record is not None and record.get(DUE) and record["metrics"]["mean"] is not None:
                return Load(settings, record[DUE], record["metrics"]["mean"], _doubts(record))
        raise CouldNotRun("no load whose arrivals it would have was measured")


def fitted_to(study: Study, settings: Settings) -> list[tuple[int, Settings]]:
    """The loads that tell the fitted parameter of a model's point; none for other points."""
    model = study.model
    if model is None or model.fitted is None or study.system(settings[SYSTEM]).solver is None:
        return []
    wanted = {**model.fitted.at, **{name: settings[name] for name in model.fitted.same}}
    return [each for each in _loaded(study, settings) if matches(each[1], wanted)]


def _loaded(study: Study, model: Settings) -> Iterable[tuple[int, Settings]]:
    """The cells of the system that the point is a model of, or of all that are loaded."""
    of = study.system(model[SYSTEM]).of
    for cell, settings in enumerate(cells(study)):
        if study.system(settings[SYSTEM]).solver is None and of in (None, settings[SYSTEM]):
            yield cell, settings


def _doubts(load: Record) -> Record:
    reason = next((said for each in TROUBLES if (said := load.get(each))), None)
    if reason is None:
        return {}
    # What is measured again with the load is fitted again.
    return {"doubtful": f"it is fitted to a doubtful load: {reason}", "disturbed": bool(load.get("disturbed"))}
