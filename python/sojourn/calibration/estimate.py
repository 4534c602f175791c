"""Shared by all estimators: percentile-bootstrap intervals, folds, and errors on held-out points.

The points that a parameter was fitted to do not show how well it predicts, so no estimator reports its error on them:
`HeldOut` always describes points that the fit did not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sojourn.loading.confidence import student_t
from sojourn.results.records import Interval, Record

BOOTSTRAP_SAMPLES = 400
FOLDS = 5

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]


class HeldOut(Record):
    """Absolute relative errors (predicted over measured, minus one) at points that were not fitted."""

    quantity: str
    """The predicted quantity: `utilisation`, `demand`, `response_time_mean`, `throughput`."""
    method: str
    """How points were held out, in words."""
    points: int
    relative_error_median: float
    relative_error_max: float


def percentile_interval(estimate: float, samples: FloatArray) -> Interval:
    """The 95 % percentile interval of bootstrap samples; shape (samples,)."""
    low, high = np.quantile(samples, [0.025, 0.975])
    return Interval(estimate=float(estimate), low=float(low), high=float(high))


def widening(points: int, parameters: int) -> float:
    """By what factor bootstrap samples of few points vary too little.

    A sample of few points varies less than those do from which it comes: the jackknife's factor (HC3), and Student's
    quantile for the normal law's.
    """
    freedom = max(1, points - parameters)
    return points / freedom * student_t(0.95, freedom) / 1.96


def folds(groups: Sequence[object], seed: int, count: int = FOLDS) -> list[tuple[IndexArray, IndexArray]]:
    """Splits points into (fitted, held out) index pairs; points of one group are held out together.

    Args:
        groups: the group of each point. Points that repeat one setting are one group, else the repetition would give
            the held-out point away.
        seed: orders the groups.
        count: folds at most; fewer groups make as many folds as groups.
    """
    names = sorted(set(groups), key=repr)
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[group]: place % count for place, group in enumerate(order)}
    fold = np.array([fold_of[group] for group in groups])
    return [(np.flatnonzero(fold != each), np.flatnonzero(fold == each)) for each in range(min(count, len(names)))]


def cross_validated(
    quantity: str,
    method: str,
    splits: Iterable[tuple[IndexArray, IndexArray]],
    measured: FloatArray,
    predict: Callable[[IndexArray, IndexArray], FloatArray],
) -> HeldOut:
    """Cross-validates: fits on each split's first part, predicts its second, and summarises the errors.

    Args:
        quantity: what is predicted.
        method: how points are held out, for people.
        splits: pairs of indices.
        measured: positive; shape (points,).
        predict: (fitted, held out) to predictions for those held out.
    """
    errors = np.concatenate([np.abs(predict(fitted, out) / measured[out] - 1.0) for fitted, out in splits])
    return held_out(quantity, method, errors)


def held_out(quantity: str, method: str, errors: FloatArray) -> HeldOut:
    """Summarises relative errors; shape (points,)."""
    return HeldOut(
        quantity=quantity,
        method=method,
        points=len(errors),
        relative_error_median=float(np.median(errors)),
        relative_error_max=float(np.max(errors)),
    )
