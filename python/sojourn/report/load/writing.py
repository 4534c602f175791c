"""Writes the report of a load run: a page of requests, or of viewers."""

from __future__ import annotations

from pathlib import Path

from sojourn.loading.folder import RESULT, LoadRun, is_load_run
from sojourn.report.load import page, streams
from sojourn.results import writing
from sojourn.results.run_folder import RunFolder

NAME = "report.html"


def write_report(path: Path) -> Path | None:
    """Writes the report of the run in a folder and returns its path; None if it could not be written."""
    folder = RunFolder(path)
    if not is_load_run(path) and folder.written(RESULT) is None:
        writing.missed(path / NAME, f"there is no {RESULT} to draw it from")
        return None
    run = LoadRun.read(path)
    folder.write_text(NAME, streams.page(run) if run.result.is_streams else page.page(run))
    return folder.written(NAME)
