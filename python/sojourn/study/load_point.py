"""Measures one point by load: a freshly started server with its site, the generator, and a probe.

Server and generator each have a core where there are two. The clients' random draws depend on the study's seed and the
repetition, so that all systems of a repetition get the same requests. Clients may be behind a network link.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from sojourn import engine, systems
from sojourn.failure import CouldNotRun
from sojourn.loading import metrics
from sojourn.loading.fleet import Fleet
from sojourn.loading.probed import probed
from sojourn.loading.result import LoadResult
from sojourn.loading.run import Runner, Tool, behind, local, option
from sojourn.machine import cores
from sojourn.machine.confinement import Confinement, disk_limits, processors_unlimited_because
from sojourn.probe.companion import SOURCES, Watched
from sojourn.study.declarations import NONE, SYSTEM, SystemEntry, Workload
from sojourn.study.document import Study
from sojourn.study.figures import is_of_loads
from sojourn.study.folder import Record
from sojourn.study.load_record import METRICS, STREAM_METRICS, due, failed, measured
from sojourn.study.logs import trace_file
from sojourn.study.points import Point, Settings, filled
from sojourn.study.runner import SystemMissing
from sojourn.study.sites import LOG, films, films_list, site
from sojourn.systems import Launch, Running, waiting_script
from sojourn.systems.command import Command
from sojourn.systems.origins import Origin
from sojourn.systems.server import EVERYWHERE, LOOPBACK
from sojourn.systems.waiting_application import PROGRAM as WAITING_APPLICATION
from sojourn.text import quantity
from sojourn.workload.fileset import FILELIST

PROBE_INTERVAL = "250ms"
LINK_NETWORK = "10.77.0.0/16"
"""The default network of a link; its first address is the server's."""
SEQUENCE = "{sequence}"
"""A placeholder in load options: the file of a session that requests each file once; excludes a mix."""
SCRIPTS = "{scripts}"
"""A placeholder in a system's options: a directory with a CGI script."""
RAMP_SECONDS_MIN = 0.1
"""The ramp in which viewers start if there is no warm-up."""
_OPEN_TO_OTHERS = 0o755


