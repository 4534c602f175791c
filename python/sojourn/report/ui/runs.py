"""The runs of a folder as a list, their reports, and the comparison of two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

from sojourn.failure import CouldNotRun
from sojourn.loading import comparison as load_comparison
from sojourn.report.markup import Markup, element, join
from sojourn.report.tables import texts
from sojourn.study import comparison as study_comparison

RUNS_SHOWN_MAX = 500
"""The most runs listed, the newest first."""
DEPTH_MAX = 4
"""How deep runs are looked for: `runs/NAME/first/1` is three."""
REPORT = "report.html"
SIDES = ("first", "second")
"""The two that are compared."""
LOAD = "load"
REPEATED = "repeated load"
STUDY = "study"
COMPARABLE = (LOAD, REPEATED, STUDY)
_KINDS = {
    "result.json": LOAD,
    "search.json": "search for the largest load",
    "application.json": "assessment of an application",
    "summary.json": "assessment",
    "study.json": STUDY,
    "environments.json": STUDY,
    "plan.json": "plan",
    "prediction.json": "prediction",
    "cache.json": "cache simulation",
    "memory.json": "memory",
}
"""What a run's folder holds, by the file that says so; the first that is there."""


@dataclass(frozen=True)
class Run:
    """A run's folder."""

    path: Path
    name: str
    """Its path below the folder of all runs."""
    kind: str
    changed: datetime
    has_report: bool

    @property
    def is_comparable(self) -> bool:
        """Whether `sojourn compare` takes it."""
        return self.kind in COMPARABLE


def runs_of(folder: Path) -> list[Run]:
    """The runs below a folder, the newest first; none if it does not exist."""
    found = sorted(_found(folder, folder, DEPTH_MAX), key=lambda each: each.changed, reverse=True)
    return found[:RUNS_SHOWN_MAX]


