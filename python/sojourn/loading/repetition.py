"""Repeats a load, alone or alternating with the same load on another server.

Two servers are measured in the order first, second, second, first, and so on, so that drift of the machine affects both
alike. Both runs of a pair have the same seed, so that they send the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sojourn.loading.result import LoadResult
from sojourn.loading.run import seed_of, with_option


@dataclass(frozen=True)
class Turn:
    """One run of the plan."""

    side: int
    """The index of the server."""
    number: int
    """The run's number for this server, from one."""
    words: Sequence[str]


def plan(sides: Sequence[Sequence[str]], times: int) -> Iterator[Turn]:
    """All runs in order; `sides` are the engine's options for each server."""
    for index in range(times):
        order = range(len(sides)) if index % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            words = sides[side]
            yield Turn(side, index + 1, with_option(words, "--seed", str(seed_of(words) + index)))


def run(turns: Iterator[Turn], measure: Callable[[Turn], LoadResult], sides: int) -> list[list[LoadResult]]:
    """The results by server, up to an interrupted one."""
    found: list[list[LoadResult]] = [[] for _ in range(sides)]
    for turn in turns:
        result = measure(turn)
        found[turn.side].append(result)
        if result.record.interrupted:
            break
    return found
