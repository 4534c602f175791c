"""The order of cells: random in each repetition, so that no server is always measured after the same other one."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TypeVar

T = TypeVar("T")


def shuffled(cells: Iterable[T], repetition: int, seed: int) -> list[T]:
    """Returns the cells in the order that the seed draws for a repetition."""
    order = list(cells)
    Random(f"{seed} {repetition}").shuffle(order)
    return order
