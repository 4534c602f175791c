"""Writes recordings as Parquet (all samples), JSON (all samples and the summary) or Prometheus text (the last values).

The file name's extension selects the format. Parquet carries the counters' table in its schema metadata, so that a file
explains itself.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from pydantic import BaseModel, ValidationError

from sojourn.engine.results import Counter, Machine, ProbeClocks
from sojourn.failure import CouldNotRun
from sojourn.probe.recording import Recording
from sojourn.probe.totals import summary
from sojourn.results import writing
from sojourn.results.run_folder import parquet
from sojourn.text.prometheus import Exposition, Kind

ENDINGS = (".parquet", ".json", ".prom")


def check_name(path: Path) -> None:
    """Refuses an unknown extension before anything is measured."""
    if path.suffix not in ENDINGS:
        raise CouldNotRun(f"{path} has an unknown extension", f"use {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise CouldNotRun(f"{path.parent} is not a folder", "make it first")


def write(path: Path, recording: Recording) -> bool:
    """Writes the file atomically, and returns whether it succeeded (`results.writing`)."""
    return writing.write(path, _content(path.suffix, recording))


def _content(ending: str, recording: Recording) -> bytes:
    if ending == ".parquet":
        import polars

        frame = polars.DataFrame(recording.columns())
        return parquet(frame, {"sojourn": _described(recording).model_dump_json(exclude_unset=True)})
    if ending == ".json":
        samples = {name: _finite(values) for name, values in recording.columns().items()}
        return (json.dumps(summary(recording).as_json() | {"samples_by_column": samples}) + "\n").encode()
    return prometheus(recording).encode()


class _Described(BaseModel):
    """The metadata of a recording's file."""

    version: str
    machine: Machine
    clocks: ProbeClocks
    pids: list[int]
    counters: list[Counter]
    refused: list[Counter]
    unavailable: dict[str, str]
    missing: dict[str, str]


def read(path: Path) -> Recording:
    """Reads a Parquet file of `write`."""
    import polars

    try:
        described = _Described.model_validate_json(polars.read_parquet_metadata(path)["sojourn"])
        frame = polars.read_parquet(path)
    except (OSError, KeyError, ValidationError, polars.exceptions.PolarsError) as error:
        raise CouldNotRun(f"{path} is not a recording of sojourn probe: {error}", "give its .parquet file") from error
    return Recording(
        version=described.version,
        machine=described.machine,
        clocks=described.clocks,
        pids=described.pids,
        counters=described.counters,
        unavailable=described.unavailable,
        refused=described.refused,
        unix_seconds=frame["unix_seconds"].to_list(),
        time_seconds=frame["time_seconds"].to_list(),
        sampling_seconds=frame["sampling_seconds"].to_list(),
        rows=[list(row) for row in frame.select([counter.name for counter in described.counters]).rows()],
        missing=described.missing,
    )


def prometheus(recording: Recording) -> str:
    """The last sample in the text exposition format; a comment gives the reason for each counter without a value."""
    written = Exposition("sojourn_probe_")
    for place, counter in enumerate(recording.counters):
        value = recording.rows[-1][place] if recording.rows else math.nan
        if math.isnan(value):
            written.unavailable(_metric(counter), recording.missing.get(counter.name, "no sample was taken"))
        else:
            kind: Kind = "counter" if counter.kind == "total" else "gauge"
            written.family(_metric(counter), kind, counter.meaning, [({}, value)])
    for counter in recording.refused:
        written.unavailable(_metric(counter), recording.unavailable[counter.name])
    return written.text()


def _metric(counter: Counter) -> str:
    return counter.name + ("_total" if counter.kind == "total" else "")


def _described(recording: Recording) -> _Described:
    return _Described(
        version=recording.version,
        machine=recording.machine,
        clocks=recording.clocks,
        pids=recording.pids,
        counters=recording.counters,
        refused=recording.refused,
        unavailable=recording.unavailable,
        missing=recording.missing,
    )


def _finite(values: object) -> list[float | None]:
    return [None if math.isnan(value) else value for value in map(float, values)]  # type: ignore[call-overload]
