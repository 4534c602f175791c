"""Closed networks of processor sharing and delays: adds up the weights of all states."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A station, or the users' think time; `speed` is v(n), None for a delay. `demands` are per class and job."""

    demands: tuple[float, ...]
    speed: Callable[[int], float] | None = lambda n: min(n, 1)

    def weight(self, present: Sequence[int]) -> float:
        """Returns the weight of this number of jobs per class."""
        total = sum(present)
        weight = 1.0
        for demand, count in zip(self.demands, present, strict=True):
            weight *= demand**count / math.factorial(count)
        if self.speed is None:
            return weight
        return weight * math.factorial(total) / math.prod(self.speed(n) for n in range(1, total + 1))


def throughputs(places: Sequence[Place], users: Sequence[int]) -> list[float]:
    """Returns the jobs/s of each class: G without one of its users over G."""
    whole = _constant(places, users)
    found = []
    for index, count in enumerate(users):
        fewer = [*users[:index], count - 1, *users[index + 1 :]]
        found.append(_constant(places, fewer) / whole)
    return found


def _constant(places: Sequence[Place], users: Sequence[int]) -> float:
    states = itertools.product(*(list(_spread(count, len(places))) for count in users))
    return math.fsum(
        math.prod(place.weight(present) for place, present in zip(places, zip(*state, strict=True), strict=True))
        for state in states
    )


def _spread(count: int, places: int) -> Iterator[tuple[int, ...]]:
    """Returns all ways to spread jobs over places."""
    if places == 1:
        yield (count,)
        return
    for here in range(count + 1):
        for rest in _spread(count - here, places - 1):
            yield (here, *rest)
