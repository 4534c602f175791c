"""Limits memory, disk or CPU for programs that a study starts, below what the machine has.

The engine creates a control group, starts the program in it and removes the group when the program ends; the next run
undoes what a killed one left behind. This module only builds the engine's options.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.text import quantity

PROCESSOR_PERIOD_SECONDS = 0.05
"""The period of a CPU quota: a program runs at full speed until its quota is used up, then waits for the next period
(`crates/measure/src/confinement/hierarchy.rs`).
"""
_READS = re.compile(r"([1-9][0-9]*) reads/s")


@dataclass(frozen=True)
class Confinement:
    """Limits of a program; None means no limit."""

    site: Path
    """The folder whose pages must count as the program's: they are dropped from the page cache before it starts."""
    memory_bytes: int | None = None
    """Memory limit for all its processes together, including their share of the page cache."""
    disk_read_bytes_per_second: int | None = None
    """Read rate limit for the disk that holds the site."""
    disk_reads_per_second: int | None = None
    """Limit of read operations for that disk."""
    processors: float | None = None
    """CPU limit: 1 is one processor."""
    drop_pages: Literal["none", "site", "machine"] = "site"
    """Pages to drop first; `machine` needs root and affects the whole machine."""

    def command(self, command: list[str]) -> list[str]:
        """Wraps `command` so that it runs confined; signals are forwarded to it."""
        return [str(engine.path()), "confine", *self._options(), "--", *command]

    def _options(self) -> list[str]:
        options = ["--site", str(self.site), "--drop-pages", self.drop_pages]
        if self.memory_bytes is not None:
            options += ["--memory-limit", f"{self.memory_bytes}B"]
        if self.disk_read_bytes_per_second is not None:
            options += ["--disk-read-limit", f"{self.disk_read_bytes_per_second}B/s"]
        if self.disk_reads_per_second is not None:
            options += ["--disk-iops-limit", str(self.disk_reads_per_second)]
        if self.processors is not None:
            options += ["--cpu-limit", f"{self.processors:g}"]
        return options


def disk_limits(text: str) -> tuple[int | None, int | None]:
    """Parses `20MiB/s`, `100 reads/s`, or `20MiB/s and 100 reads/s`: bytes and read operations per second.

    Raises:
        CouldNotRun: it is neither.
    """
    rate, reads = None, None
    for part in text.split(" and "):
        if (match := _READS.fullmatch(part.strip())) is not None and reads is None:
            reads = int(match[1])
        elif rate is None and match is None:
            rate = quantity.bytes_per_second(part)
        else:
            raise CouldNotRun(f"{text!r} limits the same twice", "write one rate, as in 20MiB/s and 100 reads/s")
    return rate, reads


def processors_unlimited_because() -> str | None:
    """The reason why CPU time cannot be limited here; None if it can."""
    tried = subprocess.run(
        [str(engine.path()), "confine", "--cpu-limit", "1", "--", "true"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else tried.stderr.splitlines()[0].removeprefix("error: ")


def restore() -> str:
    """Undoes what killed runs have left behind; returns a line of text for each item.

    Raises:
        CouldNotRun: if something could not be undone.
    """
    done = subprocess.run([str(engine.path()), "confine", "--restore"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CouldNotRun(done.stderr.strip().removeprefix("error: "))
    return done.stderr.strip()
