"""One point by load: a server of its own, freshly started, its site, the generator, the probe beside them.

Server and generator have a core each where there are two. The clients' draws follow from the study's seed and the
repetition, so that all systems of a repetition are asked for the same.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sojourn import cores, engine, fileset, quantity, systems
from sojourn.failure import CouldNotRun
from sojourn.fileset import FILELIST, File, FileSet
from sojourn.loading import metrics
from sojourn.loading.probed import probed
from sojourn.loading.result import LoadResult
from sojourn.loading.run import run_load
from sojourn.probe.companion import Watched
from sojourn.study.document import SYSTEM, Study, SystemEntry
from sojourn.study.folder import Record
from sojourn.study.points import Point, Settings, filled
from sojourn.study.runner import SystemMissing
from sojourn.systems import Launch, Running

METRICS = (
    "rps",
    "throughput",
    "mean",
    "p50",
    "p95",
    "p99",
    "ttfb.p50",
    "ttfb.p95",
    "ttfb.p99",
    "error_rate",
    "generator.cpu",
    "server.cpu_per_request",
    "server.cpu_user_per_request",
    "server.cpu_system_per_request",
)
"""What is kept of every point, beside what the study's own checks and plots speak of."""
SITE_BYTES_MAX = 8 << 30
PROBE_INTERVAL = "250ms"
_OPEN_TO_OTHERS = 0o755


@dataclass
class LoadPoints:
    """Measures the points of a study; `work` holds sites, configurations and logs."""

    study: Study
    work: Path

    def __call__(self, point: Point) -> Record:
        """See `runner.Measure`."""
        entry = next(each for each in self.study.systems if each.name == point.settings[SYSTEM])
        root = self.site(point.settings)
        pinned = cores.plan()
        # Servers that change to another user have to reach their folders.
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            Path(scratch).chmod(_OPEN_TO_OTHERS)
            launch = Launch(
                root,
                Path(scratch),
                pinned.server,
                filled(entry.architecture, point.settings),
                options=tuple(filled(each, point.settings) for each in entry.options),
                upstream_core=pinned.generator,
            )
            with _started(entry, launch) as server, cores.keep_off_server_core(pinned):
                return self._loaded(point, server, root / FILELIST, pinned)

    def _loaded(self, point: Point, server: Running, mix: Path, pinned: cores.Cores) -> Record:
        words = [server.url, "--mix", str(mix), *(filled(each, point.settings) for each in self.study.workload.load)]
        words += ["--duration", f"{self.study.duration_seconds:g}s", "--warm-up", f"{self.study.warm_up_seconds:g}s"]
        words += ["--seed", str(self.study.seed * 1000 + point.repetition)]
        if pinned.generator is not None:
            words += ["--core", str(pinned.generator)]
        if pinned.server is not None and server.process is not None:
            words += ["--observe-core", str(pinned.server)]
        words += [word for pid in server.pids for word in ("--observe-pid", str(pid))]
        try:
            result, unprobed = _run(words, server)
        except CouldNotRun as error:
            return _failed(f"{error.what}" + (f"; {error.hint}" if error.hint else ""), server)
        if result.record["interrupted"]:
            raise KeyboardInterrupt
        if server.has_died:
            return _failed("the server ended by itself", server)
        return {**_record(result, server, [*METRICS, *self.study.metrics()]), "counters_unavailable": unprobed}

    def site(self, settings: Settings) -> Path:
        """The files that a cell asks for; cells with the same files share them."""
        wanted = self.study.workload.files
        if isinstance(wanted, str):
            made = fileset.webstone()
        else:
            rows = [
                File(
                    filled(each.path, settings),
                    quantity.size_bytes(filled(each.size, settings)),
                    "study",
                    _weight(filled(str(each.weight), settings)),
                )
                for each in wanted
            ]
            made = FileSet("study", rows)
        name = "-".join(f"{file.bytes}x{file.weight:g}" for file in made.files)
        root = self.work / f"site-{name}"
        fileset.write(made, root, SITE_BYTES_MAX)
        return root


def _weight(text: str) -> float:
    """A number, or a difference of two as in `1000 - 300`, for what is left to a file by another."""
    first, _, second = text.partition("-")
    try:
        weight = float(first) - float(second or 0)
    except ValueError:
        raise CouldNotRun(f"{text!r} is no weight of a file", "write a number, or a difference as 1000 - {x}") from None
    if weight < 0:
        raise CouldNotRun(f"the weight {text!r} of a file is below 0", "give a factor that stays within")
    return weight


def _started(entry: SystemEntry, launch: Launch) -> Running:
    try:
        return systems.find(entry.system).start(launch)
    except CouldNotRun as error:
        raise SystemMissing(error) from error


def _run(words: Sequence[str], server: Running) -> tuple[LoadResult, str | None]:
    """Loads the server with a probe beside it; where only the probe failed, the second says why."""
    if not server.pids:
        return run_load(words), "the server's processes are not known"
    whole: list[LoadResult] = []

    def kept(options: Sequence[str], progress: engine.Progress | None) -> LoadResult:
        whole.append(run_load(options, progress))
        return whole[0]

    watched = Watched(server.pids, urlsplit(server.url).port, PROBE_INTERVAL)
    try:
        return probed(kept, watched)(words, None), None
    except CouldNotRun as error:
        if not whole:
            raise
        return whole[0], error.what


def _record(result: LoadResult, server: Running, names: Sequence[str]) -> Record:
    values = {name: metrics.find(name).of_run(result) for name in dict.fromkeys(names)}
    probe = result.record.get("probe") or {}
    return {
        "failed": None if result.complete else str(result.record["stopped_because"]),
        "generator_limited": result.limited_because,
        "server_version": server.version,
        "server_command": server.command,
        "requests": result.requests,
        "errors": result.errors,
        # JSON has no NaN, and what was not measured is null.
        "metrics": {name: None if math.isnan(value) else value for name, value in values.items()},
        "counters": {name: _figure(each) for name, each in (probe.get("counters") or {}).items()},
    }


def _figure(counter: dict[str, Any]) -> float | None:
    """A counter's total over the measured time, or a level's mean; None where there was none."""
    value = counter.get("total", counter.get("mean"))
    return None if value is None else float(value)


def _failed(because: str, server: Running) -> Record:
    return {
        "failed": because,
        "generator_limited": None,
        "server_version": server.version,
        "server_command": server.command,
        "metrics": {},
        "counters": {},
    }
