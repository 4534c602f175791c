"""One cell: loads a server steadily, observed in one way or not at all, and measures the cost of a request.

The server's CPU time is read only before and after the load, so that nothing observes a server without a probe while
it works.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.probe.perf_stat import perf_stat
from benchmarks.probe.variants import Variant
from benchmarks.probe.watching import INTERVAL_SECONDS, Watched, cpu_seconds, probe
from sojourn import engine
from sojourn.engine.results import LoadRecord
from sojourn.failure import CouldNotRun
from sojourn.machine.cores import Cores
from sojourn.probe.profile import tree
from sojourn.probe.totals import totals
from sojourn.systems import Running

CLIENTS = 64
RATE_FRACTION_MIN = 0.95
"""If a server answers a smaller fraction of the requests than this, the load is not steady."""


@dataclass(frozen=True)
class Setting:
    """The parameters that all cells of a run share."""

    site: Path
    cores: Cores
    seed: int
    rate: float
    duration_seconds: float


@dataclass(frozen=True)
class Cell:
    """The figures of a cell; `trouble` says why there are none."""

    server: str
    load: str
    variant: str
    repetition: int
    requests: int = 0
    cpu_seconds_per_request: float | None = None
    probe_cpu_fraction: float | None = None
    """The fraction of a core at ten samples a second; a probe that must wait for its core takes fewer samples."""
    samples_per_second: float | None = None
    trouble: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As a line of the results' file."""
        return {"kind": "cost", **asdict(self)}


@dataclass(frozen=True)
class Agreement:
    """The CPU time of the same processes over the same requests: by two of our counters, and by `perf stat`."""

    server: str
    load: str
    repetition: int
    requests: int = 0
    accounted_seconds_per_request: float | None = None
    """From /proc: `cpu_seconds`."""
    event_seconds_per_request: float | None = None
    """From the probe's own perf event: `perf_task_clock_seconds`."""
    perf_stat_seconds_per_request: float | None = None
    switches_per_request: float | None = None
    trouble: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As a line of the results' file."""
        return {"kind": "agreement", **asdict(self)}


@dataclass(frozen=True)
class Load:
    """The load: at a rate that lets the server sleep, or as much as it can answer."""

    name: str
    connection: str = "keep-alive"
    rate_share: float | None = 1.0
    """The fraction of the setting's rate; None is a closed loop."""


STEADY = Load("steady")
SATURATED = Load("saturated", rate_share=None)
TIME_WAIT = Load("time-wait", rate_share=None)
"""Saturated, while the kernel remembers many ended connections."""


def load(server: Running, setting: Setting, how: Load = STEADY) -> int:
    """Loads the server for the setting's duration; returns the number of answered requests.

    Raises:
        CouldNotRun: requests failed, or the server did not keep up.
    """
    rate = None if how.rate_share is None else setting.rate * how.rate_share
    many = ["--clients", str(CLIENTS)] if rate is None else ["--rate", f"{rate:g}", "--in-flight-max", str(CLIENTS)]
    options = ["load", f"{server.url}/500B", *many, "--connection", how.connection, "--seed", str(setting.seed)]
    options += ["--duration", f"{setting.duration_seconds:g}s", "--warm-up", "0s"]
    if setting.cores.generator is not None:
        options += ["--core", str(setting.cores.generator)]
    result = engine.run(options, LoadRecord)
    requests = result.requests
    if result.errors:
        raise CouldNotRun(f"{result.errors:,} of {requests + result.errors:,} requests failed")
    due = (rate or 0.0) * setting.duration_seconds
    if requests < RATE_FRACTION_MIN * due or not requests:
        raise CouldNotRun(f"{requests:,} requests were answered of {due:,.0f}")
    return requests


def cost(server: Running, who: str, how: Load, variant: Variant, repetition: int, setting: Setting) -> Cell:
    """Measures a cell. If that is impossible, the cell has `trouble`."""
    cell = Cell(who, how.name, variant.name, repetition)
    try:
        with ExitStack() as observing:
            watched = _observe(observing, server, variant, setting)
            before = cpu_seconds(server.pids)
            requests = load(server, setting, how)
            used = cpu_seconds(server.pids) - before
    except CouldNotRun as error:
        return replace(cell, trouble=error.what)
    cell = replace(cell, requests=requests, cpu_seconds_per_request=used / requests)
    if watched is None or watched.recording is None:
        return cell
    times = watched.recording.time_seconds
    # The probe's usage is counted from its first sample on.
    samples = len(times) - 1
    if not samples:
        return replace(cell, trouble="the probe got to take no second sample")
    return replace(
        cell,
        probe_cpu_fraction=watched.cpu_seconds / samples / INTERVAL_SECONDS,
        samples_per_second=samples / (times[-1] - times[0]),
    )


def _observe(observing: ExitStack, server: Running, variant: Variant, setting: Setting) -> Watched | None:
    if not variant.is_probed:
        return None
    return observing.enter_context(
        probe(server.pids, setting.cores.generator, variant.sources, urlsplit(server.url).port)
    )


def agreement(server: Running, who: str, how: Load, repetition: int, setting: Setting) -> Agreement:
    """Counts a load's CPU time in all three ways; the server is idle before and after, so exact ends do not matter."""
    found = Agreement(who, how.name, repetition)
    try:
        with (
            perf_stat(tree(server.pids)) as counted,
            probe(server.pids, setting.cores.generator, "processes,software") as watched,
        ):
            requests = load(server, setting, how)
    except CouldNotRun as error:
        return replace(found, trouble=error.what)
    assert watched.recording is not None
    used = {each.counter.name: each.total for each in totals(watched.recording)}

    def per_request(name: str) -> float | None:
        total = used[name]
        return None if total is None else total / requests

    return replace(
        found,
        requests=requests,
        accounted_seconds_per_request=per_request("cpu_seconds"),
        event_seconds_per_request=per_request("perf_task_clock_seconds"),
        perf_stat_seconds_per_request=counted.task_clock_seconds / requests,
        switches_per_request=per_request("perf_context_switches"),
    )
