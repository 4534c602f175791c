"""A cell of the tables: an origin, and a proxy in front."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from benchmarks.proxy import stored, unique_paths, upstream
from benchmarks.proxy.conditions import STORED_OBJECTS, Condition, Kind
from benchmarks.proxy.stored import Forgotten, Stored
from benchmarks.server import cell
from benchmarks.server.cell import Served, Setting, verify, with_figures, work_folder
from benchmarks.server.competitors import Competitor
from sojourn.assessment.measurement import Bench
from sojourn.loading.record import RequestsRecord
from sojourn.systems import Launch, Running

ASKED_FIRST = 3
"""Some proxies store a response, or move it into memory, only on the second request."""
SETTLE_SECONDS = 0.2
REQUESTS_PER_SECOND_MAX = 50_000
"""More than any proxy forwards here: the session file has this many documents per second."""
STORE_SECONDS_MAX = 120.0
MEMORY_FOLDER = Path("/dev/shm")


@dataclass(frozen=True)
class Cell(cell.Cell):
    """The figures of a cell: `stored` if memory was measured, `upstream_connections` if requests were forwarded."""

    stored: Stored | None = None
    upstream_connections: int | None = None

    @property
    def cost(self) -> float | None:
        """Returns the CPU seconds per request, or the bytes per stored response."""
        return self.cpu_seconds_per_request if self.stored is None else self.stored.bytes_per_object

    @property
    def said(self) -> str:
        """Returns the message for its end."""
        if self.stored is None or self.trouble:
            return super().said
        return f"{self.stored.bytes_per_object:.0f} B/answer"

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> Self:
        """Reads what `as_json` returned."""
        kept = fields.pop("stored")
        return replace(super().of_json(fields), stored=None if kept is None else Stored(**kept))


@dataclass(frozen=True, kw_only=True)
class Trial(Served):
    """A running proxy, its origin, and the condition to measure."""

    condition: Condition
    setting: Setting
    origin: Running
    work: Path

    def load(self, **changes: Any) -> RequestsRecord:
        """Loads the proxy; returns the generator's report."""
        options = self.setting.options_of(self.condition) | changes
        return Bench(self.server, self.setting.cores, self.setting.seed).closed_loop(**options)

    def fill(self) -> None:
        """Requests the document until it is stored, and ends the origin: later responses come from the cache."""
        for _ in range(ASKED_FIRST):
            self.verify()
            time.sleep(SETTLE_SECONDS)
        self.origin.stop()
        self.verify()

    def verify(self) -> None:
        """Checks that the proxy returns the condition's document."""
        verify(self.server.url + self.condition.path, self.setting.site / self.condition.size)


@contextmanager
def serving(condition: Condition, competitor: Competitor, setting: Setting) -> Iterator[Trial]:
    """Starts an origin and a proxy, and checks its response, which it has stored if hits are measured.

    Raises:
        CouldNotRun: one of them does not start, or answers wrongly.
    """
    # If there is a file system in memory, a cache that consists of files is in memory, too.
    folder = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    with (
        work_folder(folder) as work,
        upstream.start(setting.site, work / "origin", setting.cores.generator, condition) as origin,
    ):
        launch = Launch(setting.site, work, setting.cores.server, "", upstream=origin.url)
        with competitor.start(launch, condition) as proxy:
            trial = Trial(proxy, condition=condition, setting=setting, origin=origin, work=work)
            trial.verify()
            if condition.of == "hit":
                trial.fill()
            yield trial


def load(found: cell.Cell, condition: Condition, setting: Setting, trial: Trial) -> Cell:
    """Measures a running proxy.

    Raises:
        CouldNotRun, ServerStopped, Interrupted: there is no figure.
    """
    del setting
    assert isinstance(found, Cell)
    return _LOADS[condition.of](found, trial)


def _hits(found: Cell, trial: Trial) -> Cell:
    return with_figures(found, trial.load(), trial.condition)


def _passing(found: Cell, trial: Trial) -> Cell:
    condition, setting = trial.condition, trial.setting
    sessions = unique_paths.sessions(setting.seconds_of(condition) * REQUESTS_PER_SECOND_MAX, condition.clients)
    options = _sessions(trial.work / "sessions", sessions, condition, first=found.repetition * sessions)
    result = trial.load(path="", options=options)
    # In turn, connections of earlier rounds are used again.
    connections = None if setting.in_turn else upstream.connections(trial.origin)
    return replace(with_figures(found, result, condition), upstream_connections=connections)


def _storing(found: Cell, trial: Trial) -> Cell:
    condition = trial.condition
    before = stored.memory(trial.server, trial.work)
    sessions = trial.work.parent / f"{trial.work.name}-sessions"
    try:
        number = unique_paths.sessions(STORED_OBJECTS)
        options = [*_sessions(sessions, number, condition), "--sessions", str(number)]
        result = trial.load(path="", warm_up_seconds=0.0, duration_seconds=STORE_SECONDS_MAX, options=options)
    finally:
        sessions.unlink(missing_ok=True)
    answered = result.requests
    if result.errors or answered < STORED_OBJECTS:
        raise Forgotten(f"{answered:,} of {STORED_OBJECTS:,} requests were answered, {result.errors:,} failed")
    after = stored.memory(trial.server, trial.work)
    trial.origin.stop()
    kept = stored.kept_fraction(trial.server, list(unique_paths.paths(STORED_OBJECTS, condition.size)))
    return replace(found, stored=Stored(answered, before[0], after[0], before[1], after[1], kept))


def _sessions(file: Path, sessions: int, condition: Condition, first: int = 0) -> list[str]:
    """Writes sessions of new paths; returns the generator's options."""
    options = unique_paths.write(file, sessions, condition.size, condition.size_bytes, first)
    # The generator must not poll, because the origin shares its core.
    return [*options, "--wait", "sleep"]


_LOADS: dict[Kind, Callable[[Cell, Trial], Cell]] = {
    "hit": _hits,
    "pass": _passing,
    "keep": _passing,
    "fastcgi": _passing,
    "store": _storing,
}
