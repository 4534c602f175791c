"""Turns options into engine runs against a started server.

The service-demand runs and the rising load of an assessment share it, so that both pin, observe and judge the
generator alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.loading.fleet import Fleet
from sojourn.loading.probed import attached
from sojourn.loading.record import RequestsRecord, Step
from sojourn.machine.cores import Cores
from sojourn.probe.companion import Companion, Watched, with_probe
from sojourn.probe.recording import Recording
from sojourn.systems import Running


class ServerStopped(Exception):
    """The server ended during the run; `result` holds the measurements so far, if any."""

    def __init__(self, said: str, result: RequestsRecord | None) -> None:
        super().__init__(said)
        self.result = result


class Interrupted(Exception):
    """The user asked to stop; `result` holds the measurements so far, if any."""

    def __init__(self, result: RequestsRecord | None) -> None:
        super().__init__("interrupted")
        self.result = result


PROBE_INTERVAL = "500ms"
"""The probe's sampling interval; on two cores the probe takes its time from the generator."""


@dataclass(frozen=True)
class Bench:
    """A running server and its cores, common to all measurements of an assessment."""

    server: Running
    cores: Cores
    seed: int
    recorded: Callable[[Recording], None] | None = None
    """Receives the probe's recording of a rising load; None disables the probe."""
    link: tuple[str, ...] = ()
    """Options of `sojourn link`: the generator is then behind that link."""
    fleet: Fleet | None = None
    """The machines that generate the rising load, with this one, which observes the server; this one alone if none."""

    def closed_loop(
        self,
        path: str,
        clients: int,
        duration_seconds: float,
        warm_up_seconds: float,
        connection: str,
        options: Sequence[str] = (),
    ) -> RequestsRecord:
        """Runs `sojourn-engine load`: N clients that send a new request after each response."""
        words = ["load", self.server.url + path, "--clients", str(clients), "--connection", connection]
        words += ["--duration", f"{duration_seconds:g}s", "--warm-up", f"{warm_up_seconds:g}s", *options]
        return self._run(words, None)

    def rising_load(
        self, trace: Path, rates: list[float], options: list[str], progress: engine.Progress | None
    ) -> RequestsRecord:
        """Runs `sojourn-engine replay --rate`: sessions of the trace at rising request rates."""
        levels = ",".join(f"{rate:.6g}" for rate in rates)
        url = self.server.url if self.fleet is None else self.fleet.url(self.server.url)
        words = ["replay", str(trace), url, "--rate", levels, *options]
        # If the server has ended, the run notices and reports it.
        if self.recorded is None or not self.server.pids or self.server.has_died:
            return self._run(words, progress, self.fleet)
        watched = Watched(
            self.server.pids,
            urlsplit(self.server.url).port,
            PROBE_INTERVAL,
            self.cores.server if self.server.process is not None else None,
            self.cores.generator,
        )
        with Companion(watched) as companion:
            assert companion.recording is not None
            try:
                result = self._run(words, with_probe(progress, companion), self.fleet)
            finally:
                # Also after an interrupted run.
                self.recorded(companion.recording)
        return attached(result, companion.recording, cores=companion.cores)

    def _run(self, options: list[str], progress: engine.Progress | None, fleet: Fleet | None = None) -> RequestsRecord:
        options += ["--seed", str(self.seed)]
        if self.cores.generator is not None:
            options += ["--core", str(self.cores.generator)]
        # A server that was already running may use any core, so a single core's load says nothing about it.
        if self.cores.server is not None and self.server.process is not None:
            options += ["--observe-core", str(self.cores.server)]
        for pid in self.server.pids:
            options += ["--observe-pid", str(pid)]
        if self.link:
            options = ["link", *self.link, "--", str(engine.path()), *options]
        try:
            if fleet is None:
                result = engine.run(options, RequestsRecord, progress)
            else:
                generated = replace(fleet, tool="replay", observes=True).run(options[1:], progress)
                result = RequestsRecord.model_validate(generated.embedded())
        except CouldNotRun as error:
            if self.server.has_died:
                raise ServerStopped(f"the server ended by itself: {error.what}", None) from error
            raise
        if result.interrupted:
            raise Interrupted(result)
        if self.server.has_died:
            raise ServerStopped("the server ended by itself while it was measured", result)
        if not result.complete:
            raise ServerStopped(result.stopped_because or "the server stopped answering", result)
        return result


def observed(step: Step, name: str) -> float | None:
    """A figure of the observed server in a step; None if unavailable."""
    value = getattr(step.server, name, None)
    return float(value) if isinstance(value, int | float) else None
