"""The data of a report, read once: the summary, the tables and the environment of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import polars

from sojourn.assessment.summary import Summary, read_summary
from sojourn.failure import CouldNotRun
from sojourn.machine.environment import Environment
from sojourn.planning.system_document import SystemDocument
from sojourn.results.run_folder import RunFolder
from sojourn.workload.characteristics import Characteristics, LogImport


@dataclass(frozen=True)
class Run:
    summary: Summary
    points: polars.DataFrame | None
    timeline: polars.DataFrame | None
    environment: Environment | None
    system: SystemDocument | None = None
    """The fitted server; None if there was nothing to fit."""

    @classmethod
    def read(cls, folder: RunFolder) -> Run:
        """Reads the folder's files; only the summary is mandatory."""
        environment = folder.path / "environment.json"
        return cls(
            read_summary(folder),
            folder.table("points.parquet"),
            folder.table("timeline.parquet"),
            json.loads(environment.read_text()) if environment.is_file() else None,
            _fitted(folder.path / "system.toml"),
        )

    @property
    def characteristics(self) -> Characteristics:
        return Characteristics(self.summary.characteristics)

    @property
    def log_import(self) -> LogImport:
        return LogImport(self.summary.log_import)

    @property
    def because_incomplete(self) -> str:
        """The reason why something may be missing, as the end of a sentence."""
        return self.summary.incomplete_because or "the run does not contain it"


def _fitted(path: Path) -> SystemDocument | None:
    try:
        return SystemDocument.read(path) if path.is_file() else None
    except CouldNotRun:
        # The fit may have come to values that no model takes: the page is then whole without the calculator.
        return None
