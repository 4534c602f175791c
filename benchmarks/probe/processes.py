"""The CPU time of a server's processes by their threads' own clocks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sojourn.probe.profile import tree


def cpu_seconds(pids: Iterable[int]) -> float:
    """Returns what they and their living descendants have used, to the nanosecond."""
    threads = [thread for pid in tree(pids) for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
