"""One cell of the tables: starts an origin and a proxy, checks, loads and stops them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from benchmarks.proxy import stored, unique_paths, upstream
from benchmarks.proxy.conditions import STORED_OBJECTS, Condition, Kind
from benchmarks.proxy.stored import Forgotten, Stored
from benchmarks.server import cell, network
from benchmarks.server.cell import Setting, WrongResponse, verify, with_figures, with_trouble
from benchmarks.server.competitors import Competitor
from sojourn.assessment.measurement import Bench, Interrupted, ServerStopped
from sojourn.failure import CouldNotRun
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


@dataclass(frozen=True)
class Trial:
    """A running proxy, its origin, and the condition to measure."""

    condition: Condition
    setting: Setting
    proxy: Running
    origin: Running
    work: Path

    def load(self, **changes: Any) -> RequestsRecord:
        """Loads the proxy; returns the generator's report."""
        options = self.setting.options_of(self.condition) | changes
        return Bench(self.proxy, self.setting.cores, self.setting.seed).closed_loop(**options)

    def end_origin(self) -> None:
        """Ends the origin: every later response comes from the proxy's cache."""
        self.origin.stop()

    def verify(self) -> None:
        """Checks that the proxy returns the condition's document."""
        verify(self.proxy.url + self.condition.path, self.setting.site / self.condition.size)


def measure(condition: Condition, competitor: Competitor, repetition: int, setting: Setting) -> Cell:
    """Measures one cell. If a proxy fails, the cell has `trouble`; only Ctrl-C reaches the caller."""
    began = time.monotonic()
    if setting.congestion_control is not None:
        network.enter_own(setting.congestion_control)
    found = _measure(Cell(condition.name, competitor.name, repetition), condition, competitor, setting)
    return replace(found, seconds=time.monotonic() - began)


def _measure(found: Cell, condition: Condition, competitor: Competitor, setting: Setting) -> Cell:
    # If there is a file system in memory, a cache that consists of files is in memory, too.
    folder = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-", dir=folder) as scratch:
        work = Path(scratch)
        # Proxies that change to another user must enter the folder.
        work.chmod(0o755)
        try:
            with upstream.start(setting.site, work / "origin", setting.cores.generator, condition) as origin:
                launch = Launch(setting.site, work, setting.cores.server, "", upstream=origin.url)
                with competitor.start(launch, condition) as proxy:
                    trial = Trial(condition, setting, proxy, origin, work)
                    trial.verify()
                    return _MEASURES[condition.of](replace(found, version=proxy.version), trial)
        except (CouldNotRun, ServerStopped, WrongResponse, Forgotten) as error:
            return with_trouble(found, error)
        except Interrupted as error:
            raise KeyboardInterrupt from error


def _hits(found: Cell, trial: Trial) -> Cell:
    for _ in range(ASKED_FIRST):
        trial.verify()
        time.sleep(SETTLE_SECONDS)
    trial.end_origin()
    trial.verify()
    return with_figures(found, trial.load(), trial.condition)


def _passing(found: Cell, trial: Trial) -> Cell:
    condition, setting = trial.condition, trial.setting
    requests = unique_paths.rounded((setting.duration_seconds + setting.warm_up_seconds) * REQUESTS_PER_SECOND_MAX)
    options = unique_paths.write(trial.work / "sessions", requests, condition.size, condition.size_bytes)
    # The generator must not poll, because the origin shares its core.
    result = trial.load(path="", options=[*options, "--wait", "sleep"])
    return replace(with_figures(found, result, condition), upstream_connections=upstream.connections(trial.origin))


def _storing(found: Cell, trial: Trial) -> Cell:
    condition = trial.condition
    before = stored.memory(trial.proxy, trial.work)
    sessions = trial.work.parent / f"{trial.work.name}-sessions"
    try:
        options = unique_paths.write(sessions, STORED_OBJECTS, condition.size, condition.size_bytes)
        options += ["--sessions", str(unique_paths.SESSIONS), "--wait", "sleep"]
        result = trial.load(path="", warm_up_seconds=0.0, duration_seconds=STORE_SECONDS_MAX, options=options)
    finally:
        sessions.unlink(missing_ok=True)
    answered = result.requests
    if result.errors or answered < STORED_OBJECTS:
        raise Forgotten(f"{answered:,} of {STORED_OBJECTS:,} requests were answered, {result.errors:,} failed")
    after = stored.memory(trial.proxy, trial.work)
    trial.end_origin()
    kept = stored.kept_fraction(trial.proxy, list(unique_paths.paths(STORED_OBJECTS, condition.size)))
    return replace(found, stored=Stored(answered, before[0], after[0], before[1], after[1], kept))


_MEASURES: dict[Kind, Callable[[Cell, Trial], Cell]] = {
    "hit": _hits,
    "pass": _passing,
    "keep": _passing,
    "fastcgi": _passing,
    "store": _storing,
}
