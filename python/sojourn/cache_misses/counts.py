"""Reads cachegrind's output: event counts over a run, summed over all processes, and the simulated caches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun

_GEOMETRY = re.compile(r"desc: (?P<name>I1|D1|LL) cache:\s+(?P<size>\d+) B, (?P<line>\d+) B, (?P<ways>.+?)\s*$")

Counts = dict[str, int]
"""Counts by cachegrind's event name, such as `Ir` (instructions) or `D1mr` (read misses of the first data cache)."""


@dataclass(frozen=True)
class Geometry:
    """A simulated cache."""

    size_bytes: int
    line_bytes: int
    associativity: str
    """In cachegrind's words: `12-way`, or `direct-mapped`."""


def read(paths: Iterable[Path]) -> tuple[Counts, dict[str, Geometry]]:
    """The sum of the counts over the processes' files, and the caches by name.

    Raises:
        CouldNotRun: if there is no file, or one is incomplete.
    """
    sums: Counts = {}
    caches: dict[str, Geometry] = {}
    for path in paths:
        events, counts = list[str](), list[int]()
        for line in path.read_text().splitlines():
            if (found := _GEOMETRY.match(line)) is not None:
                caches[found["name"]] = Geometry(int(found["size"]), int(found["line"]), found["ways"].split(",")[0])
            elif line.startswith("events: "):
                events = line.split()[1:]
            elif line.startswith("summary: "):
                counts = [int(word) for word in line.split()[1:]]
        if not events or len(events) != len(counts):
            raise CouldNotRun(f"{path} is not what cachegrind writes", "the server may have been killed: try again")
        for event, count in zip(events, counts, strict=True):
            sums[event] = sums.get(event, 0) + count
    if not sums:
        raise CouldNotRun("cachegrind wrote nothing", "see whether valgrind can run the server at all")
    return sums, caches
