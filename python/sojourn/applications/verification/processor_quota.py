"""Limits the cores of running processes by moving them into a control group temporarily.

Processes they start meanwhile are limited, too. At the end all return to their former groups, and the group is removed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.tiers import processes

PERIOD_MICROSECONDS = 50_000
ROUNDS_MAX = 10
"""The most rounds of looking for further processes, which others start while they are moved."""


class ProcessorQuota:
    """Limits the cores of processes and their descendants within its context."""

    def __init__(self, name: str, pids: Iterable[int], cores: float) -> None:
        self._name = f"sojourn-{os.getpid()}-{name}"
        self._pids = set(pids)
        self._cores = cores
        self._came_from: dict[int, Path] = {}

    def __enter__(self) -> ProcessorQuota:
        base, is_unified = _hierarchy()
        self._base, self._group, self._is_unified = base, base / self._name, is_unified
        try:
            self._group.mkdir()
            self._limit()
            self._move_all()
        except OSError as error:
            self.__exit__()
            raise CouldNotRun(
                f"the cores of processes cannot be limited here: {error}",
                "be root, with control groups; or give a command that limits them",
            ) from error
        return self

    def __exit__(self, *_error: object) -> None:
        for _ in range(ROUNDS_MAX):
            for pid in self._inside():
                with contextlib.suppress(OSError):
                    _join(self._came_from.get(pid, self._home()), pid)
            with contextlib.suppress(OSError):
                self._group.rmdir()
                return

    def _limit(self) -> None:
        quota = max(1000, round(self._cores * PERIOD_MICROSECONDS))
        if self._is_unified:
            (self._group / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        else:
            (self._group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self._group / "cpu.cfs_quota_us").write_text(str(quota))

    def _move_all(self) -> None:
        """Moves all processes, and those that they start before they are moved themselves."""
        tried = set[int]()
        for _ in range(ROUNDS_MAX):
            # What a process has started within the group is in it already, and has nowhere else to return to.
            further = processes.members(sorted(self._pids | tried)) - tried
            further -= set(self._inside())
            if not further:
                return
            for pid in further:
                self._move(pid)
            tried |= further

    def _move(self, pid: int) -> None:
        # A process that ends meanwhile needs no limit.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            came_from = self._base / _path(pid, self._is_unified).lstrip("/")
            _join(self._group, pid)
            self._came_from[pid] = came_from

    def _inside(self) -> list[int]:
        try:
            return [int(pid) for pid in (self._group / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def _home(self) -> Path:
        """The group to which children born in the limited group return: their parents' group."""
        return next(iter(self._came_from.values()), self._base)


def _hierarchy() -> tuple[Path, bool]:
    """The cgroup hierarchy that limits CPU, and whether it is the unified one."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split()[4])
        if kind == "cgroup" and "cpu" in options.split()[-1].split(","):
            return place, False
        if kind == "cgroup2" and "cpu" in _words(place / "cgroup.subtree_control"):
            return place, True
    raise CouldNotRun("no hierarchy of control groups limits processors here", "give a command that limits them")


def _path(pid: int, is_unified: bool) -> str:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if (number == "0" and not controllers) if is_unified else "cpu" in controllers.split(","):
            return path
    return "/"


def _join(group: Path, pid: int) -> None:
    (group / "cgroup.procs").write_text(str(pid))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
