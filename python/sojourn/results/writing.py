"""Files of results: whole or not at all. What cannot be written is remembered, and the run goes on.

A disk that is full, a folder that may not be written or was removed take nothing from the answer: the command prints
it, then names what was not written (`failure`), and ends with exit code 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sojourn.failure import CouldNotRun

NAMED_MAX = 12
"""Files that are named; of more, how many."""

_unwritten: dict[Path, str] = {}
"""With the reasons."""


def write(path: Path, content: bytes | Callable[[Path], object]) -> bool:
    """Writes a file, and says whether it is there; a function is told where, and raises OSError if it cannot.

    What was there under the name stays until the new file is whole. A folder that is gone is made again.
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
    """Notes a file that could not be written."""
    _unwritten[path] = because


def is_missing(path: Path) -> bool:
    """Whether the last try to write it failed."""
    return path in _unwritten


def failure() -> CouldNotRun | None:
    """What was not written, with the reasons and the cure; what it says is forgotten then."""
    if not _unwritten:
        return None
    reasons: dict[str, list[Path]] = {}
    for path, because in _unwritten.items():
        reasons.setdefault(because, []).append(path)
    _unwritten.clear()
    said = (f"{_listed(paths)} ({because})" for because, paths in reasons.items())
    return CouldNotRun(f"not written: {'; '.join(said)}", "make room there, or give another folder or file")


def reason(error: OSError) -> str:
    """Why the system refused, in its words."""
    # Native code says the number in words.
    number = error.errno or next(map(int, re.findall(r"\(os error (\d+)\)", str(error))), None)
    return os.strerror(number) if number else str(error)


def _listed(paths: list[Path]) -> str:
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    names = [str(path.relative_to(folder)) for path in paths[:NAMED_MAX]]
    more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
    return f"in {folder} {', '.join(names)}{more}"
