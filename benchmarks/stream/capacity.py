"""A server's capacity: the largest number of viewers at which 99 % of the streams conform."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.stream import unread_sessions, viewers
from benchmarks.stream.competitors import running
from benchmarks.stream.costs import core_fraction
from benchmarks.stream.effort import Effort
from benchmarks.stream.results import Row
from benchmarks.stream.viewers import Play
from sojourn.failure import CouldNotRun
from sojourn.loading.load_search import LoadSearch
from sojourn.loading.result import LoadResult
from sojourn.loading.run import option, with_option
from sojourn.loading.threshold import Threshold
from sojourn.machine.cores import Cores
from sojourn.text import format

CONDITION = "served>=99%"
"""The share is one of all viewers, including those without a packet at the end of the run."""
URL = "rtsp://film"
"""A placeholder for the server's URL, which has another port in every run."""
START_FRACTION = 0.85
"""The fraction of the estimated capacity at which the search begins: near the limit, but likely to pass."""
GROWTH = 1.4
"""The factor on the viewers, up or down, until one run has passed and one has failed."""
START_CLIENTS_WITHOUT_COSTS = 100
JUDGED_MAX = 300
"""The UDP viewers that the generator judges; the others discard what they receive and cost next to nothing."""
UNREAD_COME_WITHIN_SECONDS = 3.0
UNREAD_BEGIN_WITHIN_SECONDS = 10.0
"""Seconds of the film within which they begin, so that it does not end before the run does."""


@dataclass(frozen=True)
class Capacity:
    """The result of a search; figures are None if it failed, with the reason in `trouble`."""

    competitor: str
    rate: str
    transport: str
    start: int = 0
    """The number of viewers at which the search began."""
    capacity: float | None = None
    low: float | None = None
    high: float | None = None
    """The upper end of the interval; without a capacity `low` is the most that passed."""
    runs: int = 0
    ending: str | None = None
    limited_because: str | None = None
    """What limited the generator, if it was the limit."""
    core_fraction: float | None = None
    """The fraction of its core that the server used in the passed run with the most viewers."""
    trouble: str | None = None

    @property
    def figure(self) -> str:
        """Returns the figure for the tables."""
        if self.capacity is not None:
            return format.number(self.capacity)
        if self.low is not None:
            return f"at least {format.number(self.low)}"
        return format.NOT_MEASURED if self.high is None else f"fewer than {format.number(self.high)}"

    @property
    def said(self) -> str:
        """Returns the message for its end."""
        found = self.trouble or f"{self.figure} streams conform ({self.runs} runs, {self.ending})"
        return f"{self.rate}, {self.transport}: {self.competitor}: {found}"

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""
        return {"part": "capacity", **dataclasses.asdict(self)}


def carried(costs: Mapping[int, float]) -> float | None:
    """Estimates how many streams one core can serve, from CPU seconds per stream-second by number of viewers.

    A line through two points separates the fixed cost, such as waking up, from the cost per stream. The core's time
    beyond the fixed cost is for streams.
    """
    if not costs:
        return None
    points = sorted((clients, clients * cost) for clients, cost in costs.items())
    (few, least), (many, most) = points[0], points[-1]
    each = (most - least) / (many - few) if many > few else most / many
    always = most - many * each
    if each <= 0 or always < 0:
        each, always = most / many, 0.0
    return (1 - always) / each


def judged_max(transport: str) -> float:
    """Returns how many viewers the generator may have: interleaved packets must be read, so there it has all."""
    return JUDGED_MAX if transport == "udp" else math.inf


def start_clients(rows: Iterable[Row], *, all_are_judged: bool) -> int:
    """Returns the start of a search: what the server's core can serve, or the generator's if it has all viewers."""
    # Streams that did not conform cost about as much, which is accurate enough for a start.
    known = list(rows)
    servers = {row.clients: row.cost.median for row in known if row.cost}
    generators = {row.clients: row.generator_cost.median for row in known if row.generator_cost and all_are_judged}
    estimates = [estimate for estimate in (carried(servers), carried(generators)) if estimate is not None]
    return max(1, int(START_FRACTION * min(estimates, default=START_CLIENTS_WITHOUT_COSTS / START_FRACTION)))


def measure(play: Play, start: int, effort: Effort, cores: Cores) -> Capacity:
    """Searches for the capacity; starts the server anew for each run."""
    capacity = Capacity(play.competitor.name, play.rate, play.transport, start)
    core_fractions: dict[float, float | None] = {}

    def run(words: Sequence[str]) -> LoadResult:
        clients = int(option(words, "--clients") or start)
        judged = int(min(clients, judged_max(play.transport)))
        with (
            running(play.competitor, play.film, cores.server) as server,
            unread_sessions.watching(
                server.url, clients - judged, UNREAD_COME_WITHIN_SECONDS, UNREAD_BEGIN_WITHIN_SECONDS
            ),
        ):
            result = viewers.run(server, [*with_option(words[1:], "--clients", str(judged)), *viewers.coming(judged)])
        core_fractions[clients] = core_fraction(result)
        return result

    try:
        search = LoadSearch(
            [URL, *viewers.options(play, start, effort.search_seconds, cores)],
            [Threshold.parse(CONDITION)],
            run,
            budget_seconds=effort.search_budget_seconds,
            precision=effort.precision,
            growth=GROWTH,
        )
        found = search.run()
    except CouldNotRun as error:
        return dataclasses.replace(capacity, trouble=error.what)
    passed = [trial.load for trial in found.trials if trial.passed]
    void = [trial.void_because for trial in found.trials if trial.void_because]
    return dataclasses.replace(
        capacity,
        capacity=found.capacity,
        low=found.low,
        high=found.high,
        runs=len(found.trials),
        ending=found.ending,
        limited_because=void[-1] if void and found.capacity is None else None,
        core_fraction=core_fractions[max(passed)] if passed else None,
    )
