"""Samples of processors and processes from /proc and /sys.

Cumulative values (ticks, throttling) are meaningful as the difference of two samples. A value that cannot be read is
`None` or an empty mapping; the code that compares two samples gives the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICK_SECONDS = 0.01
"""The unit of CPU time in /proc (`USER_HZ` is 100 on every Linux architecture)."""


@dataclass(frozen=True)
class CoreTicks:
    """Ticks of one core since boot, by state."""

    busy: int
    """User, system and interrupt time."""
    interrupts: int
    stolen: int
    """Time stolen by the hypervisor."""
    idle: int

    @property
    def total(self) -> int:
        """All time, including stolen time."""
        return self.busy + self.stolen + self.idle

    def __sub__(self, earlier: CoreTicks) -> CoreTicks:
        return CoreTicks(
            self.busy - earlier.busy,
            self.interrupts - earlier.interrupts,
            self.stolen - earlier.stolen,
            max(0, self.idle - earlier.idle),  # proc(5): the time waiting for disks, which is in it, may decrease
        )


@dataclass(frozen=True)
class ThreadTicks:
    """CPU time of one thread so far, and the core it last ran on."""

    pid: int
    name: str
    started: int
    core: int
    ticks: int


@dataclass(frozen=True)
class Quota:
    """The tightest CPU limit of the control groups above this process."""

    cores: float | None
    """The limit in cores; `None` without a limit."""
    throttled_seconds: float
    """Cumulative time for which the group was throttled."""


@dataclass(frozen=True)
class Sample:
    cores: dict[int, CoreTicks]
    threads: dict[int, ThreadTicks]
    frequency_hertz: dict[int, float]
    heat_throttles: dict[int, int]
    """Cumulative thermal throttling events by core."""
    quota: Quota | None


def sample(cores: Iterable[int], *, beginning: bool, root: Path = Path("/")) -> Sample:
    """Takes a sample; reads the cores last at a span's start and first at its end, to exclude the sampling."""
    numbers = list(cores)
    times = {} if beginning else core_ticks(root)
    threads = thread_ticks(root)
    frequency = {
        core: 1e3 * found for core in numbers if (found := _number(_cpu(root, core, "cpufreq/scaling_cur_freq")))
    }
    heat = {
        core: int(found)
        for core in numbers
        if (found := _number(_cpu(root, core, "thermal_throttle/core_throttle_count"))) is not None
    }
    return Sample(core_ticks(root) if beginning else times, threads, frequency, heat, quota(root))


def core_ticks(root: Path) -> dict[int, CoreTicks]:
    """Every core's ticks, by its number."""
    found = {}
    for line in _text(root / "proc/stat").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, idle, iowait, interrupts, soft_interrupts, stolen = map(int, (fields + ["0"] * 8)[:8])
            of_interrupts = interrupts + soft_interrupts
            found[int(name[3:])] = CoreTicks(user + nice + system + of_interrupts, of_interrupts, stolen, idle + iowait)
    return found


def thread_ticks(root: Path) -> dict[int, ThreadTicks]:
    """The CPU time of every thread by ID, except this process's threads."""
    found = {}
    for process in (root / "proc").glob("[0-9]*"):
        pid = int(process.name)
        if pid == os.getpid():
            continue
        for task in (process / "task").glob("[0-9]*"):
            thread = _thread(pid, _text(task / "stat"))
            if thread is not None:
                found[int(task.name)] = thread
    return found


def _thread(pid: int, stat: str) -> ThreadTicks | None:
    head, end, tail = stat.rpartition(")")
    fields = tail.split()
    # proc(5): the name may contain spaces and parentheses, so fields are counted after the last one; fields[0] is field
    # 3, the state.
    if not end or len(fields) < 37:
        return None
    return ThreadTicks(
        pid=pid,
        name=head.partition("(")[2],
        started=int(fields[22 - 3]),
        core=int(fields[39 - 3]),
        ticks=int(fields[14 - 3]) + int(fields[15 - 3]),
    )


def quota(root: Path) -> Quota | None:
    """The tightest limit among this process's control groups; `None` where the groups do not report it.

    In a container the path in /proc may be the host's; the mounted folder itself is then the group.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        unified = controllers == ""
        if not unified and "cpu" not in controllers.split(","):
            continue
        places = ["", "unified"] if unified else ["cpu", "cpu,cpuacct", "cpuacct,cpu"]
        for mount in (root / "sys/fs/cgroup" / place for place in places):
            inside = mount / path.lstrip("/")
            here = inside if inside.is_dir() else mount
            groups = [each for each in [here, *here.parents] if each == mount or mount in each.parents]
            limits = [found for group in groups if (found := _quota_of(group, unified)) is not None]
            if limits:
                return min(limits, key=lambda limit: limit.cores or float("inf"))
    return None


def _quota_of(group: Path, unified: bool) -> Quota | None:
    if unified:
        words = _text(group / "cpu.max").split()
    else:
        words = [_text(group / f"cpu.cfs_{each}_us").strip() for each in ("quota", "period")]
    if len(words) != 2 or not words[1].isdigit():
        return None
    limited = words[0].isdigit()
    counted = dict(line.split(" ", 1) for line in _text(group / "cpu.stat").splitlines())
    throttled = float(counted.get("throttled_usec", 0)) / 1e6 + float(counted.get("throttled_time", 0)) / 1e9
    return Quota(int(words[0]) / int(words[1]) if limited else None, throttled)


def governor(core: int, root: Path = Path("/")) -> str | None:
    """The kernel's frequency governor for the core."""
    return _text(_cpu(root, core, "cpufreq/scaling_governor")).strip() or None


def siblings(core: int, root: Path = Path("/")) -> list[int]:
    """The sibling hardware threads of the core."""
    listed = _text(_cpu(root, core, "topology/thread_siblings_list")).strip()
    found: set[int] = set()
    for part in filter(None, listed.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found - {core})


def _cpu(root: Path, core: int, name: str) -> Path:
    return root / f"sys/devices/system/cpu/cpu{core}" / name


def _number(path: Path) -> float | None:
    text = _text(path).strip()
    return float(text) if text.isdigit() else None


def _text(path: Path) -> str:
    """The text of a file; empty if it is missing or unreadable, which a valid file here never is."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
