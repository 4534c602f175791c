"""A study's run folder: each point is a file, written atomically when done, so that no kind of end loses measurements.

`study.toml` is the study as run, `plan.json` what determines its measurements, `points/REPETITION-CELL.json` the
points, `environments.json` a row for each start of measuring. `points.parquet`, `study.json` and `report.html` are
computed from these at the end.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from sojourn.failure import CouldNotRun
from sojourn.machine.environment import Environment
from sojourn.results.run_folder import RunFolder
from sojourn.study.differences import differences
from sojourn.study.document import Study, parsed, read
from sojourn.study.points import Point

DOCUMENT = "study.toml"
PLAN = "plan.json"
ENVIRONMENTS = "environments.json"
SUMMARY = "study.json"
REPORT = "report.html"
DIFFERENCES_SHOWN = 5
"""The most differences listed when a folder holds another study."""
POINTS = "points"
_LOCK = ".lock"

Record = dict[str, Any]
"""The content of a point's file; each kind of point adds its own keys."""
TROUBLES = ("failed", "generator_limited", "doubtful")
"""Keys of a record that exclude its figures from decisions."""


def nothing(because: str) -> Record:
    """The record of a point without any measurement."""
    return {"failed": because, "generator_limited": None, "metrics": {}, "counters": {}}


class StudyFolder:
    """The folder of one study's run."""

    def __init__(self, folder: RunFolder, study: Study, whole: Study, lock: IO[str] | None = None) -> None:
        self.run = folder
        self.study = study
        self.whole = whole.model_copy(update={"log": study.log})
        """The whole study; the folder's may be a part of it."""
        self._lock = lock
        self._unwritten: dict[Path, Record] = {}
        """Points whose files the disk refused: what is said comes from them too."""

    @classmethod
    def begin(cls, path: Path, study: Study, text: str) -> StudyFolder:
        """Creates the folder, or resumes one with the same study, and locks it against other runs."""
        if (path / PLAN).is_file():
            _require_same(path, json.loads((path / PLAN).read_text()), study.plan())
            lock = _lock(path)
            folder = RunFolder(path)
        else:
            folder = RunFolder.create(path, holds=(DOCUMENT,), inside=POINTS)
            lock = _lock(path)
        # Checks and plots may have changed: they affect the judgement of points, not the points.
        folder.write_text(DOCUMENT, text)
        folder.write_json(PLAN, study.plan())
        return cls(folder, study, parsed(text), lock)

    def close(self) -> None:
        """Unlocks the folder."""
        if self._lock is not None:
            self._lock.close()

    @classmethod
    def open(cls, path: Path) -> StudyFolder:
        """Opens the folder of an earlier run for reading."""
        if not (path / PLAN).is_file():
            raise CouldNotRun(f"{path} is not the folder of a study: it has no {PLAN}", "run one with sojourn study")
        whole, _ = read(path / DOCUMENT)
        plan = json.loads((path / PLAN).read_text())
        return cls(RunFolder(path), whole.planned(plan), whole)

    def hold(self, name: str, source: Path) -> Path:
        """Copies a file on which the points depend and returns the copy's path; refuses a changed file."""
        path, text = self.run.path / name, source.read_text(encoding="utf-8")
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            raise CouldNotRun(
                f"{path} differs from what the study uses now", "give another --output, or remove the folder"
            )
        return path if self.run.write_text(name, text) else source

    def has(self, point: Point) -> bool:
        """Returns true if the point was measured; a point that failed without a measurement is tried again."""
        record = self.record(point)
        return record is not None and bool(record["metrics"])

    def record(self, point: Point) -> Record | None:
        """The record of a point; None if there is none yet."""
        file = self._file(point)
        if file.is_file():
            written: Record = json.loads(file.read_text())
            return written
        return self._unwritten.get(file)

    def tries(self, point: Point) -> int:
        """The number of attempts at the point."""
        record = self.record(point)
        return 0 if record is None else int(record.get("tries", 1))

    def keep(self, point: Point, record: Record) -> None:
        """Writes a point's file."""
        whole = {"settings": dict(point.settings), "repetition": point.repetition, **record}
        if not self.run.write_json(f"{POINTS}/{point.name}.json", whole):
            self._unwritten[self._file(point)] = whole

    def records(self) -> list[Record]:
        """The records of all measured points."""
        written = {path: json.loads(path.read_text()) for path in (self.run.path / POINTS).glob("*.json")}
        return [record for _, record in sorted({**written, **self._unwritten}.items())]

    def environments(self) -> list[Environment]:
        """The machine at each start of measuring."""
        path = self.run.path / ENVIRONMENTS
        found: list[Environment] = json.loads(path.read_text()) if path.is_file() else []
        return found

    def add_environment(self, environment: Environment) -> None:
        """Records the current machine if it differs from the last one."""
        known = self.environments()
        if not known or known[-1] != environment:
            self.run.write_json(ENVIRONMENTS, [*known, environment])

    def write_table(self) -> None:
        """Writes all points as one table."""
        self.run.write_table("points.parquet", [_row(each) for each in self.records()])

    def _file(self, point: Point) -> Path:
        return self.run.path / POINTS / f"{point.name}.json"


def _lock(path: Path) -> IO[str]:
    """A locked file; the lock ends with the process at the latest."""
    try:
        file = (path / _LOCK).open("w")
    except OSError as error:
        raise CouldNotRun(f"cannot write {path / _LOCK}: {error.strerror}", "give another --output") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise CouldNotRun(
            f"another `sojourn study` is measuring into {path}", "wait until it has ended, or give another --output"
        ) from None
    return file


def _require_same(path: Path, held: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    if changed := differences(held, wanted):
        more = f"; and {len(changed) - DIFFERENCES_SHOWN} more" if len(changed) > DIFFERENCES_SHOWN else ""
        raise CouldNotRun(
            f"{path} holds points of another study: {'; '.join(changed[:DIFFERENCES_SHOWN])}{more}",
            "give another --output, or remove the folder; --quick and whole studies need a folder each",
        )


def _row(record: Record) -> dict[str, object]:
    plain = {name: value for name, value in record.items() if not isinstance(value, dict | list)}
    nested = {**{f"factor_{name}": str(value) for name, value in record["settings"].items()}}
    counters = {f"probe_{name}": value for name, value in record.get("counters", {}).items()}
    return {**nested, **plain, **record.get("metrics", {}), **counters}
