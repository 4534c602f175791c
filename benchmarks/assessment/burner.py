"""Does other work of one kind until it is stopped: `python -m benchmarks.assessment.burner KIND CORE FOLDER PARENT`.

There is one process per core. It ends with its parent, so an interrupted benchmark leaves no work behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import machine
from sojourn.machine.cores import Cores


@dataclass(frozen=True)
class Kind:
    """A kind of other work, and the cores that it runs on."""

    name: str
    on_server: bool
    on_generator: bool


QUIET = Kind("quiet", on_server=False, on_generator=False)
PAIRED = Kind("30 % of both cores", on_server=True, on_generator=True)
"""The other work beside which two answers in a row must agree."""
KINDS = (
    QUIET,
    PAIRED,
    Kind("server core", on_server=True, on_generator=False),
    Kind("both cores", on_server=True, on_generator=True),
    Kind("bursts", on_server=True, on_generator=True),
    Kind("memory", on_server=True, on_generator=True),
    Kind("disk", on_server=False, on_generator=True),
)
BURST_SECONDS = (0.05, 0.15)
"""Lengths of a busy and of an idle phase."""
PAIRED_SECONDS = (0.006, 0.014)
"""The same for the work beside pairs."""
MEMORY_BYTES = 256 << 20
DISK_BYTES = 32 << 20
STOP_SECONDS_MAX = 10.0


@contextmanager
def burning(kind: Kind, cores: Cores, folder: Path) -> Iterator[None]:
    """Does work of this kind while the caller's block runs."""
    where = [cores.server] * kind.on_server + [cores.generator] * kind.on_generator
    command = [sys.executable, "-m", "benchmarks.assessment.burner", kind.name]
    started = [
        subprocess.Popen(
            [*command, str(core), str(folder), str(os.getpid())], stdin=subprocess.DEVNULL, cwd=machine.ROOT
        )
        for core in where
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait(STOP_SECONDS_MAX)


def burn(kind: str, core: int, folder: Path, parent: int) -> None:
    """Works on the core until its parent has ended, which may be before this begins."""
    os.sched_setaffinity(0, {core})
    kinds: dict[str, Callable[[], None]] = {
        PAIRED.name: lambda: _burst(*PAIRED_SECONDS),
        "bursts": lambda: _burst(*BURST_SECONDS),
        "memory": _Memory(),
        "disk": _Disk(folder),
    }
    work = kinds.get(kind, _count)
    while os.getppid() == parent:
        work()


def _count() -> None:
    sum(range(20_000))


def _burst(busy_seconds: float, idle_seconds: float) -> None:
    until = time.monotonic() + busy_seconds
    while time.monotonic() < until:
        _count()
    time.sleep(idle_seconds)


class _Memory:
    """Copies more data than any cache holds."""

    def __init__(self) -> None:
        self._from = self._to = np.zeros(0)

    def __call__(self) -> None:
        if not self._from.size:
            self._from, self._to = np.ones(MEMORY_BYTES // 16), np.zeros(MEMORY_BYTES // 16)
        np.copyto(self._to, self._from)


class _Disk:
    """Writes to the disk and waits until the data is there."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "burner"

    def __call__(self) -> None:
        with self._path.open("wb") as file:
            file.write(bytes(DISK_BYTES))
            file.flush()
            os.fsync(file.fileno())
        self._path.unlink()


if __name__ == "__main__":
    burn(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