@dataclass
class LoadPoints:
    """Measures the points of a study; `work` holds sites, configurations and logs."""

    study: Study
    work: Path
    fleet: Fleet | None = None
    """The machines that generate the load; this one if there are none."""
    progress: engine.Progress | None = None
    """Receives a line of progress of a load per second."""

    @property
    def workload(self) -> Workload:
        assert self.study.workload is not None
        return self.study.workload

    @cached_property
    def _metrics(self) -> list[str]:
        """The metrics of loads; other metrics belong to the model or to the program."""
        declared = self.study.program.metrics if self.study.program is not None else {}
        return [name for name in self.study.metrics() if name not in declared and is_of_loads(name)]

    def __call__(self, point: Point) -> Record:
        """See `runner.Measure`."""
        entry = self.study.system(point.settings[SYSTEM])
        root = self._site(point.settings)
        pinned = cores.plan()
        # A server that switches to another user must be able to reach its folder.
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            Path(scratch).chmod(_OPEN_TO_OTHERS)
            link = filled(self.workload.link, point.settings)
            places = {**point.settings, **_places(entry, root, Path(scratch))}
            launch = Launch(
                root,
                Path(scratch),
                pinned.server,
                filled(entry.architecture, point.settings),
                confinement=self._confinement(root, point.settings),
                address=LOOPBACK if link == NONE and self._is_near else EVERYWHERE,
                options=tuple(filled(each, places) for each in entry.options),
                upstream_core=pinned.generator,
                access_log=self.workload.access_log,
            )
            with self._started(entry, launch, point.settings) as server, cores.keep_off_server_core(pinned):
                return self._loaded(point, server, root, _Way(link, Path(scratch), self.fleet), pinned)

    @property
    def _is_near(self) -> bool:
        """Whether all generators reach the server by the loopback."""
        return self.fleet is None or self.fleet.address == LOOPBACK

    def _started(self, entry: SystemEntry, launch: Launch, settings: Settings) -> Running:
        origin = Origin(filled(entry.origin, settings), filled(entry.origin_link, settings))
        streaming = self.workload.films is not None
        try:
            system = (
                Command(entry.run, settings, "rtsp" if streaming else "http")
                if entry.run
                else systems.find(entry.system, streaming=streaming)
            )
            return origin.start(launch, self.work, system.start)
        except CouldNotRun as error:
            raise SystemMissing(error) from error

    def _site(self, settings: Settings) -> Path:
        if self.workload.films is not None:
            return films(self.workload.films, settings, self.work)
        return site(self.workload.files or LOG, settings, self.work, self._log(settings))

    def _log(self, settings: Settings) -> str:
        return self.study.log if self.workload.log is None else filled(self.workload.log, settings)

    def _confinement(self, root: Path, settings: Settings) -> Confinement | None:
        limits = (self.workload.memory, self.workload.disk, self.workload.cpu)
        memory, disk, cpu = (filled(each, settings) for each in limits)
        rate, reads = disk_limits(disk) if disk != NONE else (None, None)
        is_slowed = cpu != NONE and self._cpu_unlimited is None
        drops = memory != NONE or disk != NONE or self.workload.cold
        if not drops and not is_slowed:
            return None
        return Confinement(
            root,
            memory_bytes=None if memory == NONE else quantity.size_bytes(memory),
            disk_read_bytes_per_second=rate,
            disk_reads_per_second=reads,
            processors=float(cpu) if is_slowed else None,
            drop_pages="site" if drops else "none",
        )

    @cached_property
    def _cpu_unlimited(self) -> str | None:
        """The reason why the study's CPU limit does not apply to the server; None if it does."""
        return None if self.workload.cpu == NONE else processors_unlimited_because()

    def _loaded(self, point: Point, server: Running, root: Path, way: _Way, pinned: cores.Cores) -> Record:
        asked = self._viewers if self.workload.films else self._words
        words = [*asked(point, way.url(server), root), "--seed", str(self.study.seed * 1000 + point.repetition)]
        if pinned.generator is not None:
            words += ["--core", str(pinned.generator)]
        if self._has_model_of_arrivals:
            words.append("--each-request")
        if self.workload.films is None:
            words += self._observed(server, pinned)
        try:
            result, unprobed = _run(
                way.runner("replay" if self.workload.replay else "load"), words, server, self._sources(), self.progress
            )
        except CouldNotRun as error:
            return failed(error.said, server)
        if result.record.interrupted:
            raise KeyboardInterrupt
        if server.has_died:
            return failed(self._ended(point, server), server)
        if lost := result.lost_machines:
            return failed(f"{', '.join(lost)} generated no load to the end", server)
        kept = STREAM_METRICS if self.workload.films is not None else METRICS
        record = measured(result, server, [*kept, *self._metrics])
        late = way.late()
        record |= {"counters_unavailable": unprobed, "cpu_unlimited": self._cpu_unlimited}
        if self._has_model_of_arrivals:
            record |= due(result, self.study.warm_up_seconds)
        return {**record, **({"generator_limited": late} if late else {})}

    @property
    def _has_model_of_arrivals(self) -> bool:
        return self.study.model is not None and self.study.model.arrivals is not None

    def _ended(self, point: Point, server: Running) -> str:
        code = server.process.returncode if server.process is not None else None
        memory = filled(self.workload.memory, point.settings)
        limit = "" if memory == NONE else f"; it had {memory} of memory and may have needed more"
        return f"the server ended by itself (exit code {code}){limit}"

    def _sources(self) -> str:
        """The probe's sources; perf events only if needed, because they cost a little at every context switch."""
        asked = [metrics.find(name) for name in self._metrics]
        processors = any("misses" in counter for metric in asked for counter in metric.counters)
        return f"{SOURCES},processor" if processors else SOURCES

    def _observed(self, server: Running, pinned: cores.Cores) -> list[str]:
        core = [] if pinned.server is None or server.process is None else ["--observe-core", str(pinned.server)]
        return [*core, *(word for pid in server.pids for word in ("--observe-pid", str(pid)))]

    def _viewers(self, point: Point, url: str, root: Path) -> list[str]:
        """Viewers start during the warm-up."""
        options = [filled(each, point.settings) for each in self.workload.load]
        if option(options, "--ramp") is None:
            viewers = float(option(options, "--clients") or 1)
            options += ["--ramp", f"{viewers / max(self.study.warm_up_seconds, RAMP_SECONDS_MIN):g}/s"]
        duration = f"{self.study.duration_seconds:g}s"
        return [f"{url}/", "--media", str(films_list(root)), *options, "--duration", duration]

    def _words(self, point: Point, url: str, root: Path) -> list[str]:
        warm_up, duration = f"{self.study.warm_up_seconds:g}s", f"{self.study.duration_seconds:g}s"
        if self.workload.replay:
            options = [filled(each, point.settings) for each in self.workload.replay]
            trace = str(trace_file(self._log(point.settings), self.work))
            if option(options, "--rate") is not None:
                step = self.study.warm_up_seconds + self.study.duration_seconds
                return [trace, url, *options, "--step", f"{step:g}s", "--settle", warm_up]
            return [trace, url, *options, "--duration", duration, "--settle", warm_up]
        asked = ["--mix", str(root / FILELIST)]
        places = {}
        if any(SEQUENCE in each for each in self.workload.load):
            asked, places = [], {"sequence": str(self._sequence(root))}
        options = [filled(each, {**point.settings, **places}) for each in self.workload.load]
        return [url, *asked, *options, "--duration", duration, "--warm-up", warm_up]

    def _sequence(self, root: Path) -> Path:
        """Writes a session that requests each file of the site once, in order."""
        sequence = self.work / f"{root.name}.sequence"
        rows = (root / FILELIST).read_text().splitlines()
        sequence.write_text("".join(f"{row.split()[0]}\n" for row in rows))
        return sequence


