"""Uses CPU time of the calling thread on demand."""

from __future__ import annotations

import time


def burn(seconds: float) -> None:
    """Uses this much CPU time, however long that takes."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(200))
