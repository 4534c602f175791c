"""The processes of a server as they are now: those that were named, and their living descendants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def tree(pids: Iterable[int]) -> list[int]:
    """These and all that descend from them, without those that have just ended."""
    found = []
    for pid in pids:
        children = _children(pid)
        if children is not None:
            found += [pid, *tree(children)]
    return found


def _children(pid: int) -> list[int] | None:
    """None of a process that is gone."""
    try:
        texts = [(thread / "children").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return [int(child) for text in texts for child in text.split()]