def _places(entry: SystemEntry, root: Path, scratch: Path) -> dict[str, str]:
    """The placeholders that the options of a system may have beside the factors."""
    places = {"python": sys.executable, "application": str(WAITING_APPLICATION), "root": str(root)}
    if any(SCRIPTS in option for option in entry.options):
        places["scripts"] = str(waiting_script.write(scratch, root))
    return places


@dataclass(frozen=True)
class _Way:
    """The network path of the clients: direct, or behind a link with these options, whose report goes to `folder`."""

    link: str
    folder: Path
    fleet: Fleet | None

    @property
    def _report(self) -> Path:
        return self.folder / "link.json"

    def url(self, server: Running) -> str:
        if self.link == NONE:
            return server.url if self.fleet is None else self.fleet.url(server.url)
        network = ipaddress.ip_network(option(shlex.split(self.link), "--network") or LINK_NETWORK)
        here = urlsplit(server.url)
        return f"{here.scheme}://{network[1]}:{here.port}"

    def runner(self, tool: Tool) -> Runner:
        if self.link == NONE:
            return local(tool) if self.fleet is None else replace(self.fleet, tool=tool, leaves_out=True).run
        if self.fleet is not None:
            raise CouldNotRun(
                "a network link is between two parts of this machine", "leave out --load-on-cluster for this study"
            )
        return behind([*shlex.split(self.link), "--report", str(self._report)], tool)

    def late(self) -> str | None:
        """The reason why part of the delay came from the machine rather than the link."""
        if self.link == NONE or not self._report.is_file():
            return None
        report = json.loads(self._report.read_text())
        # Null where the kernel carried the packets, which does not report their lateness.
        return "the link was late: one packet in a hundred by more than its limit" if report["limited"] else None


def _run(
    runner: Runner, words: Sequence[str], server: Running, sources: str, progress: engine.Progress | None
) -> tuple[LoadResult, str | None]:
    """Loads the server with a probe; if only the probe failed, the second value gives the reason."""
    if not server.pids:
        return runner(words, progress), "the server's processes are not known"
    watched = Watched(server.pids, urlsplit(server.url).port, PROBE_INTERVAL, sources=sources)
    found = probed(runner, watched)(words, progress)
    return found, found.record.probe.unavailable if found.record.probe is not None else None
