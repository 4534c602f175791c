"""The effort of a run: in full, within a given time, or only to try whether everything runs."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from sojourn.failure import CouldNotRun


@dataclass(frozen=True)
class Part:
    """A part of the benchmark, and its share of the time if all are measured."""

    name: str
    share: float


COSTS, CAPACITY, PACE = PARTS = (Part("costs", 0.42), Part("capacity", 0.43), Part("pace", 0.15))
COST_BESIDE_SECONDS = 3.5
"""The overhead of measuring a cost: starting server and probe, viewers that start and leave."""
COST_SECONDS_MIN = 2.0
"""In less time, chance dominates the cost of a stream."""
SEARCH_SECONDS_MIN = 25.0
"""In less time, no search has three runs."""
SEARCH_RUN_SECONDS_MIN = 6.0
"""Longer than the five seconds that players buffer."""
PACE_BESIDE_SECONDS = 14.0
"""The overhead of the pace: setting up the streams, starting them one after the other, and ending them."""
PACE_SECONDS_MIN = 5.0
FILM_SPARE_SECONDS = 30.0
"""A film is longer than a measurement by this: viewers start one after the other, and some later in the film."""
CLIENTS = (20, 100)
REPETITIONS_IN_SHORT = 3
"""With fewer repetitions, no interval of a ratio decides anything."""


@dataclass(frozen=True)
class Effort:
    """The effort for every part."""

    repetitions: int
    clients: tuple[int, ...]
    """Numbers of streams at which costs are measured: few enough for every server."""
    cost_seconds: float
    search_seconds: float
    """The length of each run of a search: a server that is too slow must fall behind by 5 % within it."""
    search_budget_seconds: float
    precision: float
    pace_streams: int
    pace_seconds: float
    film_seconds: float

    def repeated(self, repetitions: int | None) -> Effort:
        """Returns the same effort with another number of repetitions, if one is given."""
        return self if repetitions is None else replace(self, repetitions=repetitions)

    def as_json(self) -> dict[str, Any]:
        """Returns it for the run's record."""
        return asdict(self)


FULL = Effort(
    repetitions=5,
    clients=CLIENTS,
    cost_seconds=20.0,
    search_seconds=20.0,
    search_budget_seconds=600.0,
    precision=0.1,
    pace_streams=5000,
    pace_seconds=60.0,
    film_seconds=150.0,
)
QUICK = Effort(
    repetitions=1,
    clients=(2, 4),
    cost_seconds=1.0,
    search_seconds=1.0,
    search_budget_seconds=1.0,
    precision=0.5,
    pace_streams=50,
    pace_seconds=1.0,
    film_seconds=30.0,
)


def within(minutes: float, parts: Collection[Part], plays: int, repetitions: int | None = None) -> Effort:
    """Returns the effort that fits into a time for this many plays: a server with a film and a transport.

    Raises:
        CouldNotRun: the time is too short to measure anything.
    """
    repetitions = REPETITIONS_IN_SHORT if repetitions is None else repetitions
    share_each = 60 * minutes / sum(part.share for part in parts)
    costs = _left(share_each * COSTS.share, plays * len(CLIENTS) * repetitions, COST_BESIDE_SECONDS)
    search = share_each * CAPACITY.share / max(1, plays)
    pace = _left(share_each * PACE.share, repetitions, PACE_BESIDE_SECONDS)
    lacking = {
        COSTS: costs < COST_SECONDS_MIN,
        CAPACITY: search < SEARCH_SECONDS_MIN,
        PACE: pace < PACE_SECONDS_MIN,
    }
    if any(lacking[part] for part in parts):
        least = math.ceil(_least_minutes(parts, plays, repetitions))
        raise CouldNotRun(
            f"{minutes:g} minutes are too few for {plays} servers with a film, {repetitions} times",
            f"--minutes {least}, fewer --repetitions, or --only some parts",
        )
    effort = replace(
        FULL,
        repetitions=repetitions,
        cost_seconds=min(FULL.cost_seconds, costs),
        search_seconds=min(FULL.search_seconds, max(SEARCH_RUN_SECONDS_MIN, search / 6)),
        search_budget_seconds=search,
        pace_seconds=min(FULL.pace_seconds, pace),
    )
    longest = max(effort.cost_seconds, effort.search_seconds, effort.pace_seconds)
    return replace(
        effort, film_seconds=math.ceil((longest + FILM_SPARE_SECONDS) / FILM_SPARE_SECONDS) * FILM_SPARE_SECONDS
    )


def _left(seconds: float, measurements: int, beside_seconds: float) -> float:
    return seconds / max(1, measurements) - beside_seconds


def _least_minutes(parts: Collection[Part], plays: int, repetitions: int) -> float:
    least: dict[Part, float] = {
        COSTS: plays * len(CLIENTS) * repetitions * (COST_BESIDE_SECONDS + COST_SECONDS_MIN),
        CAPACITY: plays * SEARCH_SECONDS_MIN,
        PACE: repetitions * (PACE_BESIDE_SECONDS + PACE_SECONDS_MIN),
    }
    whole = sum(part.share for part in parts)
    return max(least[part] / part.share for part in parts) * whole / 60
