"""Documents that were never requested before: a session file with a path of its own for each request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

SESSIONS = 500
"""Of a file, all of one length: a client opens a connection for each."""


def rounded(requests: float) -> int:
    """The least number above that makes equal sessions."""
    return math.ceil(requests / SESSIONS) * SESSIONS


def paths(requests: int, size: str) -> Iterator[str]:
    """So many paths; the origin answers all with the same document."""
    return (f"/{number}/{size}" for number in range(requests))


def write(file: Path, requests: int, size: str, size_bytes: int) -> list[str]:
    """Writes the session file of so many requests, in equal sessions; answers its options of `sojourn load`."""
    each = requests // SESSIONS
    assert each * SESSIONS == requests, "sessions are of one length"
    lines = [f"{path} size={size_bytes}" for path in paths(requests, size)]
    file.write_text("\n\n".join("\n".join(lines[at : at + each]) for at in range(0, requests, each)) + "\n")
    return ["--session-log", str(file)]
