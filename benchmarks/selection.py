"""Which cells a benchmark measures, by patterns of names with * as a wildcard, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from random import Random
from typing import Protocol, TypeVar

from sojourn.failure import CouldNotRun

T = TypeVar("T")


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """Returns the name."""


N = TypeVar("N", bound=Named)


def chosen(patterns: str | None, everything: Sequence[N], kind: str) -> list[N]:
    """Returns those whose names match one of the patterns; all without patterns.

    Raises:
        CouldNotRun: a pattern matches none of them.
    """
    if patterns is None:
        return list(everything)
    wanted = patterns.split(",")
    names = [each.name for each in everything]
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise CouldNotRun(f"no {kind} is named {pattern}", f"one or more of {','.join(names)}, * is a wildcard")
    return [each for each in everything if any(fnmatchcase(each.name, pattern) for pattern in wanted)]


def shuffled(cells: Iterable[T], repetition: int, seed: int) -> list[T]:
    """Returns the cells in the order that the seed draws for a repetition."""
    order = list(cells)
    Random(f"{seed} {repetition}").shuffle(order)
    return order
