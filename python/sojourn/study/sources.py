"""The sources that studies name: their full citations, and what is reproduced of each, in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

SOURCES = {
    "The thesis": "Yasuyuki Fujita: Performance Modeling and Evaluation of Web Server Systems with Proxy Caching. "
    "Graduate School of Engineering Science, Osaka University, January 2000",
    "Flash (USENIX 1999)": "Vivek S. Pai, Peter Druschel, Willy Zwaenepoel: Flash: An Efficient and Portable Web "
    "Server. Proceedings of the USENIX Annual Technical Conference, Monterey, June 1999",
    "The diskless study": "Tom Keller, Mike Kistler, Ram Rajamony, Freeman Rawson: A Study of the Performance of "
    "Diskless Web Servers. IBM Research Report, Austin Research Laboratory, November 2002",
    "The study of cache misses and page faults": "Garba Isa Yau, Abdul Waheed: A Measurement Based Memory Performance "
    "Evaluation of High Throughput Servers. King Fahd University of Petroleum and Minerals, Dhahran, not dated; its "
    "references go up to December 2002",
}
_Each = TypeVar("_Each")


def citation(source: str) -> str | None:
    """The full citation of a study's source, without the place in it; None for other sources."""
    return SOURCES.get(source.partition(", ")[0])


def by_source(each: Iterable[_Each], source: Callable[[_Each], str]) -> dict[str, list[tuple[str, _Each]]]:
    """Groups items by source: the place in the source, and the item; `source` returns both, separated by a comma."""
    found: dict[str, list[tuple[str, _Each]]] = {}
    for one in each:
        name, _, place = source(one).partition(", ")
        found.setdefault(name, []).append((place, one))
    return {name: sorted(placed, key=lambda pair: _numbers(pair[0])) for name, placed in found.items()}


def _numbers(place: str) -> list[int]:
    return [int(each) for each in re.findall(r"[0-9]+", place)]
