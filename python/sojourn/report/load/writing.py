"""Writes the report of a load run: a page of requests, or one of viewers."""

from __future__ import annotations

from pathlib import Path

from sojourn.report.load import page, streams
from sojourn.report.load.run import LoadRun

NAME = "report.html"


def write_report(path: Path) -> Path:
    """Draws the report of the run in a folder and returns where it is."""
    run = LoadRun.read(path)
    report = path / NAME
    report.write_text(streams.page(run) if run.result.is_streams else page.page(run))
    return report
