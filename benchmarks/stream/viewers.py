"""Runs our generator with a number of viewers of a film for some seconds, and a probe on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.stream.competitors import Competitor, Running
from sojourn.loading.probed import probed
from sojourn.loading.result import LoadResult
from sojourn.loading.run import run_load
from sojourn.machine.cores import Cores
from sojourn.probe.companion import Watched

PROBE_INTERVAL = "200ms"
ARRIVALS_PER_SECOND_MIN = 50
COME_WITHIN_SECONDS = 2
"""All viewers start within this time, so that a run of many does not consist of their starts."""


@dataclass(frozen=True)
class Play:
    """A server, a film and the viewers: a row of the tables, over its repetitions."""

    competitor: Competitor
    rate: str
    transport: str
    film: Path

    @property
    def name(self) -> str:
        """Returns the name for the tables and the terminal."""
        return f"{self.rate}, {self.transport}: {self.competitor.name}"


def options(play: Play, clients: int, seconds: float, cores: Cores) -> list[str]:
    """Returns the generator's options, without the film's URL."""
    words = ["--clients", str(clients), "--duration", f"{seconds:g}s", "--transport", play.transport]
    return words if cores.generator is None else [*words, "--core", str(cores.generator)]


def coming(clients: int) -> list[str]:
    """Returns the options for the rate at which this many viewers start."""
    return ["--ramp", f"{max(ARRIVALS_PER_SECOND_MIN, clients // COME_WITHIN_SECONDS)}/s"]


def run(server: Running, words: Sequence[str]) -> LoadResult:
    """Runs the generator once on the server's film.

    Raises:
        KeyboardInterrupt: the run was interrupted, and its results are incomplete.
    """
    result = probed(run_load, Watched((server.pid,), None, PROBE_INTERVAL))([server.url, *words], None)
    if result.record.interrupted:
        raise KeyboardInterrupt
    return result
