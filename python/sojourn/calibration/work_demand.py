"""Work demand g(x): seconds of the server for a document of x bytes, from demands measured at several sizes.

g is continuous and piecewise linear: a fixed part and a slope per piece, all at least zero, so that it is positive
and never falls. Huber regression on relative residuals finds them. A knee is taken up only where it lowers the error
on sizes that were held out by more than that error's own standard error; demands that do not bend give a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import least_squares
from scipy.special import huber
from scipy.stats import spearmanr

from sojourn.calibration.estimate import (
    BOOTSTRAP_SAMPLES,
    FloatArray,
    HeldOut,
    folds,
    held_out,
    percentile_interval,
)
from sojourn.results.records import Interval

PIECES_MAX = 3
HUBER_RELATIVE = 0.1
"""Relative residuals beyond it count linearly: an outlier must not bend the curve."""
SIZES_PER_PIECE_MIN = 2
FALLING_MAX = -0.1
"""A rank correlation of demand and size below it says that g falls."""


@dataclass(frozen=True)
class Piece:
    """`fixed_seconds + seconds_per_byte * x` for sizes below `below_bytes` and not below the piece before."""

    below_bytes: float
    fixed_seconds: float
    seconds_per_byte: float


@dataclass(frozen=True)
class WorkDemand:
    """g: `fixed_seconds` at size zero, then a slope per piece; one knee fewer than slopes."""

    fixed_seconds: float
    seconds_per_byte: tuple[float, ...]
    knees_bytes: tuple[float, ...] = ()

    def __call__(self, sizes_bytes: FloatArray) -> FloatArray:
        """Seconds for each size; same shape."""
        seconds: FloatArray = _basis(sizes_bytes, self.knees_bytes) @ [self.fixed_seconds, *self.seconds_per_byte]
        return seconds

    def pieces(self) -> list[Piece]:
        """The pieces as a system file writes them: each by the line that it lies on."""
        ends = [*self.knees_bytes, np.inf]
        fixed, pieces = self.fixed_seconds, []
        for index, (end, slope) in enumerate(zip(ends, self.seconds_per_byte, strict=True)):
            if index > 0:
                fixed += (self.seconds_per_byte[index - 1] - slope) * ends[index - 1]
            pieces.append(Piece(float(end), fixed, slope))
        return pieces


@dataclass(frozen=True)
class WorkDemandFit:
    """g with its intervals and its error on sizes that were held out."""

    demand: WorkDemand
    fixed_seconds: Interval
    seconds_per_byte: tuple[Interval, ...]
    relative_error_median: float
    """Over the fitted points; see `held_out` for how well g predicts."""
    held_out: HeldOut | None
    """None for fewer than three sizes."""
    warnings: tuple[str, ...]


def fit(sizes_bytes: FloatArray, demands: FloatArray, seed: int, pieces_max: int = PIECES_MAX) -> WorkDemandFit:
    """Fits g; the intervals are percentile bootstrap over points (`BOOTSTRAP_SAMPLES` draws), the knees fixed.

    Args:
        sizes_bytes: document sizes, at least two distinct; shape (points,).
        demands: seconds per request, positive; shape (points,).
        seed: of the folds and the bootstrap.
        pieces_max: 1 gives the line g(x) = a x + b.
    """
    knees, error = _chosen_knees(sizes_bytes, demands, seed, pieces_max)
    demand = _huber(sizes_bytes, demands, knees)
    random = np.random.default_rng(seed)
    samples = np.array([_resampled(sizes_bytes, demands, knees, random) for _ in range(BOOTSTRAP_SAMPLES)])
    return WorkDemandFit(
        demand=demand,
        fixed_seconds=percentile_interval(demand.fixed_seconds, samples[:, 0]),
        seconds_per_byte=tuple(
            percentile_interval(slope, samples[:, 1 + index]) for index, slope in enumerate(demand.seconds_per_byte)
        ),
        relative_error_median=float(np.median(np.abs(demand(sizes_bytes) / demands - 1.0))),
        held_out=error,
        warnings=_falling(sizes_bytes, demands),
    )


def _chosen_knees(
    sizes: FloatArray, demands: FloatArray, seed: int, pieces_max: int
) -> tuple[tuple[float, ...], HeldOut | None]:
    distinct = np.unique(sizes)
    if len(distinct) < 3:
        return (), None
    method = "each size in turn" if len(distinct) <= 10 else "sizes in ten parts"
    splits = folds([float(size) for size in sizes], seed, 10)
    chosen: tuple[tuple[float, ...], FloatArray] | None = None
    for pieces in range(1, min(pieces_max, len(distinct) // SIZES_PER_PIECE_MIN) + 1):
        parts = []
        for fitted, out in splits:
            knees = _best_knees(sizes[fitted], demands[fitted], pieces)
            parts.append(np.abs(_huber(sizes[fitted], demands[fitted], knees)(sizes[out]) / demands[out] - 1.0))
        errors = np.concatenate(parts)
        spread = float(errors.std()) / np.sqrt(len(errors))
        if chosen is None or errors.mean() + spread < chosen[1].mean():
            chosen = _best_knees(sizes, demands, pieces), errors
    assert chosen is not None
    return chosen[0], held_out("demand", method, chosen[1])


def _best_knees(sizes: FloatArray, demands: FloatArray, pieces: int) -> tuple[float, ...]:
    # Knees lie between neighbouring sizes, at their geometric mean: the sizes span decades.
    distinct = np.unique(sizes)
    places = [float(place) for place in np.sqrt(np.maximum(distinct[:-1], 1.0) * distinct[1:])]
    candidates = [
        knees
        for knees in combinations(places, pieces - 1)
        if all(np.sum((distinct > low) & (distinct < high)) >= SIZES_PER_PIECE_MIN for low, high in _spans(knees))
    ]
    return min(candidates, key=lambda knees: _misfit(sizes, demands, knees), default=())


def _spans(knees: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip([-np.inf, *knees], [*knees, np.inf], strict=True))


def _misfit(sizes: FloatArray, demands: FloatArray, knees: tuple[float, ...]) -> float:
    relative = np.abs(_huber(sizes, demands, knees)(sizes) / demands - 1.0)
    return float(np.sum(huber(HUBER_RELATIVE, relative)))


def _basis(sizes: FloatArray, knees: tuple[float, ...]) -> FloatArray:
    # A column for the fixed part, then per piece how many bytes of the document fall into it: non-negative
    # coefficients make exactly the positive non-decreasing functions with these knees.
    columns = [np.ones_like(sizes)]
    columns += [np.clip(sizes, low, high) - low for low, high in zip([0.0, *knees], [*knees, np.inf], strict=True)]
    return np.stack(columns, axis=-1)


def _huber(sizes: FloatArray, demands: FloatArray, knees: tuple[float, ...]) -> WorkDemand:
    basis = _basis(sizes, knees)

    # Relative residuals: demands span three decades, and the small documents are the many.
    def residuals(coefficients: FloatArray) -> FloatArray:
        relative: FloatArray = basis @ coefficients / demands - 1.0
        return relative

    def jacobian(_: FloatArray) -> FloatArray:
        return basis / demands[:, None]

    start = np.array([demands.min(), *[demands.max() / sizes.max()] * (len(knees) + 1)])
    found = least_squares(
        residuals,
        start,
        jac=jacobian,
        bounds=(0.0, np.inf),
        x_scale=start,
        loss="huber",
        f_scale=HUBER_RELATIVE,
        xtol=1e-12,
        ftol=1e-12,
    )
    return WorkDemand(float(found.x[0]), tuple(map(float, found.x[1:])), knees)


def _resampled(
    sizes: FloatArray, demands: FloatArray, knees: tuple[float, ...], random: np.random.Generator
) -> tuple[float, ...]:
    while True:
        chosen = random.integers(0, len(sizes), len(sizes))
        distinct = np.unique(sizes[chosen])
        if len(distinct) > 1 and all(np.any((distinct > low) & (distinct < high)) for low, high in _spans(knees)):
            resampled = _huber(sizes[chosen], demands[chosen], knees)
            return resampled.fixed_seconds, *resampled.seconds_per_byte


def _falling(sizes: FloatArray, demands: FloatArray) -> tuple[str, ...]:
    correlation = float(spearmanr(sizes, demands).statistic)
    if correlation > FALLING_MAX:
        return ()
    return (
        f"Larger documents needed less work (rank correlation {correlation:.2f}): g was kept from falling; "
        "look for what else differs between the sizes.",
    )
