"""Measures whether the machine does other work: figures measured beside it are not reliable."""

from __future__ import annotations

import time
from pathlib import Path

WATCHED_SECONDS = 0.5
BUSY_FRACTION_MAX = 0.05
"""If other programs use more of the machine than this, the page says so."""
# proc_stat(5): user nice system idle iowait ...
_IDLE = slice(3, 5)


def busy_fraction() -> float:
    """Returns the share of all cores' time that was used during the observation."""
    before = _ticks()
    time.sleep(WATCHED_SECONDS)
    spent = [after - earlier for after, earlier in zip(_ticks(), before, strict=True)]
    # Counts of idle time may go back by a tick.
    return max(0.0, 1 - sum(spent[_IDLE]) / max(1, sum(spent)))


def _ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
