"""Confidence intervals of a run's figures by sectioning into batches, which respects autocorrelation.

The seconds of a run are not independent, so a run is cut into batches long enough to be nearly so. The figure of the
whole run is the centre; the figures of the batches say how it varies: half-width t * S / sqrt(k) with
S^2 = sum (q_j - q)^2 / (k - 1) over k batches (S. Asmussen, P. Glynn, Stochastic Simulation, 2007, III.5; for
quantiles M. Nakayama, ACM TOMACS 24, 2014; batches of quantiles go back to A. Seila, Management Science 28, 1982).
Everything is on the logarithmic scale, because latencies and their ratios are positive and skewed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

LEVEL = 0.95
BATCHES_MAX = 20
"""More batches add little (B. Schmeiser, Operations Research 30, 1982) and would be shorter."""
BATCHES_MIN = 5
"""With fewer batches, the interval reflects chance rather than the run."""

T = TypeVar("T")


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % confidence interval; the bounds are None where the data are insufficient."""

    value: float
    low: float | None = None
    high: float | None = None
    batches: int = 0


@dataclass(frozen=True)
class Spread:
    """The logarithm of a figure, the variance of its estimate, and that variance's degrees of freedom."""

    centre: float
    variance: float
    freedom: float


def estimate(rows: Sequence[T], figure: Callable[[Sequence[T]], float]) -> Estimate:
    """A positive figure of a run and its interval; `figure` takes any consecutive rows."""
    value = figure(rows) if rows else math.nan
    spread = sections(rows, figure)
    if spread is None:
        return Estimate(value)
    half = student_t(LEVEL, spread.freedom) * math.sqrt(spread.variance)
    return Estimate(value, value * math.exp(-half), value * math.exp(half), int(spread.freedom) + 1)


def sections(rows: Sequence[T], figure: Callable[[Sequence[T]], float]) -> Spread | None:
    """How a figure varies over batches that look independent; None where there are too few."""
    if not rows or not _is_positive(figure(rows)):
        return None
    centre = math.log(figure(rows))
    count = min(BATCHES_MAX, len(rows))
    while count >= BATCHES_MIN:
        figures = [figure(batch) for batch in _batches(rows, count)]
        if all(_is_positive(each) for each in figures):
            logs = [math.log(each) for each in figures]
            if count // 2 < BATCHES_MIN or not _are_correlated(logs):
                variance = sum((each - centre) ** 2 for each in logs) / (count - 1) / count
                return Spread(centre, variance, count - 1)
        count //= 2
    return None


def over_runs(values: Sequence[float]) -> Spread | None:
    """How a positive figure varies between repeated runs."""
    if len(values) < 2 or not all(_is_positive(value) for value in values):
        return None
    logs = [math.log(value) for value in values]
    centre = sum(logs) / len(logs)
    variance = sum((each - centre) ** 2 for each in logs) / (len(logs) - 1) / len(logs)
    return Spread(centre, variance, len(logs) - 1)


def student_t(level: float, freedom: float) -> float:
    """The two-sided quantile of Student's t."""
    # SciPy takes long to import, and most load runs need no interval.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))


def chance_above(distance: float, spread: Spread) -> float:
    """The probability that the estimate is this far above the true value, by Student's t."""
    from scipy.special import stdtr

    if spread.variance == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(spread.freedom, -distance / math.sqrt(spread.variance)))


def _batches(rows: Sequence[T], count: int) -> list[Sequence[T]]:
    edges = [round(index * len(rows) / count) for index in range(count + 1)]
    return [rows[edges[index] : edges[index + 1]] for index in range(count)]


def _are_correlated(logs: Sequence[float]) -> bool:
    """True if neighbouring batches are positively correlated, by their lag-one correlation at the 10 % level."""
    count = len(logs)
    mean = sum(logs) / count
    total = sum((each - mean) ** 2 for each in logs)
    if total == 0:
        return False
    lagged = sum((logs[index] - mean) * (logs[index + 1] - mean) for index in range(count - 1))
    # For independent batches the correlation is about normal with mean -1/k and variance 1/k.
    return lagged / total > -1 / count + 1.2816 / math.sqrt(count)


def _is_positive(value: float) -> bool:
    return value > 0 and math.isfinite(value)
