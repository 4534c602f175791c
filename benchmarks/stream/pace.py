"""Measures how late our server sends many UDP streams from one core: its own histogram, and who used the core."""

from __future__ import annotations

import dataclasses
import os
import re
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.probe.watching import cpu_seconds
from benchmarks.stream import unread_sessions
from benchmarks.stream.competitors import ours_with, running
from benchmarks.stream.costs import resident_bytes
from sojourn.failure import CouldNotRun
from sojourn.machine.cores import Cores
from sojourn.text import format

RATE = "300k"
P99_SECONDS_MAX = 0.01
SLOT_SECONDS = "0.005"
"""Everything due within a slot leaves together (docs/streaming.md)."""
LATE_FRACTION_MAX = 0.01
"""The fraction of samples that may be later than the aim."""
COME_WITHIN_SECONDS = 5.0
SETTLE_SECONDS = 1.5
"""The server publishes its counters once a second."""
BEGIN_WITHIN_SECONDS = 10.0
TIMEOUT_SECONDS = 10.0
SESSION_TIMEOUT = "600s"
"""The UDP viewers send nothing after PLAY."""
_STEAL = 8
"""The index of stolen time in a core's line: proc_stat(5)."""
_BUCKET = re.compile(r'^sojourn_stream_(\w+)_seconds_bucket\{le="([^"]+)"\} (\d+)$', re.MULTILINE)
_ADMIN = re.compile(r"^metrics on (?:http://)?([0-9.:]+)", re.MULTILINE)
_FIGURE = re.compile(r"^sojourn_stream_(\w+) ([0-9.e+-]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Pace:
    """One repetition; None without a figure, with the reason in `trouble`. Fractions are of the core's time."""

    streams: int
    repetition: int
    seconds: float = 0.0
    playing: int | None = None
    samples: int | None = None
    later_fractions: dict[str, float] = field(default_factory=dict)
    """By seconds, the share of samples that were sent later than that."""
    long_turns_fraction: float | None = None
    """The share of loop iterations that took more CPU time than a slot."""
    core_fraction: float | None = None
    core_wait_fraction: float | None = None
    """The time during which the server was runnable while others used its core."""
    core_steal_fraction: float | None = None
    packets_per_second: float | None = None
    calls_per_second: float | None = None
    resident_bytes_per_stream: float | None = None
    trouble: str | None = None

    @property
    def late_fraction(self) -> float | None:
        """Returns the share of samples that are later than the aim."""
        return self.later_fractions.get(f"{P99_SECONDS_MAX:g}")

    @property
    def p99_seconds(self) -> float | None:
        """Returns the smallest edge of the histogram within which 99 % were sent."""
        within = [float(edge) for edge, share in self.later_fractions.items() if share <= 0.01]
        return min(within, default=None)

    @property
    def said(self) -> str:
        """Returns the message for its end."""
        late, core = format.percent(self.late_fraction), format.percent(self.core_fraction)
        found = self.trouble or f"{late} later than {format.seconds(P99_SECONDS_MAX)}, {core} of the core"
        return f"{self.streams:,} streams: {found}"

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""
        return {"part": "pace", **dataclasses.asdict(self)}


def measure(film: Path, streams: int, repetition: int, seconds: float, cores: Cores) -> Pace:
    """Starts our server anew and lets it play to UDP viewers."""
    pace = Pace(streams, repetition)
    assert cores.server is not None
    try:
        ours = ours_with("--admin-listen", "127.0.0.1:0", "--session-timeout", SESSION_TIMEOUT)
        with running(ours, film, cores.server) as server:
            admin, idle_bytes = _admin(server.said.read_text()), resident_bytes(server.pid)
            with unread_sessions.watching(server.url, streams, COME_WITHIN_SECONDS, BEGIN_WITHIN_SECONDS):
                time.sleep(SETTLE_SECONDS)
                before = _Moment.of(server.pid, admin, cores.server)
                time.sleep(seconds)
                after = _Moment.of(server.pid, admin, cores.server)
                grown = resident_bytes(server.pid) - idle_bytes
    except CouldNotRun as error:
        return dataclasses.replace(pace, trouble=error.what)
    return dataclasses.replace(_between(pace, before, after), resident_bytes_per_stream=grown / streams)


def _admin(said: str) -> str:
    """Returns the address of the server's metrics."""
    found = _ADMIN.search(said)
    if found is None:
        raise CouldNotRun("our server did not say where its metrics are")
    return found[1]


@dataclass(frozen=True)
class _Moment:
    """The counters of the server and the system at a moment."""

    at: float
    within: dict[str, dict[str, int]]
    """The histograms' counts of samples by lateness and of loop iterations by CPU time, cumulative by edge."""
    figures: dict[str, float]
    cpu_seconds: float
    stolen_seconds: float

    @staticmethod
    def of(pid: int, admin: str, core: int) -> _Moment:
        with urllib.request.urlopen(f"http://{admin}/metrics", timeout=TIMEOUT_SECONDS) as answer:
            page = answer.read().decode()
        line = next(row for row in Path("/proc/stat").read_text().splitlines() if row.startswith(f"cpu{core} "))
        within: dict[str, dict[str, int]] = {}
        for name, edge, count in _BUCKET.findall(page):
            within.setdefault(name, {})[edge] = int(count)
        return _Moment(
            time.monotonic(),
            within,
            {name: float(value) for name, value in _FIGURE.findall(page)},
            cpu_seconds([pid]),
            int(line.split()[_STEAL]) / os.sysconf("SC_CLK_TCK"),
        )


def _between(pace: Pace, before: _Moment, after: _Moment) -> Pace:
    seconds = after.at - before.at
    samples, later = _later(before, after, "send_lateness")
    _, longer = _later(before, after, "iteration_cpu")

    def per_second(name: str) -> float | None:
        return (after.figures[name] - before.figures[name]) / seconds if name in before.figures else None

    playing = int(after.figures["sessions_playing"])
    return dataclasses.replace(
        pace,
        seconds=seconds,
        playing=playing,
        samples=samples,
        later_fractions=later,
        long_turns_fraction=longer.get(SLOT_SECONDS),
        core_fraction=(after.cpu_seconds - before.cpu_seconds) / seconds,
        core_wait_fraction=per_second("core_wait_seconds_total"),
        core_steal_fraction=(after.stolen_seconds - before.stolen_seconds) / seconds,
        packets_per_second=per_second("packets_sent_total"),
        calls_per_second=per_second("send_calls_total"),
        trouble=_trouble(pace, playing, samples, after.figures),
    )


def _later(before: _Moment, after: _Moment, name: str) -> tuple[int, dict[str, float]]:
    """Returns a histogram's count between two moments, and the share above each edge."""
    within = {edge: count - before.within[name][edge] for edge, count in after.within[name].items()}
    count = within.pop("+Inf")
    return count, {edge: 1 - below / count for edge, below in within.items()} if count else {}


def _trouble(pace: Pace, playing: int, samples: int, figures: dict[str, float]) -> str | None:
    """Returns why the figures do not mean what they seem to."""
    if playing < pace.streams:
        return f"{playing:,} of {pace.streams:,} sessions played"
    if not samples:
        return "nothing was sent"
    if figures["frames_dropped_total"] or figures["send_errors_total"]:
        return "samples were dropped, or the system refused to send"
    return None
