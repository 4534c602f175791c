"""Runs with N and with 2N requests, repeated; per request what the difference says, and whether runs agreed."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sojourn import __version__
from sojourn.cache_misses.counts import Counts, Geometry, read
from sojourn.cache_misses.lock_step import Mix, ask
from sojourn.cache_misses.program import Program
from sojourn.failure import CouldNotRun

PER_REQUEST = {
    "instructions": ("Ir",),
    "data_reads": ("Dr",),
    "data_writes": ("Dw",),
    "I1_misses": ("I1mr",),
    "D1_misses": ("D1mr", "D1mw"),
    "LL_misses": ("ILmr", "DLmr", "DLmw"),
}
"""What is reported, and cachegrind's events that are summed for it."""
LABEL = "simulated, user mode"
_CACHE = re.compile(r"\d+,\d+,\d+")

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Request:
    """What is to be simulated."""

    command: Sequence[str]
    url: str
    mix: Mix
    requests: int = 500
    """N; the longer runs make twice as many."""
    seed: int = 1
    repetitions: int = 2
    caches: tuple[tuple[str, str], ...] = ()
    """By name (I1, D1, LL) its size, associativity and line, as in `32768,8,64`; the machine's where not given."""
    hold: bool = True
    """Whether time is held still."""

    def __post_init__(self) -> None:
        for name, geometry in self.caches:
            if name not in ("I1", "D1", "LL") or not _CACHE.fullmatch(geometry):
                raise CouldNotRun(f"{name} {geometry!r} is not a cache", "write bytes,ways,line, as in 32768,8,64")


@dataclass(frozen=True)
class Value:
    """Per request: the mean of the repetitions, and the least and most of them."""

    mean: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Measurement:
    """What came of it."""

    request: Request
    valgrind: str
    geometry: dict[str, Geometry]
    takes_turns: bool
    shorter: list[Counts]
    """Of each run with N requests, its events, start-up included."""
    longer: list[Counts]
    """The same with 2N requests."""

    @property
    def per_request(self) -> dict[str, Value]:
        """By name, from the differences."""
        return {name: self._value(events) for name, events in PER_REQUEST.items()}

    @property
    def is_identical(self) -> bool | None:
        """Whether every repetition gave the same counts; None if there was one only."""
        if len(self.shorter) < 2:
            return None
        runs = (self.shorter, self.longer)
        return all(counts == of_kind[0] for of_kind in runs for counts in of_kind)

    def as_json(self) -> dict[str, Any]:
        """One object."""
        return {
            "tool": "misses",
            "version": __version__,
            "label": LABEL,
            "valgrind": self.valgrind,
            "command": list(self.request.command),
            "requests": self.request.requests,
            "seed": self.request.seed,
            "time_held_still": self.request.hold,
            "threads_take_turns": self.takes_turns,
            "identical": self.is_identical,
            "geometry": {name: asdict(cache) for name, cache in self.geometry.items()},
            "per_request": {name: asdict(value) for name, value in self.per_request.items()},
            "runs": [
                {"requests": factor * self.request.requests, "events": counts}
                for factor, runs in ((1, self.shorter), (2, self.longer))
                for counts in runs
            ],
        }

    def _value(self, events: Sequence[str]) -> Value:
        def total(counts: Counts) -> int:
            return sum(counts[event] for event in events)

        values = [
            (total(longer) - total(shorter)) / self.request.requests
            for shorter, longer in zip(self.shorter, self.longer, strict=True)
        ]
        return Value(sum(values) / len(values), min(values), max(values))


def measure(request: Request, progress: Progress = lambda share: None) -> Measurement:
    """Makes the runs, those with N and with 2N requests in turn.

    Raises:
        CouldNotRun: valgrind is missing or cannot run the server, or the server does not answer.
    """
    shorter, longer = list[Counts](), list[Counts]()
    geometry: dict[str, Geometry] = {}
    takes_turns = False
    steps = [(1, shorter), (2, longer)] * request.repetitions
    for done, (factor, runs) in enumerate(steps):
        progress(done / len(steps))
        counts, geometry, takes_turns = _run(request, factor * request.requests)
        runs.append(counts)
    return Measurement(request, _version(), geometry, takes_turns, shorter, longer)


def _run(request: Request, count: int) -> tuple[Counts, dict[str, Geometry], bool]:
    options = [f"--{name}={geometry}" for name, geometry in request.caches]
    with tempfile.TemporaryDirectory(prefix="sojourn-misses-") as folder:
        with Program(request.command, options, Path(folder), hold=request.hold) as program:
            ask(request.url, request.mix.draw(count, request.seed), program)
            takes_turns = program.takes_turns()
            files = program.end()
        return *read(files), takes_turns


def _version() -> str:
    done = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()
