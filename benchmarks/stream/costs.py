"""The cost of a stream: a server's CPU time and memory with a number of viewers that every server can serve."""

from __future__ import annotations

import dataclasses
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.stream import viewers
from benchmarks.stream.competitors import running
from benchmarks.stream.viewers import Play
from sojourn.engine.results import StreamFigures
from sojourn.failure import CouldNotRun
from sojourn.loading.record import ProbeUse
from sojourn.loading.result import LoadResult
from sojourn.machine.cores import Cores
from sojourn.probe.profile import tree
from sojourn.probe.totals import CounterUse
from sojourn.text import format

CONFORMING_MIN = 0.99
"""With a smaller fraction the server has done less than its task, and its costs are not compared."""


@dataclass(frozen=True)
class Cost:
    """The figures of one repetition; None if it failed, with the reason in `trouble`."""

    competitor: str
    rate: str
    transport: str
    clients: int
    repetition: int
    conforming_fraction: float | None = None
    cpu_seconds_per_stream_second: float | None = None
    resident_bytes_per_stream: float | None = None
    behind_p99_seconds: float | None = None
    bits_per_second_per_stream: float | None = None
    generator_cpu_seconds_per_stream_second: float | None = None
    limited_because: str | None = None
    """Why the generator was the limit, if it was."""
    trouble: str | None = None

    @property
    def said(self) -> str:
        """Returns the message for its end."""
        cpu, memory = format.seconds(self.cpu_seconds_per_stream_second), format.size(self.resident_bytes_per_stream)
        found = self.trouble or f"{cpu} per stream-second, {memory} per stream"
        return f"{self.rate}, {self.transport}, {self.clients} streams: {self.competitor}: {found}"

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""
        return {"part": "costs", **dataclasses.asdict(self)}


def measure(play: Play, clients: int, repetition: int, seconds: float, cores: Cores) -> Cost:
    """Starts the server anew and measures it with these viewers. If the server fails, the cost has `trouble`."""
    cost = Cost(play.competitor.name, play.rate, play.transport, clients, repetition)
    try:
        with running(play.competitor, play.film, cores.server) as server:
            idle_bytes = resident_bytes(server.pid)
            words = [*viewers.options(play, clients, seconds, cores), *viewers.coming(clients)]
            return _with_figures(cost, viewers.run(server, words), idle_bytes)
    except CouldNotRun as error:
        return dataclasses.replace(cost, trouble=error.what)


def _with_figures(cost: Cost, result: LoadResult, idle_bytes: int) -> Cost:
    record = result.of_streams
    probe = record.probe or ProbeUse()
    resident = probe.counters.get("resident_bytes", CounterUse()).maximum
    return dataclasses.replace(
        cost,
        conforming_fraction=record.streaming.streams.conforming_fraction,
        cpu_seconds_per_stream_second=_number(probe.cpu_seconds_per_stream_second),
        resident_bytes_per_stream=None if resident is None else (resident - idle_bytes) / cost.clients,
        behind_p99_seconds=record.behind_seconds.p99,
        bits_per_second_per_stream=(
            record.streaming.bit_rate.mean_bits_per_second if record.streaming.bit_rate else None
        ),
        generator_cpu_seconds_per_stream_second=record.generator.cpu_seconds_per_stream_second,
        limited_because=result.limited_because,
        trouble=_trouble(record.streaming.streams),
    )


def _trouble(streams: StreamFigures) -> str | None:
    """Returns why the figures do not mean what they seem to."""
    if streams.played_seconds == 0:
        refused = {f"refused with {code}": count for code, count in streams.refused_by_status.items()}
        causes = {**refused, **streams.failures_by_cause}
        return "no stream played: " + ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in causes.items())
    conforming = streams.conforming_fraction
    if conforming is None or conforming < CONFORMING_MIN:
        return f"{format.percent(conforming)} of its streams conformed"
    return None


def resident_bytes(pid: int) -> int:
    """Returns the resident memory of a server and its children."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in tree([pid])]
    return sum(pages) * resource.getpagesize()


def core_fraction(result: LoadResult) -> float | None:
    """Returns the fraction of its core that the server used."""
    return result.record.probe.counters.get("cpu_seconds", CounterUse()).per_second if result.record.probe else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