def _found(folder: Path, root: Path, depth: int) -> Iterator[Run]:
    try:
        inside = [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    except OSError:
        return
    for each in inside:
        kind = _kind(each)
        if kind is not None:
            yield _run(each, root, kind)
        elif depth > 1:
            below = [*_found(each, root, depth - 1)]
            if len([run for run in below if run.kind == LOAD and run.path.parent == each]) > 1:
                yield _run(each, root, REPEATED)
            yield from below


def _kind(folder: Path) -> str | None:
    known = next((kind for name, kind in _KINDS.items() if (folder / name).is_file()), None)
    return known or ("report" if (folder / REPORT).is_file() else None)


def _run(folder: Path, root: Path, kind: str) -> Run:
    report = folder / REPORT
    changed = (report if report.is_file() else folder).stat().st_mtime
    name = folder.relative_to(root).as_posix()
    return Run(folder, name, kind, datetime.fromtimestamp(changed), report.is_file())


def report_of(folder: Path, name: str) -> bytes | None:
    """The report of the run with this name below the folder; None if there is none."""
    path = (folder / name / REPORT).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        return None
    return path.read_bytes()


def list_page(folder: Path, runs: Sequence[Run], token: str) -> Markup:
    """The list, with a choice of two to compare."""
    title = element("h1", "Runs in ", element("code", str(folder)))
    if not runs:
        said = f"No run in {folder} yet: give a command --output {folder}/NAME, or this one --runs DIR."
        return join(title, element("p", said, class_="missing"))
    compares = sum(each.is_comparable for each in runs) > 1
    columns = ("run", "what", "written", *(SIDES if compares else ()))
    head = element("tr", [element("th", each, scope="col") for each in columns])
    rows = [_row(each, token, SIDES if compares else ()) for each in runs]
    table = element("table", element("thead", head), element("tbody", rows), class_="texts runs")
    note = "Load runs, folders of repeated runs, and studies can be compared; two studies from two machines, too."
    if not compares:
        few = f"{note} Here are fewer than two of them."
        return join(title, element("div", table, class_="scrolls"), element("p", few, class_="note"))
    return join(
        title,
        element(
            "form",
            element("input", type="hidden", name="token", value=token),
            element("div", table, class_="scrolls"),
            element("p", element("button", "Compare the two", type="submit", class_="main"), class_="buttons"),
            element("p", note, class_="note"),
            action="/compare",
            aria_label="comparison of two runs",
            method="get",
        ),
    )


def _row(run: Run, token: str, sides: Sequence[str]) -> Markup:
    name: str = run.name
    if run.has_report:
        name = element("a", run.name, href=f"/report?{urlencode({'run': run.name, 'token': token})}")
    return element(
        "tr",
        element("th", name, scope="row"),
        element("td", run.kind),
        element("td", f"{run.changed:%Y-%m-%d %H:%M}"),
        [element("td", _radio(side, run) if run.is_comparable else "–") for side in sides],
    )


def _radio(side: str, run: Run) -> Markup:
    label = f"{run.name} as the {side}"
    return element("input", type="radio", name=side, value=run.name, required=True, aria_label=label)


def comparison_page(folder: Path, first: str, second: str) -> Markup:
    """The comparison of two runs of the folder, as `sojourn compare` makes it.

    Raises:
        CouldNotRun: they cannot be compared.
    """
    one, other = (_inside(folder, each) for each in (first, second))
    title = element("h1", "Compared: ", element("code", first), ", then ", element("code", second))
    if study_comparison.is_of_studies(one) and study_comparison.is_of_studies(other):
        return join(title, *(_of_study(each) for each in study_comparison.compare(one, other)))
    groups = [load_comparison.read_group([path], name) for path, name in ((one, first), (other, second))]
    return join(title, _of_load(load_comparison.compare(*groups)))


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not name or not path.resolve().is_relative_to(folder.resolve()) or not path.is_dir():
        raise CouldNotRun(f"there is no run {name!r} in {folder}", "choose two runs of the list")
    return path


def _of_load(comparison: load_comparison.Comparison) -> Markup:
    rows = []
    for each in comparison.differences:
        write = each.metric.write
        finding = element(
            "td",
            "void" if comparison.void_because else str(each),
            class_=each.finding if each.finding in ("better", "worse") and not comparison.void_because else None,
        )
        figures = (write(each.first), write(each.second), "–" if math.isnan(each.ratio) else f"{each.ratio:.3f}")
        name = element("th", each.metric.name, scope="row")
        rows.append(element("tr", name, [element("td", figure) for figure in figures], finding))
    columns = ("metric", "first", "second", "ratio", "verdict at 95 %")
    head = element("tr", [element("th", each, scope="col") for each in columns])
    table = element("table", element("thead", head), element("tbody", rows), class_="texts compared")
    return join(
        [element("p", f"No verdict: {each}", class_="notice grave") for each in comparison.void_because],
        element("div", table, class_="scrolls", tabindex=0, role="region", aria_label="metrics"),
        [element("p", each, class_="note") for each in comparison.warnings],
    )


def _of_study(comparison: study_comparison.Comparison) -> Markup:
    verdicts = [(each.says, each.first, each.second) for each in comparison.verdicts]
    figures = [
        (each.metric, f"{each.ratio:.3g}", f"{each.least:.3g} to {each.most:.3g}", f"{each.cells}")
        for each in comparison.figures
    ]
    differs = [(name.replace("_", " "), str(one), str(other)) for name, (one, other) in comparison.differs.items()]
    agreed = sum(each.first == each.second for each in comparison.verdicts)
    title = f"{comparison.study}: {agreed} of {len(verdicts)} verdicts are the same"
    return join(
        texts(f"{comparison.study}-verdicts", title, ["finding", "first", "second"], verdicts),
        texts(
            f"{comparison.study}-figures",
            "Second over first",
            ["metric", "ratio", "between cells", "cells"],
            figures,
        ),
        texts(f"{comparison.study}-differs", "What differs besides", ["", "first", "second"], differs),
    )
