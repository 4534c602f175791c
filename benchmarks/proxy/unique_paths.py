"""Requests that all miss a cache: writes a session file with a different path for each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

SESSION_REQUESTS = 250
"""A client opens a connection for each session."""
CLIENT_SESSIONS_MIN = 2
"""A client that is faster than others must not request what has been requested."""


def sessions(requests: float, clients: int = 0) -> int:
    """Returns the number of sessions that have this many requests, and are enough for all clients."""
    return max(math.ceil(requests / SESSION_REQUESTS), CLIENT_SESSIONS_MIN * clients)


def paths(requests: int, size: str, first: int = 0) -> Iterator[str]:
    """Returns this many paths; the origin answers all with the same document."""
    return (f"/{number}/{size}" for number in range(first, first + requests))


def write(file: Path, number: int, size: str, size_bytes: int, first: int = 0) -> list[str]:
    """Writes a file of this many sessions after the `first` ones; returns the options for `sojourn load`."""
    each = SESSION_REQUESTS
    lines = [f"{path} size={size_bytes}" for path in paths(number * each, size, first * each)]
    file.write_text("\n\n".join("\n".join(lines[at : at + each]) for at in range(0, len(lines), each)) + "\n")
    return ["--session-log", str(file)]
