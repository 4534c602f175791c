"""One place that turns options into engine runs: a server that was started, loaded by the generator.

Shared by the service-demand runs and the rising load of an assessment, so that both pin, observe and judge the
generator in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.loading.probed import attached
from sojourn.loading.record import RequestsRecord, Step
from sojourn.machine.cores import Cores
from sojourn.probe.companion import Companion, Watched
from sojourn.probe.recording import Recording
from sojourn.systems import Running


class ServerStopped(Exception):
    """The server ended in the middle; `result` holds what was measured until then, if anything was."""

    def __init__(self, said: str, result: RequestsRecord | None) -> None:
        super().__init__(said)
        self.result = result


class Interrupted(Exception):
    """The person asked to stop; `result` holds what was measured until then, if anything was."""

    def __init__(self, result: RequestsRecord | None) -> None:
        super().__init__("interrupted")
        self.result = result


PROBE_INTERVAL = "500ms"
"""Between samples of a server that is being assessed: on two cores the probe takes its time from the generator."""


@dataclass(frozen=True)
class Bench:
    """A running server and the cores: what every measurement of an assessment has in common."""

    server: Running
    cores: Cores
    seed: int
    recorded: Callable[[Recording], None] | None = None
    """Takes what a probe recorded of the server under a rising load; None: it is not probed."""
    link: tuple[str, ...] = ()
    """Options of `sojourn link`, behind which the generator then is."""

    def closed_loop(
        self,
        path: str,
        clients: int,
        duration_seconds: float,
        warm_up_seconds: float,
        connection: str,
        options: Sequence[str] = (),
    ) -> RequestsRecord:
        """`sojourn-engine load`: N clients that ask again as soon as they are answered."""
        words = ["load", self.server.url + path, "--clients", str(clients), "--connection", connection]
        words += ["--duration", f"{duration_seconds:g}s", "--warm-up", f"{warm_up_seconds:g}s", *options]
        return self._run(words, None)

    def rising_load(
        self, trace: Path, rates: list[float], options: list[str], progress: engine.Progress | None
    ) -> RequestsRecord:
        """`sojourn-engine replay --rate`: sessions of the trace at rising request rates."""
        levels = ",".join(f"{rate:.6g}" for rate in rates)
        words = ["replay", str(trace), self.server.url, "--rate", levels, *options]
        # A server that is gone is for the run to notice and to say.
        if self.recorded is None or not self.server.pids or self.server.has_died:
            return self._run(words, progress)
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
                result = self._run(words, progress)
            finally:
                # Of a run that was cut short too.
                self.recorded(companion.recording)
        return attached(result, companion.recording, cores=companion.cores)

    def _run(self, options: list[str], progress: engine.Progress | None) -> RequestsRecord:
        options += ["--seed", str(self.seed)]
        if self.cores.generator is not None:
            options += ["--core", str(self.cores.generator)]
        # A server that was there already runs on whatever cores it likes: one core's load says nothing of it.
        if self.cores.server is not None and self.server.process is not None:
            options += ["--observe-core", str(self.cores.server)]
        for pid in self.server.pids:
            options += ["--observe-pid", str(pid)]
        if self.link:
            options = ["link", *self.link, "--", str(engine.path()), *options]
        try:
            result = engine.run(options, RequestsRecord, progress)
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
    """A figure of the observed server in a step, or None where it is unavailable."""
    value = getattr(step.server, name, None)
    return float(value) if isinstance(value, int | float) else None
