"""Reads the ranges of errors that the label of an approximation names.

A label lists approximations, those of one station after its name: `approximation (a: …; b: …)`. Errors of one station
multiply; a whole response time is at worst as wrong as its worst station.
"""

from __future__ import annotations

import re
from math import prod

Range = tuple[float, float]
"""The lowest and the highest relative error."""

EXACT = "exact"
EQUATION_LOW = 0.01
"""The range of Eq. 2.2 names no error below: 1 % covers the rounding of its figures."""


def of_mean(said: str, station: str | None = None) -> Range | None:
    """Returns the range of a mean time, of one station or of a whole response; None if the label names none."""
    by_station: dict[str, list[Range]] = {}
    for part in _parts(said):
        found = re.search(r"off by (-?\d+) % to \+(\d+) %", part) or re.search(r"at most ()([\d.]+) %", part)
        if found is None:
            return None
        low = float(found[1]) / 100 if found[1] else -EQUATION_LOW
        by_station.setdefault(_station(part), []).append((low, float(found[2]) / 100))
    everywhere = by_station.pop("", [])
    stations = list(by_station.values()) if station is None else [by_station.get(station, [])]
    together = [_product(each + everywhere) for each in stations or [[]]]
    return min(low for low, _ in together), max(high for _, high in together)


def of_throughput(said: str) -> Range | None:
    """Returns the range of a closed class's throughput, which is high where its response time is low."""
    found = of_mean(said)
    return None if found is None else (1 / (1 + found[1]) - 1, 1 / (1 + found[0]) - 1)


def of_percentile(said: str, figure: str) -> Range | None:
    """Returns the range of a percentile, `p50` to `p999`; None if the label names none."""
    ranges: list[Range] = []
    own = {"p99": r"p99 by (\d+) %", "p999": r"p99.9 by (\d+) %"}.get(figure, r"p95 off by at most (\d+) %")
    for part in _parts(said):
        if found := re.search(r"off by (-?\d+) % to \+(\d+) %", part):
            ranges.append((float(found[1]) / 100, float(found[2]) / 100))
        elif found := re.search(own, part):
            ranges.append((-float(found[1]) / 100, float(found[1]) / 100))
        else:
            return None
    return _product(ranges)


def _parts(said: str) -> list[str]:
    return [] if said == EXACT else said.removeprefix("approximation (").removesuffix(")").split("; ")


def _station(part: str) -> str:
    found = re.match(r"([\w-]+): ", part)
    return found[1] if found else ""


def _product(ranges: list[Range]) -> Range:
    return prod(1 + low for low, _ in ranges) - 1, prod(1 + high for _, high in ranges) - 1
