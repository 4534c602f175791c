"""Requests that all miss a cache: writes a session file with a different path for each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

SESSIONS = 500
"""The sessions of a file, all of the same length: a client opens a connection for each."""


def rounded(requests: float) -> int:
    """Rounds up to a number that makes equal sessions."""
    return math.ceil(requests / SESSIONS) * SESSIONS


def paths(requests: int, size: str) -> Iterator[str]:
    """Returns this many paths; the origin answers all with the same document."""
    return (f"/{number}/{size}" for number in range(requests))


def write(file: Path, requests: int, size: str, size_bytes: int) -> list[str]:
    """Writes a session file of this many requests in equal sessions; returns the options for `sojourn load`."""
    each = requests // SESSIONS
    assert each * SESSIONS == requests, "sessions are of one length"
    lines = [f"{path} size={size_bytes}" for path in paths(requests, size)]
    file.write_text("\n\n".join("\n".join(lines[at : at + each]) for at in range(0, requests, each)) + "\n")
    return ["--session-log", str(file)]
