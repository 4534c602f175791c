"""Writes result files atomically. A file that cannot be written is remembered, and the run goes on.

A full disk, or a folder that is read-only or was removed, does not lose the answer: the command prints it, then lists
the files that were not written (`failure`), and ends with exit code 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sojourn.failure import CouldNotRun

NAMED_MAX = 12
"""The most files listed by name; further ones are counted."""

_unwritten: dict[Path, str] = {}
"""Files that could not be written, with the reasons."""


def write(path: Path, content: bytes | Callable[[Path], object]) -> bool:
    """Writes a file and returns whether it succeeded; a function gets the path and raises OSError on failure.

    An existing file is replaced only when the new one is complete. A missing folder is created again.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(partial)
        else:
            partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        missed(path, reason(error))
        return False
    _unwritten.pop(path, None)
    return True


def missed(path: Path, because: str) -> None:
    """Records a file that could not be written."""
    _unwritten[path] = because


def is_missing(path: Path) -> bool:
    """Returns true if the last attempt to write the file failed."""
    return path in _unwritten


def failure() -> CouldNotRun | None:
    """Reports the files that were not written, with the reasons and a suggested fix, and forgets them."""
    if not _unwritten:
        return None
    reasons: dict[str, list[Path]] = {}
    for path, because in _unwritten.items():
        reasons.setdefault(because, []).append(path)
    _unwritten.clear()
    said = (f"{_listed(paths)} ({because})" for because, paths in reasons.items())
    return CouldNotRun(f"not written: {'; '.join(said)}", "make room there, or give another folder or file")


def reason(error: OSError) -> str:
    """The system's reason in words."""
    # Native code gives the error number in the text.
    number = error.errno or next(map(int, re.findall(r"\(os error (\d+)\)", str(error))), None)
    return os.strerror(number) if number else str(error)


def _listed(paths: list[Path]) -> str:
    paths = [path.absolute() for path in paths]
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    names = [str(path.relative_to(folder)) for path in paths[:NAMED_MAX]]
    more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
    return f"in {folder} {', '.join(names)}{more}"
