"""The run folder: the only result store.

`runs/NAME/` holds `study.toml` (what was asked for), `environment.json`, `points.parquet` (a row per step
and repetition), `timeline.parquet`, `latency/*.hlog` (HDR interval logs), `system.toml` (the fitted model),
`summary.json` and `report.html`. Files are written as soon as their content is known, each by rename, so that
an interrupted run leaves whole files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.failure import CouldNotRun
from sojourn.results import writing

if TYPE_CHECKING:
    import polars  # It takes as long to import as everything else of most commands.


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, holds: Sequence[str] = (), inside: str = "latency") -> RunFolder:
        """Creates the folder, and the subfolder `inside` it if given.

        A folder that already has a summary, or a file in `holds` that marks another kind of run, is refused, never
        overwritten.
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
        """Opens the folder of a finished run."""
        if not (path / "summary.json").is_file():
            raise CouldNotRun(f"{path} is not a run folder: it has no summary.json", "give runs/NAME")
        return cls(path)

    def write_json(self, name: str, value: object) -> bool:
        return self.write_text(name, json.dumps(value, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> bool:
        return self.write(name, text.encode())

    def write_table(self, name: str, rows: Sequence[Mapping[str, object]]) -> bool:
        """Writes rows as a Parquet file; without rows it writes no file."""
        import polars

        return not rows or self.write_frame(name, polars.DataFrame(rows, infer_schema_length=None))

    def write_frame(self, name: str, frame: polars.DataFrame) -> bool:
        """Writes a data frame as a Parquet file."""
        return self.write(name, parquet(frame))

    def write(self, name: str, content: bytes | Callable[[Path], object]) -> bool:
        """Writes a file atomically, and returns whether it succeeded (`writing`)."""
        return writing.write(self.path / name, content)

    def written(self, name: str) -> Path | None:
        """The path of a file; None where it could not be written."""
        path = self.path / name
        return None if writing.is_missing(path) else path

    def table(self, name: str) -> polars.DataFrame | None:
        """Reads a Parquet file of the run; None if it was not written."""
        import polars

        path = self.path / name
        return polars.read_parquet(path) if path.is_file() else None


def parquet(frame: polars.DataFrame, metadata: dict[str, str] | None = None) -> bytes:
    """Encodes a data frame as Parquet in memory, so that only our own write meets disk errors."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=metadata)
    return buffer.getvalue()
