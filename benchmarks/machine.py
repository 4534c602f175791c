"""The needs of every benchmark: two quiet cores, descriptors, and the revision of the checkout."""

from __future__ import annotations

import resource
import subprocess
import time
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.machine import cores

ROOT = Path(__file__).parents[1]
WATCHED_SECONDS = 0.5
BUSY_FRACTION_MAX = 0.05
"""If other programs use more of the machine than this, the page says so."""
# proc_stat(5): user nice system idle iowait ...
_IDLE = slice(3, 5)


def two_cores() -> cores.Cores:
    """Returns a core for the server and one for the generator."""
    planned = cores.plan()
    if not planned.pinned:
        raise CouldNotRun("server and generator need a core each, and there is only one", "run it on two cores or more")
    return planned


def raise_descriptors() -> int:
    """Raises the limit of descriptors as far as possible, for us and our children; returns the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def revision() -> str:
    """Returns the revision of the checkout, marked if files were changed."""
    return _git("describe", "--always", "--dirty")


def last_change(path: str) -> str:
    """Returns the revision that last changed a folder of the checkout."""
    return _git("log", "-1", "--format=%h", "--", path)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unavailable: not a git checkout"
    return done.stdout.strip()


def busy_fraction() -> float:
    """Returns the share of all cores' time that was used during the observation."""
    before = _ticks()
    time.sleep(WATCHED_SECONDS)
    spent = [after - earlier for after, earlier in zip(_ticks(), before, strict=True)]
    # Counts of idle time may go back by a tick.
    return max(0.0, 1 - sum(spent[_IDLE]) / max(1, sum(spent)))


def _ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
