"""Robust averages over repetitions with their precision."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sojourn.loading.confidence import student_t


def half_width(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the interquartile mean over repetitions.

    It uses the variance of the winsorised sample (Yuen 1974), with equal weights for repetitions.
    """
    known = np.sort(values)
    if len(known) < 2:
        return None
    beyond = len(known) // 4
    kept = len(known) - 2 * beyond
    winsorised = np.clip(known, known[beyond], known[-1 - beyond])
    error = winsorised.std(ddof=1) * np.sqrt(len(known)) / kept
    return float(student_t(0.95, kept - 1) * error)


def middle(values: Sequence[tuple[float | None, int]]) -> float | None:
    """The interquartile mean: the mean over the middle half of the weight."""
    ordered = sorted((value, weight) for value, weight in values if value is not None)
    ends = np.cumsum([0, *(weight for _, weight in ordered)])
    if not ends[-1]:
        return None
    inside = np.diff(np.clip(ends, 0.25 * ends[-1], 0.75 * ends[-1]))
    return float(np.average([value for value, _ in ordered], weights=inside))


def weighted_median(values: Sequence[tuple[float, int]]) -> float:
    """The weighted median; a repetition's weight is the number of requests it answered."""
    ordered = sorted(values)
    cumulated = list(itertools.accumulate(weight for _, weight in ordered))
    half = cumulated[-1] / 2
    place = next(index for index, weight in enumerate(cumulated) if weight >= half)
    if cumulated[place] > half or place + 1 == len(ordered):
        return ordered[place][0]
    return (ordered[place][0] + ordered[place + 1][0]) / 2
