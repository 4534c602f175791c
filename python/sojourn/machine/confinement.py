"""Less memory, a slower disk or a slower processor than the machine has, for what a study starts.

The engine makes a control group, starts the program inside and removes the group when the program ends; what a run
that was killed has left is undone by the next one. Here it is only said what is to be limited.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sojourn import engine
from sojourn.failure import CouldNotRun

PROCESSOR_PERIOD_SECONDS = 0.05
"""In which a program with less than a processor may use its share: it runs at full speed until it has, and then waits
for the next period (`crates/measure/src/confinement/hierarchy.rs`)."""


@dataclass(frozen=True)
class Confinement:
    """What a program may use; none is no limit."""

    site: Path
    """The files whose pages are to count as the program's: they are dropped from memory before it starts."""
    memory_bytes: int | None = None
    """All its processes together, their share of the page cache included."""
    disk_read_bytes_per_second: int | None = None
    """From the disk that holds the site."""
    processors: float | None = None
    """Of their time: 1 is one processor's."""
    drop_pages: Literal["none", "site", "machine"] = "site"
    """`machine` needs root, and everybody on it notices."""

    def command(self, command: list[str]) -> list[str]:
        """The command that runs `command` confined; a signal to it is handed on."""
        return [str(engine.path()), "confine", *self._options(), "--", *command]

    def _options(self) -> list[str]:
        options = ["--site", str(self.site), "--drop-pages", self.drop_pages]
        if self.memory_bytes is not None:
            options += ["--memory-limit", f"{self.memory_bytes}B"]
        if self.disk_read_bytes_per_second is not None:
            options += ["--disk-read-limit", f"{self.disk_read_bytes_per_second}B/s"]
        if self.processors is not None:
            options += ["--cpu-limit", f"{self.processors:g}"]
        return options


def processors_unlimited_because() -> str | None:
    """Why no processor's time can be limited here; None if it can."""
    tried = subprocess.run(
        [str(engine.path()), "confine", "--cpu-limit", "1", "--", "true"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else tried.stderr.splitlines()[0].removeprefix("error: ")


def restore() -> str:
    """Undoes what runs that were killed have left; says what that was, a line each.

    Raises:
        CouldNotRun: if something could not be undone.
    """
    done = subprocess.run([str(engine.path()), "confine", "--restore"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CouldNotRun(done.stderr.strip().removeprefix("error: "))
    return done.stderr.strip()
