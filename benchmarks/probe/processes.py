"""A server's processes as they are now, and the CPU time of their threads' own clocks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def tree(pids: Iterable[int]) -> list[int]:
    """The processes and their living descendants."""
    found = []
    for pid in pids:
        found.append(pid)
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += tree(map(int, (thread / "children").read_text().split()))
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """What they and their living descendants have used, to the nanosecond."""
    threads = [thread for pid in tree(pids) for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
