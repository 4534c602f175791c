"""The page over all studies' folders, and over the assessments beside them: what holds, and how far models were off."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sojourn import __version__
from sojourn.failure import CouldNotRun
from sojourn.report import format
from sojourn.report.markup import Markup, element, join
from sojourn.report.shell import shell
from sojourn.report.tables import grid
from sojourn.run_folder import RunFolder
from sojourn.study.folder import REPORT, SUMMARY
from sojourn.summary import Summary

INDEX = "index.html"
_FINDINGS = ("holds", "does not hold", "not decided")
_ASSESSMENT = "summary.json"


def write_index(runs: Path) -> Path | None:
    """Writes a page over all studies below a folder, and the assessments beside it; None where there is no study."""
    found = [(path.parent, json.loads(path.read_text())) for path in sorted(runs.rglob(SUMMARY))]
    if not found:
        return None
    rows = []
    for path, summary in found:
        counts = [sum(each["finding"] == name for each in summary["verdicts"]) for name in _FINDINGS]
        link = element("a", summary["title"], href=f"{path.relative_to(runs)}/{REPORT}")
        measured = f"{summary['points']:,} of {summary['points_planned']:,}"
        rows.append([link, summary["study"], measured, *map(str, counts), summary["source"]])
    head = ["study", "name", "points", *_FINDINGS, "source"]
    main = join(grid("table-studies", "What holds here, and what does not", [head], rows), _held_out(runs))
    text = shell("studies", "Studies", f"{len(found)} studies", main, __version__, (REPORT, SUMMARY))
    target = runs / INDEX
    target.write_text(text)
    return target


def _held_out(runs: Path) -> Markup | None:
    """How far the models of assessments were from the steps that they were not fitted on."""
    rows = []
    for path in sorted(runs.parent.glob(f"*/{_ASSESSMENT}")):
        summary = _summary(path.parent)
        model = None if summary is None else summary.model
        if summary is None or model is None or model.steps_held_out == 0:
            continue
        link = element("a", path.parent.name, href=os.path.relpath(path.with_name(REPORT), runs))
        errors = (
            model.held_out_error_requests_per_second,
            model.held_out_error_response_time_mean,
            model.held_out_error_response_time_p95,
        )
        server = summary.system.name if summary.system else None
        steps = f"{model.steps_held_out} of {model.steps_held_out + model.steps_fitted}"
        rows.append([link, summary.log_name, server, steps, *(format.percent(each) for each in errors)])
    if not rows:
        return None
    head = ["assessment", "log", "server", "steps held out", "requests/s", "mean response time", "p95"]
    note = "The largest relative error over the steps that the model was not fitted on; times below the knee alone."
    return grid("table-held-out", "How far the models were off", [head], rows, note)


def _summary(folder: Path) -> Summary | None:
    """None of a folder that another version wrote, or that is no assessment's."""
    try:
        return RunFolder.open(folder).summary()
    except (CouldNotRun, OSError):
        return None
