"""Lists the reproduced figures and tables of each source in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

_Each = TypeVar("_Each")


def by_source(each: Iterable[_Each], source: Callable[[_Each], str]) -> dict[str, list[tuple[str, _Each]]]:
    """Groups items by source: the place in the source, and the item; `source` returns both, separated by a comma."""
    found: dict[str, list[tuple[str, _Each]]] = {}
    for one in each:
        name, _, place = source(one).partition(", ")
        found.setdefault(name, []).append((place, one))
    return {name: sorted(placed, key=lambda pair: _numbers(pair[0])) for name, placed in found.items()}


def _numbers(place: str) -> list[int]:
    return [int(each) for each in re.findall(r"[0-9]+", place)]
