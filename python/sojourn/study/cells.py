"""Combines repeated points into estimates with intervals per cell and metric, and into ratios within repetitions.

Figures are positive and skewed, so everything is on the logarithmic scale: the estimate is the geometric mean, the
interval Student's over the repetitions. A repetition is a block, so two groups of cells are compared inside each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, variance

from sojourn.loading.confidence import LEVEL, Estimate, over_runs, student_t
from sojourn.study.declarations import SYSTEM, Where
from sojourn.study.folder import Record
from sojourn.study.points import Settings, matches

GENERATOR_FREE = frozenset(
    f"server.cpu_{each}" for each in ("per_request", "user_per_request", "system_per_request", "per_stream_second")
)
"""Metrics that remain valid for the server if the generator was the limit."""
STREAMS_GENERATOR_FREE = frozenset(
    f"server.{each}" for each in ("cpu", "minor_faults", "major_faults", "disk_reads", "l1d_misses", "llc_misses")
)
"""The same for a streaming server, which sends on time however late its viewers look."""
LOWERED_BY_GENERATOR = frozenset(("rps", "throughput"))
"""Metrics that are lower bounds if the generator was the limit, because the server waited for it."""


@dataclass(frozen=True)
class Cell:
    """A combination of the factors, with its points by repetition."""

    settings: Settings
    records: Mapping[int, Record]

    def value(self, metric: str, repetition: int) -> float | None:
        """The value measured in a repetition."""
        record = self.records.get(repetition)
        value = None if record is None else record["metrics"].get(metric)
        return None if value is None else float(value)

    def estimate(self, metric: str) -> Estimate | None:
        """The estimate over the repetitions; None where nothing was measured."""
        return estimate([value for each in sorted(self.records) if (value := self.value(metric, each)) is not None])

    def lacking(self, metric: str) -> str | None:
        """The reason why the metric is missing in some repetitions although the cell was measured."""
        found = [each for each in self.records.values() if each["metrics"]]
        missing = [each for each in found if each["metrics"].get(metric) is None]
        reasons = [why for each in missing if (why := each.get("unavailable", {}).get(metric))]
        everywhere = len(missing) == len(found)
        # A load says why it lacks a metric; a program may rightly have none in some repetitions.
        if not missing or not (everywhere or reasons):
            return None
        where = "" if everywhere else f" in {len(reasons)} of {len(found)} points"
        return f"{metric} could not be measured{where}" + (f": {reasons[0]}" if reasons else "")

    def untrusted_because(self, metric: str) -> str | None:
        """The reason why some of the cell's figures do not describe the server."""
        if self._failed:
            return f"{len(self._failed)} of {len(self.records)} points failed: {self._failed[0]}"
        if doubtful := [str(each["doubtful"]) for each in self.records.values() if each.get("doubtful")]:
            return f"{len(doubtful)} of {len(self.records)} points are doubtful: {doubtful[0]}"
        if limited := self._limited(metric):
            return f"the generator was the limit in {len(limited)} of {len(self.records)} points: {limited[0]}"
        return self.lacking(metric)

    def is_lower_bound(self, metric: str) -> bool:
        """Returns true if the cell is a lower bound for the server, because only the generator was the limit."""
        return metric in LOWERED_BY_GENERATOR and bool(self._limited(metric)) and not self._failed

    @property
    def _failed(self) -> list[str]:
        return [str(each["failed"]) for each in self.records.values() if each["failed"]]

    def _limited(self, metric: str) -> list[str]:
        """The reasons for the generator's limit in points whose metric is not valid for the server."""
        streams = any("streams" in each for each in self.records.values())
        if metric in GENERATOR_FREE or (streams and metric in STREAMS_GENERATOR_FREE):
            return []
        return [str(each["generator_limited"]) for each in self.records.values() if each["generator_limited"]]


@dataclass(frozen=True)
class Cells:
    """All cells with at least one measurement."""

    cells: Sequence[Cell]
    linked: frozenset[str] = frozenset()
    """Factors whose values belong together: naming one names all."""

    @classmethod
    def of(cls, records: Iterable[Record], linked: frozenset[str] = frozenset()) -> Cells:
        """Groups points into cells by their settings."""
        groups: dict[tuple[tuple[str, object], ...], dict[int, Record]] = {}
        for record in records:
            key = tuple(sorted(record["settings"].items()))
            groups.setdefault(key, {})[record["repetition"]] = record
        return cls([Cell(next(iter(each.values()))["settings"], each) for each in groups.values()], linked)

    def until(self, repetition: int) -> Cells:
        """The cells restricted to repetitions up to and including this one."""
        kept = (
            Cell(cell.settings, {each: record for each, record in cell.records.items() if each <= repetition})
            for cell in self.cells
        )
        return Cells([cell for cell in kept if cell.records], self.linked)

    def where(self, where: Where) -> list[Cell]:
        """The cells that match."""
        return [cell for cell in self.cells if matches(cell.settings, where)]

    @cached_property
    def repetitions(self) -> list[int]:
        """The repetitions with at least one measurement."""
        return sorted({each for cell in self.cells for each in cell.records})

    @cached_property
    def versions(self) -> dict[str, str]:
        """The most frequent version of each system."""
        found: dict[str, Counter[str]] = {}
        for cell in self.cells:
            for record in cell.records.values():
                found.setdefault(str(cell.settings[SYSTEM]), Counter())[record.get("server_version", "unknown")] += 1
        return {name: counts.most_common(1)[0][0] for name, counts in found.items()}


def estimate(values: Sequence[float], level: float = LEVEL, repetitions: int | None = None) -> Estimate | None:
    """The geometric mean of the values with its interval; the arithmetic mean if some are not positive.

    With `repetitions` the interval is the one expected from that many with the same spread.
    """
    if not values:
        return None
    spread = over_runs(values)
    if spread is None:
        return linear_estimate(values, level, repetitions)
    half = _half_width(spread.variance * len(values), level, repetitions or len(values))
    middle = math.exp(spread.centre)
    return Estimate(middle, middle * math.exp(-half), middle * math.exp(half), len(values))


def linear_estimate(values: Sequence[float], level: float = LEVEL, repetitions: int | None = None) -> Estimate:
    """The arithmetic mean with its interval, for figures that may be 0 or negative; a single value has no interval."""
    middle = mean(values)
    if len(values) < 2:
        return Estimate(middle, batches=len(values))
    half = _half_width(variance(values), level, repetitions or len(values))
    return Estimate(middle, middle - half, middle + half, len(values))


def _half_width(of_one: float, level: float, repetitions: int) -> float:
    """Student's half-width, from the variance of one value."""
    return student_t(level, repetitions - 1) * math.sqrt(of_one / repetitions)


def ratios(
    left: Sequence[Cell], right: Sequence[Cell], metrics: tuple[str, str], repetitions: Sequence[int]
) -> dict[int, float]:
    """The ratio of left's metric to right's by repetition; each side is the geometric mean of its cells."""
    found = {}
    for repetition in repetitions:
        pairs = zip((left, right), metrics, strict=True)
        sides = [_mean([cell.value(metric, repetition) for cell in side]) for side, metric in pairs]
        if sides[0] is not None and sides[1] is not None:
            found[repetition] = sides[0] / sides[1]
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and value > 0]
    return geometric_mean(known) if values and len(known) == len(values) else None
