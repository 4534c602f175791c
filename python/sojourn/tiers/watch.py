"""Samples all tiers at once while something else runs, and computes the usage of each over any span.

An engine probe samples each tier's processes on their machine. Connections and the database are sampled a few times a
second, the application's own metrics once a second.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from sojourn.failure import CouldNotRun
from sojourn.machine import samples
from sojourn.probe.companion import Companion, Watched
from sojourn.probe.recording import Recording
from sojourn.results.records import Record
from sojourn.tiers import database, mysql, php_fpm, postgresql, processes, prometheus, remote, sockets
from sojourn.tiers.declaration import Tier

AROUND_SECONDS = 1.0
"""Samples so long before and after a span tell the usage at its ends."""
ASKED_EVERY_SECONDS = 0.25
"""The interval between samples of connections and the database."""
ASKING_CORES_MAX = 0.05
"""The share of a core that sampling may use; a more expensive source is sampled less often."""
BUSIEST_SECONDS = 1.0
"""How long a probe looks for the busiest process."""
RATES_MIN = 2
"""Fewer rates have no spread."""
SILENT_SECONDS_MAX = 10.0
"""A probe that gives no sample for this long counts as ended: its machine, or the connection to it, hangs."""
METRICS_EVERY_SECONDS = 1.0
"""The interval between requests for metrics, which use the application's own time."""


@dataclass(frozen=True)
class Sources:
    """Sources besides processes."""

    postgresql: str | None = None
    """A connection string for psql."""
    mysql: str | None = None
    """Options of the client of MySQL or MariaDB."""
    prometheus: str | None = None
    """The URL of the application's metrics."""
    php_fpm: str | None = None
    """The URL of php-fpm's status page."""
    remote_shell: str = remote.REMOTE_SHELL
    own_core: int | None = None
    """The core on which the probes run."""

    @property
    def database(self) -> database.Session | None:
        """The database's client, not yet begun."""
        if self.postgresql is not None:
            return postgresql.Session(self.postgresql)
        return None if self.mysql is None else mysql.Session(self.mysql)


class TierUse(Record):
    """A tier's usage in a span; rates per second. None means not measured."""

    cpu_cores: float | None = None
    """CPU time per time, in cores."""
    busiest_process_cores: float | None = None
    busiest_thread_cores: float | None = None
    core_wait_threads: float | None = None
    """Mean number of threads that were ready to run but had no core."""
    threads: float | None = None
    processes: float | None = None
    switches_per_second: float | None = None
    voluntary_switches_per_second: float | None = None
    """Those of threads that waited for something; others were interrupted."""
    resident_bytes: float | None = None
    blocked_threads: float | None = None
    disk_read_bytes_per_second: float | None = None
    disk_written_bytes_per_second: float | None = None
    incoming_connections: float | None = None
    """Mean number of connections from clients."""
    incoming_connections_max: float | None = None
    incoming_unevenness: float | None = None
    """How unevenly its processes had them (`unevenness`); None with one process."""
    accept_queue: float | None = None
    outgoing_connections: dict[str, float] = Field(default_factory=dict)
    """Mean number of outgoing connections by destination."""
    connection_samples: int | None = None
    """How often connections were counted."""


class DatabaseUse(Record):
    """A database's activity in a span: mean numbers of backends (in MySQL, threads)."""

    backends: float
    active: float
    in_transaction: float
    waits: dict[str, float]
    commits_per_second: float
    connections_max: int


@dataclass(frozen=True)
class SystemUse:
    """The usage of all tiers in a span."""

    tiers: dict[str, TierUse]
    database: DatabaseUse | None
    levels: dict[str, float]
    """Means of the application's gauges."""
    machine_busy_cores: float | None
    """Busy cores of this machine, whatever used them."""
    busy_by_core: dict[int, float]
    """The share of the time in which each core of this machine was busy; empty if that is not known."""


@dataclass
class _Look:
    """One sample of the sources besides processes."""

    at: float
    connections: dict[str, sockets.Connections]
    database: database.Activity | None
    cores: dict[int, samples.CoreTicks]


