"""Service demands by the utilisation law: c U = sum over classes of X_k D_k, plus a background load.

Non-negative least squares over intervals in which utilisation and throughputs were measured (Rolia & Vetland 1995;
Zhang, Cherkasova & Smirni, ICAC 2007). One class is the plain law D = U / X. With several classes everything rests on
the mix having varied: throughputs that rise and fall together leave the demands undetermined, so the condition
number and the variance inflation factors are checked and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from sojourn.calibration.estimate import (
    BOOTSTRAP_SAMPLES,
    FOLDS,
    FloatArray,
    HeldOut,
    cross_validated,
    folds,
    percentile_interval,
)
from sojourn.failure import CouldNotRun
from sojourn.results.records import Interval

CONDITION_NUMBER_MAX = 30.0
"""Beyond it the demands trade off against each other (Belsley, Kuh & Welsch 1980)."""
INFLATION_FACTOR_MAX = 10.0
"""A class whose throughput the others foretell this well has an interval sqrt(10) times as wide as alone."""
POINTS_PER_CLASS_MIN = 3


@dataclass(frozen=True)
class UtilisationLawFit:
    """Demands in seconds per request, by class in the order given."""

    demands_seconds: tuple[Interval, ...]
    background_utilisation: Interval
    """Busy servers without any request; U0."""
    condition_number: float
    """Of the throughputs and the constant, each scaled to length one."""
    inflation_factors: tuple[float, ...]
    """By class; 1 is the best."""
    held_out: HeldOut
    warnings: tuple[str, ...]


def fit(
    throughputs: FloatArray, utilisations: FloatArray, classes: Sequence[str], servers: int, seed: int
) -> UtilisationLawFit:
    """Fits the demands; intervals are percentile bootstrap over intervals (`BOOTSTRAP_SAMPLES` draws).

    Args:
        throughputs: requests/s; shape (points, classes).
        utilisations: busy share of all servers, above zero; shape (points,).
        classes: names for messages; shape (classes,).
        servers: how many cores share the work.
        seed: of the folds and the bootstrap.
    """
    points = len(utilisations)
    needed = POINTS_PER_CLASS_MIN * (len(classes) + 1)
    if points < needed:
        raise CouldNotRun(
            f"{points} points are too few for the demands of {len(classes)} classes: at least {needed} are needed",
            "measure more intervals, with different mixes",
        )
    busy = utilisations * servers
    solution = _solve(throughputs, busy)
    random = np.random.default_rng(seed)
    draws = (random.integers(0, points, points) for _ in range(BOOTSTRAP_SAMPLES))
    samples = np.array([_solve(throughputs[draw], busy[draw]) for draw in draws])
    condition, inflation = _collinearity(throughputs)
    error = cross_validated(
        "utilisation",
        f"{FOLDS} parts of the points in turn",
        folds(range(points), seed),
        busy,
        lambda fitted, out: _design(throughputs[out]) @ _solve(throughputs[fitted], busy[fitted]),
    )
    intervals = [percentile_interval(value, samples[:, index]) for index, value in enumerate(solution)]
    return UtilisationLawFit(
        demands_seconds=tuple(intervals[:-1]),
        background_utilisation=intervals[-1],
        condition_number=condition,
        inflation_factors=inflation,
        held_out=error,
        warnings=_warnings(classes, condition, inflation, intervals),
    )


def _design(throughputs: FloatArray) -> FloatArray:
    return np.column_stack([throughputs, np.ones(len(throughputs))])


def _solve(throughputs: FloatArray, busy: FloatArray) -> FloatArray:
    # Columns of length one, so that the solver's tolerance means the same for each.
    design = _design(throughputs)
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    solution: FloatArray = nnls(design / scale, busy)[0] / scale
    return solution


def _collinearity(throughputs: FloatArray) -> tuple[float, tuple[float, ...]]:
    design = _design(throughputs)
    scaled = design / np.maximum(np.linalg.norm(design, axis=0), np.finfo(float).tiny)
    factors = []
    for index in range(throughputs.shape[1]):
        others = np.delete(design, index, axis=1)
        own = throughputs[:, index]
        rest = own - others @ np.linalg.lstsq(others, own, rcond=None)[0]
        spread = float(np.sum((own - own.mean()) ** 2))
        unexplained = float(np.sum(rest**2))
        factors.append(spread / unexplained if unexplained > 1e-12 * spread else float("inf"))
    return float(np.linalg.cond(scaled)), tuple(factors)


def _warnings(
    classes: Sequence[str], condition: float, inflation: Sequence[float], intervals: Sequence[Interval]
) -> tuple[str, ...]:
    warnings = []
    together = [name for name, factor in zip(classes, inflation, strict=True) if factor > INFLATION_FACTOR_MAX]
    if len(classes) > 1 and (together or condition > CONDITION_NUMBER_MAX):
        named = ", ".join(together) or "all classes"
        warnings.append(
            f"The throughputs rise and fall together (condition number {condition:.0f}; variance inflation above "
            f"{INFLATION_FACTOR_MAX:.0f}: {named}): their demands cannot be told apart. Vary the mix."
        )
    zero = [name for name, interval in zip(classes, intervals, strict=False) if interval.estimate == 0.0]
    if zero:
        warnings.append(f"No work was left for {', '.join(zero)}: the other classes explain all utilisation.")
    return tuple(warnings)
