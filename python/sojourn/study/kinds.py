"""The kinds of points, by the study file's table."""

from __future__ import annotations

from pathlib import Path

from sojourn import engine
from sojourn.loading.fleet import Fleet
from sojourn.study import catalogue
from sojourn.study.declarations import SYSTEM
from sojourn.study.document import Study
from sojourn.study.folder import Record, StudyFolder
from sojourn.study.load_beside import LoadsBeside
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
    calculated: Measure | None = None
    if study.program is not None:
        calculated = ProgramPoints(study, work)
    elif study.model is not None:
        source = catalogue.system_file(study.model.system, file)
        loads = None if study.workload is None else LoadsBeside(study, folder)
        calculated = ModelPoints(study, folder.hold("system.toml", source), loads=loads)
    if study.workload is None:
        assert calculated is not None, "a study has a kind"
        return calculated
    loaded = LoadPoints(study, work, fleet, progress)
    if calculated is None:
        return loaded
    solved = calculated

    def either(point: Point) -> Record:
        system = study.system(point.settings[SYSTEM])
        return loaded(point) if system.solver is None and not study.is_program(system) else solved(point)

    return either