class Watch:
    """The tiers under observation; a context manager."""

    def __init__(self, tiers: Sequence[Tier], sources: Sources) -> None:
        self.tiers = tiers
        self._sources = sources
        self._looks: list[_Look] = []
        self._metrics: list[tuple[float, dict[str, float]]] = []
        self._over = threading.Event()
        self._stack = ExitStack()
        self._companions: dict[str, Companion] = {}
        self._roots: dict[str, list[int]] = {}
        self._failed: dict[str, str] = {}
        """The sources that could not be read at least once, with the latest reason for each."""
        self._was_read = set[str]()
        """The application's own sources that could be read at least once."""

    def __enter__(self) -> Watch:
        with ExitStack() as stack:
            for tier in self.tiers:
                self._companions[tier.name] = stack.enter_context(Companion(self._watched(tier)))
            self._database = self._sources.database
            if self._database is not None:
                stack.enter_context(self._database)
            for _, read, url in self._metric_sources():
                read(url)
            # Metrics arrive late where the application is busy, so they have a thread of their own.
            asking = [(self._look, ASKED_EVERY_SECONDS), (self._read_metrics, METRICS_EVERY_SECONDS)]
            self._threads = [threading.Thread(target=self._ask, args=each, daemon=True) for each in asking]
            for thread in self._threads:
                thread.start()
            stack.callback(self._end)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def missing(self) -> dict[str, str]:
        """The sources that are not known, with the reason for each.

        A busy application may answer too late now and then: of its own sources, only those that it never told count.
        """
        # Copied in one step, because a thread may still add to it.
        return {name: why for name, why in self._failed.copy().items() if name not in self._was_read}

    def cores(self, name: str) -> frozenset[int]:
        """The cores available to a tier on this machine."""
        allowed = set[int]()
        for pid in self._roots.get(name, []):
            for each in processes.members([pid]):
                try:
                    allowed |= os.sched_getaffinity(each)
                except OSError:
                    continue
        return frozenset(allowed)

    def command(self, name: str) -> str | None:
        """The name of the program that a tier on this machine runs."""
        for pid in self._roots.get(name, []):
            try:
                return Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
        return None

    def ended_because(self, tier: Tier) -> str | None:
        """Why a tier is watched no longer: its first processes are all gone, or so is the way to their machine."""
        pids = self._roots.get(tier.name, [])
        if pids and not any(Path("/proc", str(pid)).exists() for pid in pids):
            return f"the processes of tier {tier.name} have ended"
        companion = self._companions.get(tier.name)
        if companion is not None and companion.has_ended:
            where = "" if tier.host is None else f", or the connection to {tier.host} is broken (try ssh there by hand)"
            return f"the probe of tier {tier.name} has ended: its processes are gone{where}"
        if companion is not None and companion.silent_seconds > SILENT_SECONDS_MAX:
            where = "this machine" if tier.host is None else f"{tier.host}, or the connection to it,"
            return f"the probe of tier {tier.name} gave no sample for {companion.silent_seconds:.0f} s: {where} hangs"
        return None

    def used(self, begin: float, end: float) -> SystemUse:
        """The tiers' usage between two moments of this machine's clock, in seconds since 1970."""
        looks = [look for look in self._looks if begin <= look.at <= end]
        tiers = dict[str, TierUse]()
        for name, companion in self._companions.items():
            assert companion.recording is not None
            ahead = companion.clock_ahead_seconds
            probed = _Span.of(companion.recording, begin + ahead, end + ahead)
            tiers[name] = _tier(probed, [look.connections[name] for look in looks if name in look.connections])
        local = [each for name, each in self._companions.items() if name in self._roots and each.recording is not None]
        busy = _busy_cores(_Span.of(local[0].recording, begin, end)) if local else None
        metrics = [known for at, known in self._metrics if begin <= at <= end]
        return SystemUse(tiers, _database(looks), _levels(metrics), busy, _busy_by_core(looks) if local else {})

    def cpu_cores(self, begin: float, end: float, parts: int) -> dict[str, list[float]]:
        """Each tier's CPU usage in about so many successive parts of a span, in cores; empty where it is not known."""
        found = {}
        for name, companion in self._companions.items():
            ahead = companion.clock_ahead_seconds
            found[name] = _Span.of(companion.recording, begin + ahead, end + ahead).rates("cpu_seconds", parts)
        return found

    def cpu_windows(self, begin: float, end: float, seconds: float) -> dict[str, list[float]]:
        """Each tier's CPU usage in successive windows of this length from `begin`, in cores, as far as it is known."""
        edges = begin + np.arange(int(round((end - begin) / seconds, 3)) + 1) * seconds
        found = {}
        for name, companion in self._companions.items():
            ahead = companion.clock_ahead_seconds
            around = _Span.of(companion.recording, begin + ahead - AROUND_SECONDS, end + ahead + AROUND_SECONDS)
            found[name] = around.between("cpu_seconds", edges + ahead)
        return found

    def _watched(self, tier: Tier) -> Watched:
        core = self._sources.own_core
        if tier.host is None:
            self._roots[tier.name] = processes.roots(tier)
            return Watched(self._roots[tier.name], generator_core=core, sources="processes,cores,pressure")
        shell = self._sources.remote_shell
        return Watched(
            sources="processes,cores,pressure,network",
            elsewhere=lambda arguments: remote.probe_command(tier, arguments, shell),
            further=remote.target(tier, shell),
        )

    def _ask(self, look: Callable[[], None], every_seconds: float) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            begin = time.thread_time()
            look()
            cost = time.thread_time() - begin
            due = max(due + every_seconds, time.monotonic() + cost / ASKING_CORES_MAX)
            self._over.wait(due - time.monotonic())

    def _look(self) -> None:
        begin = time.time()
        connections, cores = sockets.connections(self._roots), samples.core_ticks(Path("/"))
        self._looks.append(_Look(begin, connections, self._activity(), cores))

    def _activity(self) -> database.Activity | None:
        if self._database is None or self._database.name in self._failed:
            return None
        try:
            return self._database.activity()
        except (CouldNotRun, OSError, ValueError) as failure:
            self._failed[self._database.name] = str(failure)
            return None

    def _metric_sources(self) -> Iterator[tuple[str, Callable[[str], dict[str, float]], str]]:
        """What is read from the application itself: a name, the reader, and the URL."""
        if self._sources.prometheus is not None:
            yield "metrics", prometheus.read, self._sources.prometheus
        if self._sources.php_fpm is not None:
            yield "status of php-fpm", php_fpm.read, self._sources.php_fpm

    def _read_metrics(self) -> None:
        known = dict[str, float]()
        for name, read, url in self._metric_sources():
            try:
                known |= read(url)
                self._was_read.add(name)
            except CouldNotRun as failure:
                self._failed[name] = failure.what
        if known:
            self._metrics.append((time.time(), known))

    def _end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class _Span:
    """The samples of a probe between two moments."""

    def __init__(self, columns: dict[str, np.ndarray], times: np.ndarray) -> None:
        self._columns = columns
        self._times = times
        self._seconds = float(times[-1] - times[0]) if times.size else 0.0

    @classmethod
    def of(cls, recording: Recording | None, begin: float, end: float) -> _Span:
        nothing = cls({}, np.empty(0))
        if recording is None:
            return nothing
        # The probe keeps adding rows meanwhile: use as many of each column as all have.
        count = min(len(recording.rows), len(recording.unix_seconds))
        times = np.array(recording.unix_seconds[:count])
        inside = np.flatnonzero((times >= begin) & (times <= end))
        if inside.size < 2:
            return nothing
        rows = np.array([recording.rows[index] for index in inside])
        columns = {counter.name: rows[:, place] for place, counter in enumerate(recording.counters)}
        return cls(columns, times[inside])

    def per_second(self, name: str) -> float | None:
        """The rate of a total; None unless known at both ends."""
        values = self._columns.get(name)
        if values is None or self._seconds <= 0 or not (math.isfinite(values[0]) and math.isfinite(values[-1])):
            return None
        return float(values[-1] - values[0]) / self._seconds

    def rates(self, name: str, parts: int) -> list[float]:
        """The rates of a total in so many successive parts, or in as many as were sampled; empty if it is not known."""
        values = self._columns.get(name)
        parts = min(parts, self._times.size - 1)
        if values is None or parts < RATES_MIN:
            return []
        ends = np.linspace(0, self._times.size - 1, parts + 1).round().astype(int)
        found = np.diff(values[ends]) / np.diff(self._times[ends])
        return [float(each) for each in found] if np.isfinite(found).all() else []

    def between(self, name: str, edges: np.ndarray) -> list[float]:
        """The rates of a total between successive moments, as if it grew evenly between samples.

        Up to the last sample; empty if the first moment is before all of them.
        """
        values = self._columns.get(name)
        if values is None or self._times[0] > edges[0]:
            return []
        edges = edges[edges <= self._times[-1]]
        found = np.diff(np.interp(edges, self._times, values)) / np.diff(edges)
        return [float(each) for each in found] if np.isfinite(found).all() else []

    def mean(self, name: str) -> float | None:
        """The mean of a level."""
        values = self._columns.get(name)
        if values is None or not np.isfinite(values).any():
            return None
        return float(np.nanmean(values))

    def busiest_process_cores(self) -> float | None:
        """The cores that the busiest process used, by its part of the CPU time in whole seconds up to the end.

        A sample has the busiest process of the second before it, which in the first of them is not all in the span.
        """
        busiest, total = self._columns.get("busiest_process_fraction"), self._columns.get("cpu_seconds")
        cores = self.per_second("cpu_seconds")
        if busiest is None or total is None or cores is None:
            return None
        ends = self._times[-1] - BUSIEST_SECONDS * np.arange(max(1, int(self._seconds / BUSIEST_SECONDS)))
        places = np.searchsorted(self._times, ends)
        ends = self._times[places]
        used = np.interp(ends, self._times, total) - np.interp(ends - BUSIEST_SECONDS, self._times, total)
        known = np.isfinite(busiest[places]) & np.isfinite(used)
        if not known.any():
            return None
        most, of = float(busiest[places][known].sum()) * BUSIEST_SECONDS, float(used[known].sum())
        return cores * min(1.0, most / of) if of > 0 else 0.0


