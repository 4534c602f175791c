"""The valid values of counts: a station's servers are at most its r, and that is at most its capacity.

With fewer jobs in service than servers some servers would always idle, and with fewer places in all than in service
some places would stay empty. Models refuse such a station, so nothing that a plan tries may have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sojourn.planning.parameters import Parameter
from sojourn.planning.system_document import SystemDocument

COUNT_MAX = 1_000_000
"""The largest count in a system file."""
_RISING = ("servers", "r", "capacity")
"""Of these counts, no one is larger than the next that a station has."""
_WITH_PLACES = ("fifo", "lps")
"""The disciplines that limit the jobs in service."""


@dataclass(frozen=True)
class CountRange:
    """The valid values of a count."""

    fewest: int
    most: int
    most_because: str
    """The limit of the largest: `its capacity of 6`."""

    def __contains__(self, count: float) -> bool:
        return self.fewest <= count <= self.most

    def clamped(self, count: float) -> float:
        """The nearest valid value."""
        return float(max(self.fewest, min(self.most, count)))


def neighbours(document: SystemDocument, parameter: Parameter) -> tuple[dict[str, float], dict[str, float]]:
    """The other counts of a count's station, by path: those that it may not be below, and those it may not exceed."""
    station, key = _place(parameter.path)
    table = document.stations.get(station, {})
    if key not in _RISING or table.get("discipline") not in _WITH_PLACES:
        return {}, {}
    counts = {"servers": 1, **table}

    def present(keys: Sequence[str]) -> dict[str, float]:
        return {f"station.{station}.{each}": float(counts[each]) for each in keys if each in counts}

    place = _RISING.index(key)
    return present(_RISING[:place]), present(_RISING[place + 1 :])


def valid_counts(
    document: SystemDocument, parameter: Parameter, others: Mapping[str, float | None] | None = None
) -> CountRange:
    """The valid values of a count, from 1 because searches and sweeps multiply.

    Args:
        document: the system.
        parameter: the count.
        others: the values that other parameters have instead of the system's, by path; None for one that may have any.
    """
    below, above = neighbours(document, parameter)
    changed = {"station.{}.{}".format(*_place(path)): value for path, value in (others or {}).items()}
    smaller = [value for path, present in below.items() if (value := changed.get(path, present)) is not None]
    larger = [(value, path) for path, present in above.items() if (value := changed.get(path, present)) is not None]
    fewest = round(max(smaller, default=1))
    if not larger:
        return CountRange(fewest, COUNT_MAX, f"the largest count, {COUNT_MAX:,}")
    most, path = min(larger)
    return CountRange(fewest, round(most), f"its {_place(path)[1]} of {most:,.0f}")


def _place(path: str) -> tuple[str, str]:
    """The station and its key; empty for a parameter of anything else."""
    match path.split("."):
        case ["station" | "stations", name, key]:
            return name, key
        case _:
            return "", ""
