"""The kinds of points, by the study file's table."""

from __future__ import annotations

from pathlib import Path

from sojourn import engine
from sojourn.loading.fleet import Fleet
from sojourn.study import catalogue
from sojourn.study.declarations import SYSTEM
from sojourn.study.document import Study
from sojourn.study.folder import Record, StudyFolder
from sojourn.study.load_point import LoadPoints
from sojourn.study.model_point import ModelPoints
from sojourn.study.points import Point
from sojourn.study.program_point import ProgramPoints
from sojourn.study.runner import Measure


def is_of_models(study: Study) -> bool:
    """Returns true if all points are solved or simulated, so that they depend on no machine."""
    return study.program is None and study.workload is None and study.model is not None


def measure(
    study: Study,
    file: Path,
    folder: StudyFolder,
    work: Path,
    fleet: Fleet | None = None,
    progress: engine.Progress | None = None,
) -> Measure:
    """The function that measures the points of a study read from `file`.

    `fleet` generates its loads, if given; `progress` receives a line per second of them.

    Raises:
        CouldNotRun: its system file is missing, or differs from the one of the folder's points.
    """
    if study.program is not None:
        return ProgramPoints(study, work)
    if study.model is None:
        return LoadPoints(study, work, fleet, progress)
    source = catalogue.system_file(study.model.system, file)
    solved = ModelPoints(study, folder.hold("system.toml", source))
    if study.workload is None:
        return solved
    loaded = LoadPoints(study, work, fleet, progress)

    def either(point: Point) -> Record:
        return loaded(point) if study.system(point.settings[SYSTEM]).solver is None else solved(point)

    return either
