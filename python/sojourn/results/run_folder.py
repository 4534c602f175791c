"""The run folder: the only result store.

`runs/NAME/` holds `study.toml` (what was asked for), `environment.json`, `points.parquet` (a row per step
and repetition), `timeline.parquet`, `latency/*.hlog` (HDR interval logs), `system.toml` (the fitted model),
`summary.json` and `report.html`. Files are written as soon as their content is known, each by rename, so that
an interrupted run leaves whole files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars

from sojourn.failure import CouldNotRun


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, holds: Sequence[str] = (), inside: str = "latency") -> RunFolder:
        """Makes the folder, and one `inside` it for files of a kind.

        One that already has a summary, or a file that `holds` another kind of run, is refused, never overwritten.
        """
        if any((path / name).exists() for name in ("summary.json", *holds)):
            raise CouldNotRun(f"{path} already holds a run", "give another --output, or remove the folder")
        try:
            (path / inside).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CouldNotRun(
                f"cannot make the run folder {path}: {error.strerror}", "give another --output"
            ) from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Opens the folder of a run that has a summary."""
        if not (path / "summary.json").is_file():
            raise CouldNotRun(f"{path} is not a run folder: it has no summary.json", "give runs/NAME")
        return cls(path)

    def write_json(self, name: str, value: object) -> None:
        self.write_text(name, json.dumps(value, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file whole or not at all."""
        self.write(name, lambda partial: partial.write_text(text))

    def write_table(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Writes rows as a Parquet file; no rows, no file."""
        if rows:
            table = polars.DataFrame(rows, infer_schema_length=None)
            self.write(name, table.write_parquet)

    def write(self, name: str, write: Callable[[Path], object]) -> None:
        """Has a file written whole or not at all; `write` is told where."""
        target = self.path / name
        partial = target.with_name(target.name + ".partial")
        try:
            write(partial)
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise CouldNotRun(
                f"cannot write {target}: {error.strerror or error}", "make room there, or give another --output"
            ) from error

    def table(self, name: str) -> polars.DataFrame | None:
        """Reads a Parquet file of the run, if it was written."""
        path = self.path / name
        return polars.read_parquet(path) if path.is_file() else None
