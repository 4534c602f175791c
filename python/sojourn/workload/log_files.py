"""Finds a command's log files: named files, folders, and patterns.

A named file must be a log. In folders and patterns the import skips files that are not logs, and reports them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class LogFile:
    """A log file, or standard input."""

    path: str
    is_found: bool
    """True if it was found in a folder or by a pattern."""


def find(logs: Sequence[str]) -> list[LogFile]:
    """The files of all logs, folders and patterns in the given order, without duplicates.

    Raises:
        CouldNotRun: a file does not exist, or a folder or pattern contains none.
    """
    found: dict[str, LogFile] = {}
    for log in logs:
        for file in _files(log):
            found.setdefault(os.path.realpath(file.path) if file.path != STANDARD_INPUT else file.path, file)
    return list(found.values())


def _files(log: str) -> list[LogFile]:
    path = Path(log)
    if log == STANDARD_INPUT or path.is_file() or _is_stream(path):
        return [LogFile(log, is_found=False)]
    if path.is_dir():
        return _below(path)
    matches = sorted(glob.glob(log, recursive=True)) if glob.has_magic(log) else []
    if not matches:
        raise CouldNotRun(
            f"there is no file {log}",
            "give access logs, folders or patterns; plain, gz, bz2, xz and zst are read as they are",
        )
    return [file for match in matches for file in (_below(Path(match)) if Path(match).is_dir() else [_found(match)])]


def _is_stream(path: Path) -> bool:
    """A pipe, such as the shell's `<(zcat ...)`."""
    return path.exists() and not path.is_dir()


def _below(folder: Path) -> list[LogFile]:
    files = [_found(str(path)) for path in _walk(folder)]
    if not files:
        raise CouldNotRun(f"there is no file in {folder}", "give the folder that holds the access logs")
    return files


def _walk(folder: Path) -> Iterator[Path]:
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        yield from (Path(directory) / file for file in sorted(files) if not file.startswith("."))


def _found(path: str) -> LogFile:
    return LogFile(path, is_found=True)
