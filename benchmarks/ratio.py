"""Ratios of figures from the same repetition: their mean or median, its interval, and whether that decides a bound.

The conditions of a repetition affect both figures and cancel in the ratio; they remain in medians over repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from sojourn.loading.confidence import LEVEL, Estimate, over_runs, student_t


def mean_ratio(ratios: Sequence[float]) -> Estimate | None:
    """Returns the geometric mean of ratios and its 95 % interval; a single ratio has no interval."""
    spread = over_runs(ratios)
    if spread is None:
        return Estimate(ratios[0]) if ratios else None
    half = student_t(LEVEL, spread.freedom) * math.sqrt(spread.variance)
    value, low, high = (math.exp(spread.centre + each) for each in (0.0, -half, half))
    return Estimate(value, low, high, len(ratios))


def median_ratio(ratios: Sequence[float]) -> Estimate | None:
    """Returns the median of ratios and its 95 % interval by their ranks; too few ratios have no interval."""
    if not ratios:
        return None
    # SciPy takes long to import.
    from scipy.stats import binom

    # How many ratios are below the median is binomial, as heads of a coin are.
    place = int(binom.ppf((1 - LEVEL) / 2, len(ratios), 0.5)) - 1
    if place < 0:
        return Estimate(median(ratios), batches=len(ratios))
    ranked = sorted(ratios)
    return Estimate(median(ratios), ranked[place], ranked[-1 - place], len(ratios))


def word(measured: Estimate | None, bound: float, bound_low: float = 0.0) -> str:
    """Returns whether the whole interval meets or misses the bound; otherwise, as without an interval, not decided."""
    if measured is None:
        return "not measured"
    if measured.low is None or measured.high is None:
        return "not decided"
    if bound_low <= measured.low and measured.high <= bound:
        return "met"
    return "not met" if measured.low > bound or measured.high < bound_low else "not decided"
