"""A metric of a load run: its value, its interval, and how it is formatted and parsed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sojourn.engine.results import Unavailable
from sojourn.failure import CouldNotRun
from sojourn.loading.confidence import Estimate, estimate
from sojourn.loading.result import Interval, LoadResult
from sojourn.probe.totals import CounterUse
from sojourn.text import format, quantity

Quantity = Literal["time", "rate", "bandwidth", "fraction", "count", "number", "size", "byte rate"]
Figure = Callable[[Sequence[Interval]], float]


@dataclass(frozen=True)
class Metric:
    """One metric of a load run."""

    name: str
    help: str
    quantity: Quantity
    better: Literal["lower", "higher"]
    of_run: Callable[[LoadResult], float]
    """The value over the whole run; NaN if it was not measured."""
    of_intervals: Figure | None = None
    """The value over consecutive intervals, if they contain it."""
    counters: tuple[str, ...] = ()
    """The probe's counters, or other readings, from which it is computed."""

    def lacking_because(self, result: LoadResult) -> str | None:
        """The reason why a probe lacks its counters; None if it has them, or nothing was probed."""
        probe = result.record.probe
        if probe is None:
            return None
        readings = [probe.counters.get(name) or getattr(probe, name, None) for name in self.counters]
        found = (each.unavailable for each in readings if isinstance(each, CounterUse | Unavailable))
        return next((why for why in found if why is not None), None)

    def estimate(self, result: LoadResult) -> Estimate:
        """The run's value with its interval; for a run of several steps see `steps`."""
        return self.estimate_of(result, None if len(result.record.steps) > 1 else result.intervals)

    def estimate_of(self, result: LoadResult, intervals: Sequence[Interval] | None) -> Estimate:
        """The value, with the interval computed from these intervals at one load."""
        value = self.of_run(result)
        if self.of_intervals is None or intervals is None or math.isnan(value):
            return Estimate(value)
        found = estimate(intervals, self.of_intervals)
        if found.low is None or found.high is None or not found.value > 0:
            return Estimate(value)
        # The interval applies to the intervals' own value, which differs slightly from the run's because of its edges.
        return Estimate(value, value * found.low / found.value, value * found.high / found.value, found.batches)

    def write(self, value: float | None) -> str:
        """Formats a value with its unit."""
        return written(self.quantity, value)

    def parse(self, text: str) -> float:
        """Parses a limit with its unit."""
        return parsed(self.quantity, text)


def written(quantity: Quantity, value: float | None) -> str:
    """Formats a value with the unit of its quantity."""
    if value is None or math.isnan(value):
        return format.NOT_MEASURED
    return _WRITERS[quantity](value)


def parsed(quantity: Quantity, text: str) -> float:
    """Parses a value with the unit of a quantity."""
    return _PARSERS[quantity](text)


def _per_second(text: str) -> float:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?:(k?)\s*(?:requests)?/s)?\s*", text)
    if match is None:
        raise CouldNotRun(f"{text!r} is not a rate", "write it as 1000/s")
    return float(match[1]) * (1000 if match[2] else 1)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CouldNotRun(f"{text!r} is not a number", "write it as 10") from None


_WRITERS: dict[Quantity, Callable[[float], str]] = {
    "time": format.seconds,
    "rate": lambda value: f"{format.number(value, 4)}/s",
    "bandwidth": lambda value: format.bandwidth(value),
    "fraction": format.percent,
    "count": format.count,
    "number": lambda value: format.number(value),
    "size": format.size,
    "byte rate": lambda value: f"{format.size(value)}/s",
}
_PARSERS: dict[Quantity, Callable[[str], float]] = {
    "time": quantity.seconds,
    "rate": _per_second,
    "bandwidth": quantity.bits_per_second,
    "fraction": quantity.fraction,
    "count": _number,
    "number": _number,
    "size": quantity.size_bytes,
    "byte rate": lambda text: quantity.size_bytes(text.removesuffix("/s")),
}


def known(value: object) -> float:
    """The value of a field; NaN if the record says that it was not measured."""
    return float(value) if isinstance(value, int | float) else math.nan
