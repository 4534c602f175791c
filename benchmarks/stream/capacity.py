"""How many streams a server carries: the largest number of viewers of whom 99 % of streams conform."""

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
"""Of all that came: of those too that had no packet when the run ended."""
URL = "rtsp://film"
"""Stands for the server's, which has another port in every run."""
START_FRACTION = 0.85
"""Of the viewers for whom a core should do: the search begins where a run is likely to pass, near the edge."""
GROWTH = 1.4
"""By what viewers become more, or fewer, until one run has passed and one failed."""
START_CLIENTS_WITHOUT_COSTS = 100
JUDGED_MAX = 300
"""UDP viewers of the generator, which are judged; the others discard what they receive and cost next to nothing."""
UNREAD_COME_WITHIN_SECONDS = 3.0
UNREAD_BEGIN_WITHIN_SECONDS = 10.0
"""Of the film: it does not end before the run does."""


@dataclass(frozen=True)
class Capacity:
    """What a search found; None where it did not, with the reason in `trouble`."""

    competitor: str
    rate: str
    transport: str
    start: int = 0
    """Where the search began."""
    capacity: float | None = None
    low: float | None = None
    high: float | None = None
    """The interval; without a capacity `low` is the most that passed."""
    runs: int = 0
    ending: str | None = None
    limited_because: str | None = None
    """What gave in the generator, where it gave before the server."""
    core_fraction: float | None = None
    """What the server used of its core in the run with most viewers that passed."""
    trouble: str | None = None

    @property
    def figure(self) -> str:
        """In the tables."""
        if self.capacity is not None:
            return format.number(self.capacity)
        if self.low is not None:
            return f"at least {format.number(self.low)}"
        return format.NOT_MEASURED if self.high is None else f"fewer than {format.number(self.high)}"

    @property
    def said(self) -> str:
        """What is said when it ends."""
        found = self.trouble or f"{self.figure} streams conform ({self.runs} runs, {self.ending})"
        return f"{self.rate}, {self.transport}: {self.competitor}: {found}"

    def as_json(self) -> dict[str, Any]:
        """As a line of the results' file."""
        return {"part": "capacity", **dataclasses.asdict(self)}


def carried(costs: Mapping[int, float]) -> float | None:
    """How many streams one core should do for, from CPU seconds per stream-second by number of viewers.

    What is done for any number of streams, such as waking up, and what is done for each are told apart by the line
    through two points: the rest of a core is for streams.
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
    """How many viewers the generator may have: in a connection somebody has to take what comes."""
    return JUDGED_MAX if transport == "udp" else math.inf


def start_clients(rows: Iterable[Row], *, all_are_judged: bool) -> int:
    """Where a search begins: what the server's core should do for, or the generator's if that has all viewers."""
    # Streams that did not conform cost about as much: for a start that is near enough.
    known = list(rows)
    servers = {row.clients: row.cost.median for row in known if row.cost}
    generators = {row.clients: row.generator_cost.median for row in known if row.generator_cost and all_are_judged}
    estimates = [estimate for estimate in (carried(servers), carried(generators)) if estimate is not None]
    return max(1, int(START_FRACTION * min(estimates, default=START_CLIENTS_WITHOUT_COSTS / START_FRACTION)))


def measure(play: Play, start: int, effort: Effort, cores: Cores) -> Capacity:
    """Searches, each run with the server started anew."""
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
