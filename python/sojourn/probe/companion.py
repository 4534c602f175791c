"""Runs a probe beside a load: samples the server's counters while something else runs.

It reads only the kernel's accounting, since perf events cost the observed threads a little at every context switch. It
avoids the measured cores where there are others; otherwise it runs on the generator's core, whose lateness is
measured, and never on the server's.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from sojourn import engine
from sojourn.engine.progress import ProgressLine
from sojourn.engine.results import ProbeHeader, ProbeRow
from sojourn.failure import CouldNotRun
from sojourn.probe.recording import Recording

SOURCES = "processes,cgroup,cores,pressure,network"
INTERVAL = "100ms"
BEGIN_SECONDS_MAX = 10.0
"""Timeout for the first sample: the probe first scans all processes of the server."""
NOW_SECONDS = 1.0
"""The window of the live view's rates."""


@dataclass(frozen=True)
class Watched:
    """The processes to probe during a load."""

    pids: Sequence[int] = ()
    port: int | None = None
    interval: str = INTERVAL
    server_core: int | None = None
    generator_core: int | None = None
    sources: str = SOURCES
    elsewhere: Callable[[list[str]], list[str]] | None = None
    """Wraps the engine's arguments into a command that runs it on another machine; None runs it here."""
    further: Sequence[str] = ()
    """Further options that select processes."""

    def arguments(self) -> list[str]:
        """The arguments for `sojourn-engine probe`."""
        words = ["probe", "--sources", self.sources, "--interval", self.interval, "--format", "json"]
        words += [word for pid in self.pids for word in ("--pid", str(pid))]
        options = {"--port": self.port, "--observe-core": self.server_core, "--core": self._own_core()}
        words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
        return [*words, *self.further]

    def stream(self) -> engine.Stream:
        """The probe as a stream that has not started yet."""
        arguments = self.arguments()
        return engine.Stream(arguments, None if self.elsewhere is None else self.elsewhere(arguments))

    def _own_core(self) -> int | None:
        if self.elsewhere is not None:
            return None
        others = os.sched_getaffinity(0) - {self.server_core, self.generator_core}
        return min(others) if others and self.server_core is not None else self.generator_core


class Companion:
    """A running probe; a context manager. `recording` grows until it ends."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._begun = threading.Event()
        self.recording: Recording | None = None
        self.cores: int | None = None
        """On how many cores the watched processes may run; not known of another machine's."""
        self.clock_ahead_seconds = 0.0
        """How far the clock of another machine is ahead of ours, but for the time that its first sample took to us."""
        self._heard = time.monotonic()

    def __enter__(self) -> Companion:
        self._stream = self._watched.stream().__enter__()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        try:
            in_time = self._begun.wait(BEGIN_SECONDS_MAX)
        except BaseException:
            # Also on Ctrl-C, because nothing else would stop the probe yet.
            self.__exit__()
            raise
        if not in_time or self.recording is None:
            self.__exit__()
            self._stream.check()
            raise CouldNotRun("the probe took no sample in time", "give --probe-pid or --probe-port")
        if self._watched.elsewhere is None:
            self.cores = _cores_of(self.recording.pids)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._stream.stop()
        self._thread.join()
        self._stream.__exit__()

    @property
    def has_ended(self) -> bool:
        """True if no more samples come: its processes are gone, or the connection to their machine is broken."""
        return not self._thread.is_alive()

    @property
    def silent_seconds(self) -> float:
        """How long no sample has come."""
        return time.monotonic() - self._heard

    def now(self) -> dict[str, float]:
        """The server's usage in the last second: totals per second, and current levels."""
        recording = self.recording
        if recording is None or len(recording.rows) < 2:
            return {}
        times = recording.time_seconds[: len(recording.rows)]
        last = len(times) - 1
        before = next(index for index in range(last, -1, -1) if times[last] - times[index] >= NOW_SECONDS or index == 0)
        elapsed = times[last] - times[before]
        found = {}
        for place, counter in enumerate(recording.counters):
            value = recording.rows[last][place]
            if counter.kind == "total":
                value = (value - recording.rows[before][place]) / elapsed if elapsed > 0 else math.nan
            if not math.isnan(value):
                found[counter.name] = value
        return found

    def _listen(self) -> None:
        for line in self._stream:
            if self.recording is None:
                self.recording = Recording.begin(ProbeHeader.model_validate_json(line))
            else:
                row = ProbeRow.model_validate_json(line)
                if self._watched.elsewhere is not None and not self.recording.rows:
                    self.clock_ahead_seconds = row.unix_seconds - time.time()
                self.recording.add(row)
                self._heard = time.monotonic()
                self._begun.set()
        self._begun.set()


def _cores_of(pids: Sequence[int]) -> int | None:
    allowed: set[int] = set()
    for pid in pids:
        try:
            allowed |= os.sched_getaffinity(pid)
        except OSError:
            return None
    return len(allowed) or None


def with_probe(progress: engine.Progress | None, companion: Companion) -> engine.Progress | None:
    """Extends progress reports with the server's usage."""
    if progress is None:
        return None

    def told(line: ProgressLine) -> None:
        progress(line.model_copy(update={"probe": companion.now()}))

    return told
