"""Two runs of studies beside each other, of two machines as a rule: verdicts, and how far figures are apart.

Only cells that both runs have are compared. A ratio is one number over all of them, with its least and its largest, and
no verdict: two machines differ, and by how much is what is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.study.cells import Cell, geometric_mean
from sojourn.study.findings import Findings, find
from sojourn.study.folder import PLAN, POINTS, StudyFolder
from sojourn.study.samples import Finding


@dataclass(frozen=True)
class Pair:
    """A finding of the source, here and there."""

    says: str
    first: Finding
    second: Finding


@dataclass(frozen=True)
class Apart:
    """A metric of the second run over that of the first."""

    metric: str
    ratio: float
    least: float
    most: float
    cells: int


@dataclass(frozen=True)
class Comparison:
    """A study, twice."""

    study: str
    verdicts: list[Pair]
    figures: list[Apart]
    differs: dict[str, tuple[object, object]]
    """What of the machines and settings is not the same."""

    def as_json(self) -> dict[str, object]:
        """One object."""
        return asdict(self)


def is_of_studies(path: Path) -> bool:
    """Whether it is a study's folder, or holds some."""
    return path.is_dir() and ((path / PLAN).is_file() or next(path.rglob(PLAN), None) is not None)


def compare(first: Path, second: Path) -> list[Comparison]:
    """The study of two folders, or all studies that both hold.

    Of a study those runs whose folders have the same name, or else, as with another budget, the fullest of each.

    Raises:
        CouldNotRun: they have no study in common.
    """
    if (first / PLAN).is_file() and (second / PLAN).is_file():
        return [_compared(first, second)]
    here, there = _runs(first), _runs(second)
    pairs = [pair for study in here if study in there for pair in _paired((first, second), (here[study], there[study]))]
    if not pairs:
        raise CouldNotRun(f"{first} and {second} have no study in common", "give two folders as runs/study of two runs")
    return [_compared(*pair) for pair in pairs]


def _runs(path: Path) -> dict[str, list[Path]]:
    """By study, its runs below a folder."""
    found: dict[str, list[Path]] = {}
    for plan in sorted(path.rglob(PLAN)):
        found.setdefault(json.loads(plan.read_text())["name"], []).append(plan.parent)
    return found


def _paired(roots: tuple[Path, Path], runs: tuple[list[Path], list[Path]]) -> list[tuple[Path, Path]]:
    """Runs in folders of the same name; where there is none, the fullest of each."""
    (first, second), (here, there) = roots, runs
    same = [(each, other) for each in here if (other := second / each.relative_to(first)) in there]
    return same or [(max(here, key=_points), max(there, key=_points))]


def _points(run: Path) -> int:
    return sum(1 for _ in run.glob(f"{POINTS}/*.json"))


def _compared(first: Path, second: Path) -> Comparison:
    folders = [StudyFolder.open(path) for path in (first, second)]
    names = [folder.study.name for folder in folders]
    if names[0] != names[1]:
        raise CouldNotRun(f"{first} is a run of {names[0]}, {second} of {names[1]}", "compare runs of one study")
    here, there = (find(folder) for folder in folders)
    found = {each.says: each.finding for each in there.verdicts}
    verdicts = [Pair(each.says, each.finding, found[each.says]) for each in here.verdicts if each.says in found]
    return Comparison(
        names[0], verdicts, _figures(here, there), _differences(*(_circumstances(each) for each in folders))
    )


def _figures(first: Findings, second: Findings) -> list[Apart]:
    others = {_key(cell): cell for cell in second.cells.cells}
    pairs = [(cell, others[_key(cell)]) for cell in first.cells.cells if _key(cell) in others]
    found = []
    for metric in first.study.metrics():
        ratios = [ratio for pair in pairs if (ratio := _ratio(metric, *pair)) is not None]
        if ratios:
            found.append(Apart(metric, geometric_mean(ratios), min(ratios), max(ratios), len(ratios)))
    return found


def _ratio(metric: str, first: Cell, second: Cell) -> float | None:
    """None where a figure is missing, nought, or not the server's."""
    values = [None if cell.spoilt(metric) else cell.estimate(metric) for cell in (first, second)]
    here, there = values
    if here is None or there is None or here.value <= 0 or there.value <= 0:
        return None
    return there.value / here.value


def _key(cell: Cell) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(cell.settings.items()))


def _circumstances(folder: StudyFolder) -> Mapping[str, object]:
    """The machine that measured last, and what was measured how long."""
    study, machines = folder.study, folder.environments()
    settings = {name: getattr(study, name) for name in ("repetitions", "warm_up_seconds", "duration_seconds", "tried")}
    return {**(machines[-1] if machines else {}), **settings}


def _differences(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}
