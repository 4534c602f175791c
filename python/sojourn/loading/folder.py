"""A load run's folder, which is sufficient to read the run back and draw its report.

`result.json`, `environment.json`, `timeline.parquet`, `intervals.parquet`, `latency/*.hlog`, and `probe.parquet` where
the server was probed. A search has `search.json` and, of each run, `point-NNN.json` and its probe `point-NNN.parquet`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from sojourn.failure import CouldNotRun
from sojourn.loading import outputs, record
from sojourn.loading.result import Column, LoadResult
from sojourn.loading.threshold import Verdict
from sojourn.machine.environment import Environment
from sojourn.probe import files
from sojourn.results.run_folder import RunFolder

RESULT = "result.json"
SEARCH = "search.json"
PROBE = "probe.parquet"
_STEPS_LOG = "latency/steps.hlog"
_INTERVALS_LOG = "latency/intervals.hlog"


def is_load_run(path: Path) -> bool:
    """Returns true if the folder holds a load run."""
    return (path / RESULT).is_file()


def repetitions(path: Path) -> list[Path]:
    """The runs of a folder of repetitions in order; the path itself if it is no such folder."""
    if not path.is_dir() or is_load_run(path):
        return [path]
    inside = [each for each in path.iterdir() if is_load_run(each)]
    # Sorts 10 after 9.
    return sorted(inside, key=lambda each: (len(each.name), each.name)) or [path]


def is_search(path: Path) -> bool:
    """Returns true if the folder holds a capacity search."""
    return (path / SEARCH).is_file()


def create(path: Path) -> RunFolder:
    """Creates the folder before anything is measured; refuses a folder that holds a run."""
    return RunFolder.create(path, holds=(RESULT, SEARCH))


def write(
    folder: RunFolder,
    result: LoadResult,
    options: Sequence[str],
    verdicts: Sequence[Verdict],
    environment: Environment,
) -> None:
    """Writes everything but the report. `options` are those of the engine, which comparisons show as the plan."""
    folder.write_json("environment.json", environment)
    added = {"options": [*options], "thresholds": [verdict.record for verdict in verdicts]}
    rewrite(folder, replace(result, record=result.record.model_copy(update=added)))


def rewrite(folder: RunFolder, result: LoadResult) -> None:
    """Writes the run again with later additions."""
    if result.timeline:
        folder.write_frame("timeline.parquet", outputs.timeline(result))
    if result.interval_table:
        folder.write_frame("intervals.parquet", outputs.intervals(result))
    if result.recording is not None:
        files.write(folder.path / PROBE, result.recording)
    folder.write_text(_STEPS_LOG, result.histogram_log)
    folder.write_text(_INTERVALS_LOG, result.interval_log)
    # Written last: a folder with a result is complete.
    folder.write_json(RESULT, result.record.as_json())


def write_point(folder: RunFolder, number: int, result: LoadResult) -> None:
    """Writes one run of a search."""
    point = folder.path / f"point-{number:03}.json"
    if result.recording is not None:
        files.write(point.with_suffix(".parquet"), result.recording)
    folder.write_text(point.name, json.dumps(result.embedded()))


def points(path: Path) -> list[Path]:
    """The runs of a search in order, as files for `read`."""
    return sorted(path.glob("point-*.json"))


def read(path: Path) -> LoadResult:
    """Reads the run of a folder, or of a file with the output of `sojourn load --format json`.

    Raises:
        CouldNotRun: there is no run, or it cannot be read.
    """
    if path.is_dir():
        return _read_folder(path)
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise CouldNotRun(f"cannot read {path}: {error}", "give a run folder or a JSON result") from error
    result = LoadResult.of(_parsed(text, path))
    probed = path.with_suffix(".parquet")
    is_point = is_search(path.parent) and probed.is_file()
    return replace(result, recording=files.read(probed)) if is_point else result


def _read_folder(path: Path) -> LoadResult:
    if not is_load_run(path):
        raise CouldNotRun(f"{path} holds no load run: there is no {RESULT}", "write one with sojourn load --output")
    table = RunFolder(path).table("timeline.parquet")
    timeline = {} if table is None else {name: _floats(table[name].to_list()) for name in table.columns}
    logs = [(path / name).read_text() if (path / name).is_file() else "" for name in (_STEPS_LOG, _INTERVALS_LOG)]
    recording = files.read(path / PROBE) if (path / PROBE).is_file() else None
    return LoadResult(_parsed((path / RESULT).read_text(), path / RESULT), timeline, logs[0], logs[1], recording)


def _parsed(text: str, path: Path) -> record.RunRecord:
    try:
        return record.parse(text)
    except ValidationError as error:
        raise CouldNotRun(
            f"{path} is not the result of a load run: {error.errors()[0]['msg']}",
            "write one with sojourn load --format json",
        ) from error


def environment(path: Path) -> Environment:
    """The environment of the run; empty if the folder does not contain it."""
    file = path / "environment.json"
    found: Environment = json.loads(file.read_text()) if file.is_file() else {}
    return found


def _floats(values: list[float | None]) -> Column:
    return np.array(values, dtype=np.float64)


@dataclass(frozen=True)
class LoadRun:
    """A run as its report needs it, read once."""

    result: LoadResult
    environment: Environment

    @classmethod
    def read(cls, path: Path) -> LoadRun:
        return cls(read(path), environment(path))