def _busy_cores(probed: _Span) -> float | None:
    parts = [probed.per_second(f"core_{kind}_seconds") for kind in ("user", "system", "interrupt", "softirq")]
    return None if None in parts else sum(each or 0.0 for each in parts)


def _busy_by_core(looks: Sequence[_Look]) -> dict[int, float]:
    if len(looks) < 2:
        return {}
    first, last = looks[0].cores, looks[-1].cores
    passed = {core: last[core].total - first[core].total for core in first.keys() & last.keys()}
    return {core: (last[core].busy - first[core].busy) / ticks for core, ticks in sorted(passed.items()) if ticks > 0}


def _tier(probed: _Span, looks: Sequence[sockets.Connections]) -> TierUse:
    outgoing: Counter[str] = Counter()
    for look in looks:
        outgoing.update(look.outgoing)
    switches = [probed.per_second(name) for name in ("voluntary_switches", "involuntary_switches")]
    return TierUse(
        cpu_cores=probed.per_second("cpu_seconds"),
        busiest_process_cores=probed.busiest_process_cores(),
        busiest_thread_cores=probed.mean("busiest_thread_fraction"),
        core_wait_threads=probed.per_second("core_wait_seconds"),
        threads=probed.mean("threads"),
        processes=probed.mean("processes"),
        switches_per_second=None if None in switches else sum(each or 0.0 for each in switches),
        voluntary_switches_per_second=switches[0],
        resident_bytes=probed.mean("resident_bytes"),
        blocked_threads=probed.mean("blocked_threads"),
        disk_read_bytes_per_second=probed.per_second("disk_read_bytes"),
        disk_written_bytes_per_second=probed.per_second("disk_written_bytes"),
        incoming_connections=float(np.mean([look.incoming for look in looks])) if looks else None,
        incoming_connections_max=float(max(look.incoming for look in looks)) if looks else None,
        incoming_unevenness=unevenness([look.incoming_by_process for look in looks]),
        accept_queue=float(np.mean([look.accept_queue for look in looks])) if looks else probed.mean("accept_queue"),
        outgoing_connections={where: count / len(looks) for where, count in outgoing.most_common()},
        connection_samples=len(looks) or None,
    )


