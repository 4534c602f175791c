"""The files that a command's logs are: files, the folders that hold them, and patterns.

A file that is named has to be a log. Folders and patterns take whatever is there: the import skips what is no log and
says so.
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
    """A file to read, or standard input."""

    path: str
    is_found: bool
    """True if it was not named itself."""


def find(logs: Sequence[str]) -> list[LogFile]:
    """The files of logs, folders and patterns, each once, in the order in which they are given.

    Raises:
        CouldNotRun: there is no such file, or a folder or a pattern gives none.
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
    """A pipe, as a shell gives for `<(zcat ...)`."""
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
