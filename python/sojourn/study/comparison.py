"""Compares two runs of studies, usually from two machines: verdicts, and the ratios of figures.

Only cells of both runs are compared. A ratio is one number over all of them, with its minimum and maximum, and no
verdict: two machines differ, and the question is by how much.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.study.cells import Cell, geometric_mean
from sojourn.study.decisions import Finding
from sojourn.study.findings import Findings, find
from sojourn.study.folder import DOCUMENT, PLAN, POINTS, StudyFolder


@dataclass(frozen=True)
class Pair:
    """One finding with both verdicts."""

    says: str
    first: Finding
    second: Finding


@dataclass(frozen=True)
class Apart:
    """The ratio of a metric, second run over first."""

    metric: str
    ratio: float
    least: float
    most: float
    cells: int


@dataclass(frozen=True)
class Comparison:
    """One study with both runs."""

    study: str
    verdicts: list[Pair]
    figures: list[Apart]
    differs: dict[str, tuple[object, object]]
    """Differences between the machines and settings."""

    def as_json(self) -> dict[str, object]:
        """The comparison as a JSON object."""
        return asdict(self)


def is_of_studies(path: Path) -> bool:
    """Returns true for a study's folder, or a folder with studies."""
    return path.is_dir() and next(_plans(path), None) is not None


def compare(first: Path, second: Path) -> list[Comparison]:
    """Compares the study of two folders, or all studies in both.

    Of each study it compares runs with the same folder name, or else, for example after another budget, the most
    complete run of each.

    Raises:
        CouldNotRun: they have no study in common.
    """
    if _is_run(first) and _is_run(second):
        return [_compared(first, second)]
    here, there = _runs(first), _runs(second)
    pairs = [pair for study in here if study in there for pair in _paired((first, second), (here[study], there[study]))]
    if not pairs:
        raise CouldNotRun(f"{first} and {second} have no study in common", "give two folders as runs/study of two runs")
    return [_compared(*pair) for pair in pairs]


def _plans(path: Path) -> Iterator[Path]:
    return (plan for plan in path.rglob(PLAN) if _is_run(plan.parent))


def _is_run(folder: Path) -> bool:
    # Others have a plan, too: those of `sojourn plan`.
    return (folder / PLAN).is_file() and (folder / DOCUMENT).is_file()


def _runs(path: Path) -> dict[str, list[Path]]:
    """The runs below a folder by study."""
    found: dict[str, list[Path]] = {}
    for plan in sorted(_plans(path)):
        found.setdefault(json.loads(plan.read_text())["name"], []).append(plan.parent)
    return found


def _paired(roots: tuple[Path, Path], runs: tuple[list[Path], list[Path]]) -> list[tuple[Path, Path]]:
    """Pairs runs in folders of the same name; otherwise the most complete run of each."""
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
    """The ratio of a metric; None where a figure is missing, zero, or not valid for the server."""
    values = [None if cell.untrusted_because(metric) else cell.estimate(metric) for cell in (first, second)]
    here, there = values
    if here is None or there is None or here.value <= 0 or there.value <= 0:
        return None
    return there.value / here.value


def _key(cell: Cell) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(cell.settings.items()))


def _circumstances(folder: StudyFolder) -> Mapping[str, object]:
    """The most recent machine of the folder, and the durations of its points."""
    study, machines = folder.study, folder.environments()
    settings = {name: getattr(study, name) for name in ("repetitions", "warm_up_seconds", "duration_seconds", "tried")}
    return {**(machines[-1] if machines else {}), **settings}


def _differences(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}
