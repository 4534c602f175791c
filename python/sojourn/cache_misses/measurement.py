"""Repeats runs of N and 2N units, and computes the cost per unit from their differences."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from sojourn import __version__
from sojourn.cache_misses.counts import Counts, Geometry, read
from sojourn.cache_misses.program import Program
from sojourn.failure import CouldNotRun

EVENTS = {
    "instructions": ("Ir",),
    "data_reads": ("Dr",),
    "data_writes": ("Dw",),
    "I1_misses": ("I1mr",),
    "D1_misses": ("D1mr", "D1mw"),
    "LL_misses": ("ILmr", "DLmr", "DLmw"),
}
"""Reported figures, with the cachegrind events they sum."""
RECEIVED = {"packets": ("packets",), "bytes": ("bytes",)}
"""For streams, counts of what was received."""
LABEL = "simulated, user mode"
_FOLDER_PREFIX = "sojourn-misses-"
_CACHE = re.compile(r"\d+,\d+,\d+")

Progress = Callable[[float], None]


class Asked(Protocol):
    """The load on a server: N units in the shorter runs, 2N in the longer."""

    @property
    def unit(self) -> str:
        """The unit of N: `request` or `stream_second`."""

    @property
    def units(self) -> float:
        """The number N."""

    @property
    def steps(self) -> bool:
        """True if the server's clock advances in steps; false if it stands still."""

    def as_json(self) -> dict[str, object]:
        """The parameters of the load."""

    def ask(self, url: str, program: Program, factor: int) -> Counts:
        """Generates `factor` times N units; returns counts of what was received, if any."""


@dataclass(frozen=True)
class Request:
    """The simulation's parameters."""

    command: Sequence[str]
    url: str
    asked: Asked
    repetitions: int = 2
    caches: tuple[tuple[str, str], ...] = ()
    """Size, associativity and line size by cache (I1, D1, LL), such as `32768,8,64`; by default the machine's."""
    hold: bool = True
    """True to simulate the clock."""

    def __post_init__(self) -> None:
        for name, geometry in self.caches:
            if name not in ("I1", "D1", "LL") or not _CACHE.fullmatch(geometry):
                raise CouldNotRun(f"{name} {geometry!r} is not a cache", "write bytes,ways,line, as in 32768,8,64")


@dataclass(frozen=True)
class Value:
    """The mean of the repetitions, with minimum and maximum."""

    mean: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Measurement:
    """The result of a measurement."""

    request: Request
    valgrind: str
    geometry: dict[str, Geometry]
    takes_turns: bool
    shorter: list[Counts]
    """The events of each run with N units, including start-up."""
    longer: list[Counts]
    """The events of each run with 2N units."""
    complete: bool = True
    """False if interrupted: then only complete repetitions are included."""

    @property
    def void(self) -> str | None:
        """The reason why the figures are meaningless; None if they are valid."""
        behind, runs = self._total("behind"), len(self.shorter) + len(self.longer)
        if behind:
            return f"viewers received less than the films' pace, {behind} of all in {runs} runs"
        if lost := self._total("lost"):
            return f"{lost} packets were not received: the machine was too busy to count them"
        if self.request.asked.steps and any(a["Ir"] >= b["Ir"] for a, b in zip(self.shorter, self.longer, strict=True)):
            return "the server's start cost more in a shorter run than in a longer one: use more --seconds"
        return None

    @property
    def per_unit(self) -> dict[str, Value] | None:
        """Costs per unit by name, from the differences; None if they are void."""
        return None if self.void else self._values(self.request.asked.units)

    @property
    def per_second(self) -> dict[str, Value] | None:
        """Costs per second of all viewers together, if there are any."""
        seconds = getattr(self.request.asked, "seconds", None)
        return None if self.void or seconds is None else self._values(seconds)

    @property
    def is_identical(self) -> bool | None:
        """Whether all repetitions gave the same counts; None for a single one."""
        if len(self.shorter) < 2:
            return None
        runs = (self.shorter, self.longer)
        return all(counts == of_kind[0] for of_kind in runs for counts in of_kind)

    def as_json(self) -> dict[str, object]:
        """The result as a JSON object."""
        asked = self.request.asked
        per_second = {"per_second": _json(self.per_second)} if asked.steps else {}
        return {
            "tool": "misses",
            "version": __version__,
            "label": LABEL,
            "valgrind": self.valgrind,
            "command": list(self.request.command),
            **asked.as_json(),
            "time_held_still": self.request.hold and not asked.steps,
            "threads_take_turns": self.takes_turns,
            "identical": self.is_identical,
            "complete": self.complete,
            "void": self.void,
            "geometry": {name: asdict(cache) for name, cache in self.geometry.items()},
            f"per_{asked.unit}": _json(self.per_unit),
            **per_second,
            "runs": [
                {f"{asked.unit}s": factor * asked.units, "events": counts}
                for factor, runs in ((1, self.shorter), (2, self.longer))
                for counts in runs
            ],
        }

    def _total(self, event: str) -> int:
        return sum(counts.get(event, 0) for counts in (*self.shorter, *self.longer))

    def _values(self, count: float) -> dict[str, Value]:
        known = EVENTS | (RECEIVED if self.request.asked.steps else {})
        return {name: self._value(events, count) for name, events in known.items()}

    def _value(self, events: Sequence[str], count: float) -> Value:
        def total(counts: Counts) -> int:
            return sum(counts[event] for event in events)

        values = [
            (total(longer) - total(shorter)) / count for shorter, longer in zip(self.shorter, self.longer, strict=True)
        ]
        return Value(sum(values) / len(values), min(values), max(values))


def _json(values: dict[str, Value] | None) -> dict[str, object] | None:
    return None if values is None else {name: asdict(value) for name, value in values.items()}


def measure(request: Request, progress: Progress = lambda share: None) -> Measurement:
    """Makes runs with N and with 2N units alternately, after one that is not counted.

    Raises:
        CouldNotRun: valgrind is missing or cannot run the server, or the server does not answer.
        KeyboardInterrupt: before the first repetition was complete; later, the complete repetitions are kept.
    """
    shorter, longer = list[Counts](), list[Counts]()
    geometry: dict[str, Geometry] = {}
    takes_turns = False
    steps = [(1, shorter), (2, longer)] * request.repetitions
    with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as kept:
        _prepare(request, Path(kept))
        try:
            for done, (factor, runs) in enumerate(steps):
                progress(done / len(steps))
                counts, geometry, takes_turns = _run(request, factor, Path(kept))
                runs.append(counts)
        except KeyboardInterrupt:
            if not longer:
                raise
    whole = len(longer)
    return Measurement(
        request, _version(), geometry, takes_turns, shorter[:whole], longer, complete=whole == request.repetitions
    )


def _prepare(request: Request, kept: Path) -> None:
    """A run without caches, so that files created at the first start, such as a list of plugins, exist."""
    with (
        tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as folder,
        Program(request.command, None, Path(folder), kept, hold=request.hold, steps=request.asked.steps) as program,
    ):
        request.asked.ask(request.url, program, 1)


def _run(request: Request, factor: int, kept: Path) -> tuple[Counts, dict[str, Geometry], bool]:
    options = [f"--{name}={geometry}" for name, geometry in request.caches]
    asked = request.asked
    with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as folder:
        with Program(request.command, options, Path(folder), kept, hold=request.hold, steps=asked.steps) as program:
            came = asked.ask(request.url, program, factor)
            counts, geometry = read(program.end())
        return counts | came, geometry, program.takes_turns


def _version() -> str:
    done = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()
