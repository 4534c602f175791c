"""Finds a tier's current processes on this machine: the roots of process trees, whose descendants come and go."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.tiers.declaration import Tier

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
LISTENING = "0A"
"""The state LISTEN in /proc/net/tcp."""


def roots(tier: Tier) -> list[int]:
    """The tier's processes that do not descend from another of them.

    Raises:
        CouldNotRun: there are none, or none that we may see.
    """
    assert tier.host is None
    found = _topmost(_FINDERS[tier.kind](tier.value))
    if not found:
        raise CouldNotRun(
            f"tier {tier} has no process that we may see",
            "is it running? /proc hides the sockets of others' processes: run as their user, or as root",
        )
    return found


def listeners(port: int) -> list[int]:
    """The processes that listen on a TCP port and may be inspected, without the workers of others.

    Workers belong to the process that forked them, which may end them as it likes.
    """
    return _topmost(_listening(port))


def members(pids: list[int]) -> set[int]:
    """The processes and all their current descendants."""
    found, queue = set[int](), list(pids)
    while queue:
        pid = queue.pop()
        if pid not in found:
            found.add(pid)
            queue += _children(pid)
    return found


def sockets(pids: set[int]) -> dict[int, set[int]]:
    """The inodes of each process's open sockets."""
    found: dict[int, set[int]] = {pid: set() for pid in pids}
    for pid, inodes in found.items():
        for name in _entries(PROC / str(pid) / "fd"):
            try:
                link = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(int(link[8:-1]))
    return found


def _topmost(pids: list[int]) -> list[int]:
    parents = {pid: _parent(pid) for pid in pids}
    # A process without a parent has ended meanwhile.
    return sorted(pid for pid, above in parents.items() if above is not None and above not in parents)


def _parent(pid: int) -> int | None:
    try:
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _listening(port: int) -> list[int]:
    inodes = {inode for name in ("tcp", "tcp6") for inode in _listening_in(PROC / "net" / name, port)}
    return [pid for pid in _pids() if inodes & sockets({pid})[pid]] if inodes else []


def _listening_in(table: Path, port: int) -> Iterator[int]:
    """The kernel lists listeners first and generates the many connections as they are read, so it stops before them."""
    if not table.exists():
        return
    with table.open() as rows:
        next(rows)
        for row in rows:
            fields = row.split()
            if fields[3] != LISTENING:
                return
            if int(fields[1].rpartition(":")[2], 16) == port:
                yield int(fields[9])


def _commands(pattern: re.Pattern[str]) -> list[int]:
    found = []
    for pid in _pids():
        try:
            words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        # A process that searches with the expression has it in its own command line, too.
        if pid not in _ourselves() and pattern.search(b" ".join(words).decode(errors="replace")):
            found.append(pid)
    return found


def _ourselves() -> set[int]:
    chain, pid = set[int](), os.getpid()
    while pid and pid not in chain:
        chain.add(pid)
        pid = _parent(pid) or 0
    return chain


def _cgroup_of_unit(unit: str) -> Path:
    name = unit if "." in unit else f"{unit}.service"
    for base in (CGROUPS, CGROUPS / "systemd", CGROUPS / "unified"):
        for found in (base / "system.slice" / name, *base.glob(f"**/{name}")):
            if found.is_dir():
                return found
    raise CouldNotRun(f"there is no control group of a unit {name}", "does systemd run it? systemctl status tells")


def _members(folder: Path) -> list[int]:
    if not (folder / "cgroup.procs").exists():
        raise CouldNotRun(f"{folder} is no control group", "give its folder below /sys/fs/cgroup")
    return sorted({int(pid) for path in folder.rglob("cgroup.procs") for pid in path.read_text().split()})


def _children(pid: int) -> Iterator[int]:
    for thread in _entries(PROC / str(pid) / "task"):
        yield from map(int, " ".join(_lines(PROC / str(pid) / "task" / thread / "children")).split())


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdecimal()]


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _existing(pid: int) -> list[int]:
    return [pid] if (PROC / str(pid)).exists() else []


_FINDERS: Mapping[str, Callable[[str], list[int]]] = {
    "port": lambda value: _listening(int(value)),
    "pid": lambda value: _existing(int(value)),
    "command": lambda value: _commands(re.compile(value)),
    "unit": lambda value: _members(_cgroup_of_unit(value)),
    "cgroup": lambda value: _members(Path(value)),
}