def unevenness(looks: Sequence[Mapping[int, int]]) -> float | None:
    """How unevenly processes have connections: their variance beside that of connections that choose at random.

    Args:
        looks: connections by process, one mapping for each look.

    Returns:
        0 if all processes always have equally many, 1 as if each connection were with any of them, more where they
        keep to some; None with fewer than two processes.
    """
    processes = set[int]().union(*looks)
    connections = sum(sum(look.values()) for look in looks)
    if len(processes) < 2 or not connections:
        return None
    apart = sum((look.get(pid, 0) - sum(look.values()) / len(processes)) ** 2 for look in looks for pid in processes)
    return apart / connections / (1 - 1 / len(processes))


def _database(looks: Sequence[_Look]) -> DatabaseUse | None:
    known = [(look.at, look.database) for look in looks if look.database is not None]
    if len(known) < 2:
        return None
    activities = [activity for _, activity in known]
    waits: Counter[str] = Counter()
    for each in activities:
        waits.update(each.waits)
    elapsed = known[-1][0] - known[0][0]
    return DatabaseUse(
        backends=float(np.mean([each.backends for each in activities])),
        active=float(np.mean([each.active for each in activities])),
        in_transaction=float(np.mean([each.in_transaction for each in activities])),
        waits={kind: count / len(activities) for kind, count in waits.items()},
        commits_per_second=(activities[-1].commits - activities[0].commits) / elapsed,
        connections_max=activities[-1].connections_max,
    )


def _levels(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The means of what are levels. A summary's quantile is no number until something was observed."""
    sums: defaultdict[str, float] = defaultdict(float)
    seen: Counter[str] = Counter()
    for known in metrics:
        for name, value in known.items():
            is_level = not name.partition("{")[0].endswith(("_total", "_count", "_sum", "_bucket", "_created"))
            if is_level and math.isfinite(value):
                sums[name] += value
                seen[name] += 1
    return {name: total / seen[name] for name, total in sums.items()}
