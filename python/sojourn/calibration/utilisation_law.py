"""Fits service demands by the utilisation law: c U = sum over classes of X_k D_k, plus a background load.

Non-negative least squares over intervals in which utilisation and throughputs were measured (Rolia & Vetland 1995;
Zhang, Cherkasova & Smirni, ICAC 2007). One class gives the plain law D = U / X. With several classes the mix must
vary: throughputs that rise and fall together leave the demands undetermined, so the condition number and the variance
inflation factors are checked and reported.

Least squares takes the throughputs as exact. Where they are not, as counts of another source or of shifted intervals,
demands come out too low and the background too high. What scatters cannot be told from the points, so the intervals
hold both extremes: all of the scatter in the utilisation, and all of it in the throughputs, in proportion to each
(moments corrected for it: W. Fuller, Measurement Error Models, 1987, 2.2; the bounds are R. Frisch's of 1934).

The intervals of points that came as they did are bootstrap over points. Where each class was emphasised on purpose in a
few points, a sample without these points would say nothing of it: then the throughputs are kept, and what is left over
by the fit is drawn anew.

Points without any throughput tell the background from the classes' work; as nothing is to be predicted there, they are
never held out. Points that scatter less than others may have more weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.calibration.estimate import (
    BOOTSTRAP_SAMPLES,
    FOLDS,
    FloatArray,
    HeldOut,
    cross_validated,
    folds,
    percentile_interval,
    widening,
)
from sojourn.calibration.stages import UNSEEN, Stages, followed
from sojourn.failure import CouldNotRun
from sojourn.loading.confidence import student_t
from sojourn.results.records import Interval

CONDITION_NUMBER_MAX = 30.0
"""Above this, demands trade off against each other (Belsley, Kuh & Welsch 1980)."""
INFLATION_FACTOR_MAX = 10.0
"""A class whose throughput the others predict this well has an interval sqrt(10) times as wide as alone."""
POINTS_PER_CLASS_MIN = 3
RESIDUAL_MAX = 3.0
"""The largest deviation of one designed point, in multiples of what all points leave over."""
LEVERAGE_MAX = 0.95
CORRECTION_STEPS = 30
CORRECTION_MAX = 0.05
"""A larger correction of a demand for scattered throughputs causes a warning."""


@dataclass(frozen=True)
class UtilisationLawFit:
    """Demands in seconds per request, by class in the order given."""

    demands_seconds: tuple[Interval, ...]
    background_utilisation: Interval
    """Busy servers without any request, U0."""
    condition_number: float
    """The condition number of the throughputs and the constant, each scaled to length one."""
    throughput_error: float
    """The relative standard deviation of the throughputs, if they cause all the scatter."""
    inflation_factors: tuple[float, ...]
    """The variance inflation factor by class; 1 is best."""
    held_out: HeldOut
    warnings: tuple[str, ...]


def points_min(classes: int) -> int:
    """How many points it takes at least to tell the demands of so many classes."""
    return POINTS_PER_CLASS_MIN * (classes + 1)


def fit(
    throughputs: FloatArray,
    utilisations: FloatArray,
    classes: Sequence[str],
    servers: int,
    seed: int,
    weights: FloatArray | None = None,
    *,
    designed: bool = False,
    stages: Stages = UNSEEN,
) -> UtilisationLawFit:
    """Fits the demands; intervals are percentile bootstrap (`BOOTSTRAP_SAMPLES` draws).

    Args:
        throughputs: requests/s; shape (points, classes).
        utilisations: busy share of all servers, above zero but in points without any throughput; shape (points,).
        classes: names for messages; shape (classes,).
        servers: how many cores share the work.
        seed: of the folds and the bootstrap.
        weights: of the points' residuals, all alike unless given; shape (points,).
        designed: the throughputs were chosen to tell the classes apart, in no more points than necessary.
        stages: shows how far it is.
    """
    is_loaded = np.any(throughputs > 0, axis=1)
    loaded, unloaded = np.flatnonzero(is_loaded), np.flatnonzero(~is_loaded)
    points = len(loaded)
    needed = points_min(len(classes))
    if points < needed:
        raise CouldNotRun(
            f"{points} points are too few for the demands of {len(classes)} classes: at least {needed} are needed",
            "measure more intervals, with different mixes",
        )
    busy = utilisations * servers
    weights = np.ones(len(busy)) if weights is None else weights
    design, weighted = _design(throughputs) * weights[:, np.newaxis], busy * weights
    solution = _solve(design, weighted)
    random = np.random.default_rng(seed)
    drawn = (_left_over if designed else _resampled)(design, weighted, solution, random)
    samples, corrected_samples = (
        np.array(each)
        for each in zip(
            *(
                (_solve(*sample), _corrected(*sample)[0])
                for sample in followed(stages, "bootstrap", drawn, BOOTSTRAP_SAMPLES)
            ),
            strict=True,
        )
    )
    corrected, throughput_error = _corrected(design, weighted)
    condition, inflation = _collinearity(throughputs[loaded])
    error = cross_validated(
        "utilisation",
        f"{FOLDS} parts of the points in turn",
        [(np.append(loaded[fitted], unloaded), loaded[out]) for fitted, out in folds(range(points), seed)],
        busy,
        lambda fitted, out: _design(throughputs[out]) @ _solve(design[fitted], weighted[fitted]),
    )
    freedom = max(1, points - len(classes) - 1)
    factor = student_t(0.95, freedom) / 1.96 if designed else widening(points, len(classes) + 1)
    intervals = []
    for index, value in enumerate(solution):
        ends = [
            percentile_interval(value, np.maximum(0.0, around[index] + factor * (each[:, index] - around[index])))
            for around, each in ((solution, samples), (corrected, corrected_samples))
        ]
        intervals.append(
            Interval(estimate=float(value), low=min(end.low for end in ends), high=max(end.high for end in ends))
        )
    return UtilisationLawFit(
        demands_seconds=tuple(intervals[:-1]),
        background_utilisation=intervals[-1],
        condition_number=condition,
        throughput_error=throughput_error,
        inflation_factors=inflation,
        held_out=error,
        warnings=(
            *_warnings(classes, condition, inflation, intervals),
            *_correction(classes, solution, corrected, throughput_error),
        ),
    )


_Samples = Iterator[tuple[FloatArray, FloatArray]]


def _resampled(design: FloatArray, busy: FloatArray, _: FloatArray, random: np.random.Generator) -> _Samples:
    """Samples of the points."""
    for _sample in range(BOOTSTRAP_SAMPLES):
        draw = random.integers(0, len(busy), len(busy))
        yield design[draw], busy[draw]


def _left_over(design: FloatArray, busy: FloatArray, solution: FloatArray, random: np.random.Generator) -> _Samples:
    """The same throughputs, with utilisations that deviate from the fit as they were seen to do (a wild bootstrap).

    A point that deviates little may do so because it alone determines a demand, so none deviates less than all do.
    """
    fitted = design @ solution
    leverage = np.sum(np.linalg.qr(design)[0] ** 2, axis=1)
    pooled = float(np.sqrt(np.sum((busy - fitted) ** 2) / max(1, len(busy) - design.shape[1])))
    own = np.abs(busy - fitted) / (1 - np.minimum(leverage, LEVERAGE_MAX))
    deviations = np.clip(own, pooled, RESIDUAL_MAX * pooled)
    for _sample in range(BOOTSTRAP_SAMPLES):
        yield design, fitted + deviations * random.standard_normal(len(busy))


def _design(throughputs: FloatArray) -> FloatArray:
    return np.column_stack([throughputs, np.ones(len(throughputs))])


def _solve(design: FloatArray, busy: FloatArray) -> FloatArray:
    from scipy.optimize import nnls

    # Columns are scaled to length one, so that the solver's tolerance applies to each alike.
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    solution: FloatArray = nnls(design / scale, busy)[0] / scale
    return solution


def _corrected(design: FloatArray, busy: FloatArray) -> tuple[FloatArray, float]:
    """The solution if the throughputs have proportional errors, and the size of these errors."""
    from scipy.optimize import nnls

    points, count = design.shape
    products, right = design.T @ design, design.T @ busy
    squares = np.append(np.sum(design[:, :-1] ** 2, axis=0), 0.0)
    scale = np.sqrt(np.maximum(np.diag(products), np.finfo(float).tiny))
    solution = _solve(design, busy)
    share = 0.0
    for _ in range(CORRECTION_STEPS):
        scatter = float(np.sum((busy - design @ solution) ** 2)) * points / max(1, points - count)
        work = float(np.sum(squares * solution**2))
        before, share = share, scatter / work if work > 0 else 0.0
        moments = (products - share * np.diag(squares)) / np.outer(scale, scale)
        values, vectors = np.linalg.eigh(moments)
        # Errors as large as the variation of the throughputs leave nothing to fit, so the solution is bounded.
        values = np.maximum(values, 1e-6)
        root = vectors * np.sqrt(values)
        solution = nnls(root.T, (vectors / np.sqrt(values)).T @ (right / scale))[0] / scale
        if abs(share - before) <= 1e-6 * share:
            break
    return solution, float(np.sqrt(share))


def _correction(classes: Sequence[str], solution: FloatArray, corrected: FloatArray, share: float) -> tuple[str, ...]:
    found = []
    for name, plain, other in zip(classes, solution, corrected, strict=False):
        if plain > 0 and abs(other / plain - 1.0) > CORRECTION_MAX:
            found.append(f"{name} {other / plain - 1.0:+.0%}")
    if not found:
        return ()
    return (
        f"If it is the throughputs that scatter (by {share:.0%}) and not the utilisation, the demands are others: "
        f"{', '.join(found)}. The intervals hold both: count the requests in the very intervals of the utilisation.",
    )


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
