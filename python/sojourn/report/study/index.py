"""The page of all studies and of the assessments beside them: verdicts, and errors of models."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sojourn import __version__
from sojourn.assessment.held_out import AIMS, UTILISATION_MAX, distances
from sojourn.assessment.summary import Summary, read_summary
from sojourn.failure import CouldNotRun
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.tables import texts
from sojourn.results import writing
from sojourn.results.run_folder import RunFolder
from sojourn.study.decisions import FINDINGS
from sojourn.study.finding_counts import by_evidence, counted
from sojourn.study.folder import REPORT, SUMMARY
from sojourn.study.sources import by_source, citation
from sojourn.text import format

INDEX = "index.html"
HELD_OUT_HEAD = (
    *("assessment", "log", "server", "steps held out"),
    *(f"{aim.name} (aim {format.percent(aim.fraction)})" for aim in AIMS),
    "what the model lacks",
)
HELD_OUT_NOTE = (
    f"The largest relative error over the steps below {format.percent(UTILISATION_MAX)} utilisation that the model "
    "was not fitted on."
)
_ASSESSMENT = "summary.json"


def write_index(runs: Path) -> Path | None:
    """Writes the page of all studies below a folder and the assessments beside it; None without a study."""
    found = summaries(runs)
    if not found:
        return None
    rows, claims = [], []
    cited: set[str] = set()
    for path, summary in found:
        counts = [sum(each["finding"] == name for each in summary["verdicts"]) for name in FINDINGS]
        full = citation(summary["source"]) if summary["source"].partition(", ")[0] not in cited else None
        cited.add(summary["source"].partition(", ")[0])
        page = quote(f"{path.relative_to(runs)}/{REPORT}")
        notes = [f"{path.relative_to(runs)}: {summary['source']}", full, remarks(summary)]
        titled = join(element("a", summary["title"], href=page), [_noted(note) for note in notes if note])
        there, planned = (f"{summary[name]:,}" for name in ("points", "points_planned"))
        measured = there if there == planned else f"{there} of {planned}"
        rows.append([titled, measured, *map(str, counts)])
        found_here = (
            (each["says"], join(element("strong", each["finding"]), _noted(each.get("evidence") or "")), _why(each))
            for each in summary["verdicts"]
        )
        named = join(element("a", summary["study"], href=page), _noted(summary["source"]))
        claims += [[named, *each] for each in found_here]
    head = ["study", "points", *FINDINGS]
    main = join(
        texts("table-studies", "What holds here, and what does not", head, rows, _counted(found)),
        _resting(found),
        _held_out(runs),
        texts("table-claims", "Every finding of the sources", ["study", "finding", "here", "why"], claims),
    )
    text = shell("studies", "Studies", f"{len(found)} studies", main, __version__, (REPORT, SUMMARY))
    target = runs / INDEX
    return target if writing.write(target, text.encode()) else None


StudySummary = Mapping[str, Any]
"""A study's summary or a part of it, as a mapping, since keys differ between versions."""
Found = tuple[Path, StudySummary]
"""A study's folder and its summary."""


def summaries(runs: Path) -> list[Found]:
    """The folders of all studies below a folder with their summaries, in the order of the sources' contents."""
    found = [(path.parent, json.loads(path.read_text())) for path in sorted(runs.rglob(SUMMARY))]
    sources = by_source(found, lambda each: each[1]["source"])
    return [each for placed in sources.values() for _, each in placed]


def _counted(found: Sequence[Found]) -> str:
    """The number of findings by verdict, over all studies."""
    verdicts = [(each["finding"], each.get("evidence")) for _, summary in found for each in summary["verdicts"]]
    return f"Of {len(verdicts)} findings: {'; '.join(counted(verdicts))}. By 95 % intervals; each stands for itself."


def _resting(found: Sequence[Found]) -> Markup | None:
    verdicts = [(each["finding"], each.get("evidence")) for _, summary in found for each in summary["verdicts"]]
    rows = [[kind, *(f"{each:,}" for each in counts)] for kind, counts in by_evidence(verdicts)]
    return (
        texts("table-evidence", "Evidence of the findings", ["points", "findings", *FINDINGS], rows) if rows else None
    )


def _why(verdict: StudySummary) -> Markup:
    """The figures, explanations of findings that do not hold, and the cost of deciding open ones."""
    return join(
        verdict["why"], [_noted(said) for said in (*verdict.get("because", ()), verdict.get("to_decide")) if said]
    )


def _noted(text: str) -> Markup:
    return element("p", text, class_="note")


def remarks(summary: StudySummary) -> str:
    """Parts of the study that were left out."""
    said = ["a trial without verdicts"] if summary.get("tried") else list(summary.get("given_up", ()))
    said += [f"without {name}: {because}" for name, because in summary.get("missing", {}).items()]
    said += [f"{number} points failed: {because}" for because, number in summary.get("failed", {}).items()]
    unlimited = summary.get("cpu_unlimited", {})
    said += [f"{number} points with a whole core for the server: {because}" for because, number in unlimited.items()]
    return "; ".join(said)


@dataclass(frozen=True)
class Assessed:
    """An assessment whose model was checked on steps outside its fit."""

    folder: Path
    log: str | None
    server: str | None
    steps: str
    errors: Sequence[str]
    """The errors in the order of the aims."""
    lacks: str


def assessed(runs: Path) -> list[Assessed]:
    """The assessments beside the studies' folder."""
    rows = []
    for path in sorted(runs.parent.glob(f"*/{_ASSESSMENT}")):
        summary = _summary(path.parent)
        model = None if summary is None else summary.model
        if summary is None or model is None or model.steps_held_out == 0:
            continue
        found = distances(summary)
        server = summary.system.name if summary.system else None
        steps = f"{model.steps_held_out} of {model.steps_held_out + model.steps_fitted}"
        errors = ["no step" if each is None else each.short for each in found]
        lacks = "; ".join(f"{each.aim.name}: {each.said}" for each in found if each is not None and each.missed_by)
        rows.append(Assessed(path.parent, summary.log_name, server, steps, errors, lacks))
    return rows


def _held_out(runs: Path) -> Markup | None:
    """The errors of assessments' models on held-out steps."""
    rows = [
        [
            element("a", each.folder.name, href=quote(os.path.relpath(each.folder / REPORT, runs))),
            *(each.log, each.server, each.steps, *each.errors, each.lacks),
        ]
        for each in assessed(runs)
    ]
    return (
        texts("table-held-out", "Model errors on held-out steps", HELD_OUT_HEAD, rows, HELD_OUT_NOTE) if rows else None
    )


def _summary(folder: Path) -> Summary | None:
    """The summary of an assessment; None for other folders and other versions."""
    try:
        return read_summary(RunFolder.open(folder))
    except (CouldNotRun, OSError):
        return None
