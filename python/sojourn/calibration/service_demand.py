"""Fits the service demand g(x), in server seconds for a document of x bytes, to demands at several sizes.

g is continuous and piecewise linear: a fixed part and a slope per piece, all at least zero, so that it is positive and
never falls. It is the mean of the demands at each size, by quasi-likelihood (see `quasi_likelihood`), however they
scatter. A knee is added only if it lowers the deviance of sizes that were held out by more than its own standard
error; demands without a bend give a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sojourn.calibration import quasi_likelihood
from sojourn.calibration.estimate import (
    BOOTSTRAP_SAMPLES,
    FloatArray,
    HeldOut,
    folds,
    held_out,
    percentile_interval,
    widening,
)
from sojourn.calibration.stages import UNSEEN, Stages, followed
from sojourn.results.records import Interval

PIECES_MAX = 3
POINTS_MAX = 2_000
"""With more points, neighbours in size are merged."""
GROUPS_MAX = 60
"""The number of size groups between which knees are sought."""
KNEES_MAX = 20
"""The number of candidate places for knees."""
SCATTER_MAX = 0.2
"""A larger coefficient of variation of the points around g causes a warning."""
SIZES_PER_PIECE_MIN = 2
STUDENTISED_POINTS_MIN = 12
"""From fewer points, samples have too few distinct ones for standard errors of their own."""
FALLING_MAX = -0.1
"""A rank correlation of demand and size below this indicates a falling g."""


@dataclass(frozen=True)
class Piece:
    """A line `fixed_seconds + seconds_per_byte * x`, for sizes below `below_bytes` and not below the previous piece."""

    below_bytes: float
    fixed_seconds: float
    seconds_per_byte: float


@dataclass(frozen=True)
class ServiceDemand:
    """g: `fixed_seconds` at size zero, then a slope per piece; one knee fewer than slopes."""

    fixed_seconds: float
    seconds_per_byte: tuple[float, ...]
    knees_bytes: tuple[float, ...] = ()

    def __call__(self, sizes_bytes: FloatArray) -> FloatArray:
        """Seconds for each size; same shape."""
        seconds: FloatArray = _basis(sizes_bytes, self.knees_bytes) @ [self.fixed_seconds, *self.seconds_per_byte]
        return seconds

    def pieces(self) -> list[Piece]:
        """The pieces of a system file, each as a line through its own intercept."""
        ends = [*self.knees_bytes, np.inf]
        fixed, pieces = self.fixed_seconds, []
        for index, (end, slope) in enumerate(zip(ends, self.seconds_per_byte, strict=True)):
            if index > 0:
                fixed += (self.seconds_per_byte[index - 1] - slope) * ends[index - 1]
            pieces.append(Piece(float(end), fixed, slope))
        return pieces


@dataclass(frozen=True)
class ServiceDemandFit:
    """g with its intervals and its error at held-out sizes."""

    demand: ServiceDemand
    fixed_seconds: Interval
    seconds_per_byte: tuple[Interval, ...]
    relative_error_median: float
    """The median over the fitted points; `held_out` tells how well g predicts."""
    scatter: float
    """The coefficient of variation of a point around g."""
    held_out: HeldOut | None
    """None for fewer than three sizes."""
    warnings: tuple[str, ...]


def fit(
    sizes_bytes: FloatArray, demands: FloatArray, seed: int, pieces_max: int = PIECES_MAX, stages: Stages = UNSEEN
) -> ServiceDemandFit:
    """Fits g; its intervals are bootstrap over points, the upper ends studentised, the knees fixed.

    Args:
        sizes_bytes: document sizes, at least two distinct; shape (points,).
        demands: seconds per request, positive; shape (points,).
        seed: of the folds and the bootstrap.
        pieces_max: 1 gives the line g(x) = a x + b.
        stages: shows how far it is.
    """
    sizes, values = _merged(sizes_bytes, demands, POINTS_MAX)
    knees, error = _chosen_knees(sizes, values, seed, pieces_max, stages)
    demand = _solved(sizes, values, knees)
    stages.begin("bootstrap")
    fixed, *slopes = _intervals(sizes, values, demand, seed)
    means = demand(sizes)
    cap = float(quasi_likelihood.caps(values, means[None, :])[0])
    residuals = np.clip(values / means - 1.0, -cap, cap)
    freedom = max(1, len(sizes) - 1 - len(slopes))
    scatter = float(np.sqrt(np.sum(residuals**2) / freedom))
    return ServiceDemandFit(
        demand=demand,
        fixed_seconds=fixed,
        seconds_per_byte=tuple(slopes),
        relative_error_median=float(np.median(np.abs(means / values - 1.0))),
        scatter=scatter,
        held_out=error,
        warnings=(*_falling(sizes, values), *_scattered(values / means - 1.0, cap, scatter)),
    )


def _merged(sizes: FloatArray, demands: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """The points, or means of neighbours in size if there are more than `most`."""
    if len(sizes) <= most:
        return sizes, demands
    order = np.argsort(sizes, kind="stable")
    parts = np.array_split(order, most)
    return np.array([sizes[part].mean() for part in parts]), np.array([demands[part].mean() for part in parts])


def _chosen_knees(
    sizes: FloatArray, demands: FloatArray, seed: int, pieces_max: int, stages: Stages
) -> tuple[tuple[float, ...], HeldOut | None]:
    distinct = np.unique(sizes)
    if len(distinct) < 3:
        return (), None
    method = "each size in turn" if len(distinct) <= 10 else "sizes in ten parts"
    splits = folds([float(size) for size in sizes], seed, 10)
    chosen: tuple[tuple[float, ...], FloatArray, FloatArray] | None = None
    pieces_max = min(pieces_max, len(distinct) // SIZES_PER_PIECE_MIN)
    for pieces in range(1, pieces_max + 1):
        measured, predicted = [], []
        for fitted, out in followed(stages, f"{pieces} of {pieces_max} pieces", splits, len(splits)):
            knees = _best_knees(sizes[fitted], demands[fitted], pieces)
            measured.append(demands[out])
            predicted.append(_solved(sizes[fitted], demands[fitted], knees)(sizes[out]))
        # Square roots, so that one outlying size does not hide the others.
        deviances = np.sqrt(quasi_likelihood.deviances(np.concatenate(measured), np.concatenate(predicted)))
        spread = float(deviances.std()) / np.sqrt(len(deviances))
        if chosen is None or deviances.mean() + spread < chosen[1].mean():
            errors = np.abs(np.concatenate(predicted) / np.concatenate(measured) - 1.0)
            chosen = _best_knees(sizes, demands, pieces), deviances, errors
    assert chosen is not None
    return chosen[0], held_out("demand", method, chosen[2])


def _best_knees(sizes: FloatArray, demands: FloatArray, pieces: int) -> tuple[float, ...]:
    if pieces == 1:
        return ()
    distinct, values, counts = _groups(sizes, demands)
    # Knees lie between neighbouring sizes, at their geometric mean: the sizes span decades.
    places = np.sqrt(np.maximum(distinct[:-1], 1.0) * distinct[1:])
    places = places[np.unique(np.linspace(0, len(places) - 1, KNEES_MAX).round().astype(int))]
    candidates = [
        knees
        for knees in combinations(map(float, places), pieces - 1)
        if all(np.sum((distinct > low) & (distinct < high)) >= SIZES_PER_PIECE_MIN for low, high in _spans(knees))
    ]
    if not candidates:
        return ()
    bases = np.stack([_basis(distinct, knees) for knees in candidates])
    weights = np.broadcast_to(counts, (len(candidates), len(counts)))
    coefficients = quasi_likelihood.solve(bases, values, weights)
    means = np.einsum("bnk,bk->bn", bases, coefficients)
    misfit = np.sqrt(quasi_likelihood.deviances(values, means)) @ counts
    return candidates[int(np.argmin(misfit))]


def _groups(sizes: FloatArray, demands: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sizes or groups of neighbouring sizes, with their mean demands and numbers of points."""
    distinct, place = np.unique(sizes, return_inverse=True)
    group = np.minimum(place * min(GROUPS_MAX, len(distinct)) // len(distinct), GROUPS_MAX - 1)
    counts = np.bincount(group).astype(float)
    return np.bincount(group, sizes) / counts, np.bincount(group, demands) / counts, counts


def _spans(knees: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip([-np.inf, *knees], [*knees, np.inf], strict=True))


def _basis(sizes: FloatArray, knees: tuple[float, ...]) -> FloatArray:
    # One column for the fixed part, then one per piece with the bytes of the document that fall into it: non-negative
    # coefficients make exactly the positive non-decreasing functions with these knees.
    columns = [np.ones_like(sizes)]
    columns += [np.clip(sizes, low, high) - low for low, high in zip([0.0, *knees], [*knees, np.inf], strict=True)]
    return np.stack(columns, axis=-1)


def _solved(sizes: FloatArray, demands: FloatArray, knees: tuple[float, ...]) -> ServiceDemand:
    fixed, *slopes = quasi_likelihood.solve(_basis(sizes, knees), demands, np.ones((1, len(sizes))))[0]
    return ServiceDemand(float(fixed), tuple(map(float, slopes)), knees)


def _intervals(sizes: FloatArray, demands: FloatArray, demand: ServiceDemand, seed: int) -> list[Interval]:
    """Intervals of the fixed part and of each slope."""
    basis = _basis(sizes, demand.knees_bytes)
    coefficients = np.array([demand.fixed_seconds, *demand.seconds_per_byte])
    points, count = basis.shape
    draws = _draws(sizes, demand.knees_bytes, np.random.default_rng(seed))
    cap = np.repeat(quasi_likelihood.caps(demands, demand(sizes)[None, :]), len(draws))
    drawn = quasi_likelihood.solve(basis, demands, draws, cap)
    # Upwards in proportion: estimates from skewed scatter are most precise when too low.
    factor = widening(points, count)
    below = np.maximum(0.0, coefficients + (drawn - coefficients) * factor)
    above = drawn * (drawn / np.where(coefficients > 0, coefficients, np.inf)) ** (factor - 1.0)
    samples = np.where((drawn > coefficients) & (coefficients > 0), above, below)
    found = [percentile_interval(value, samples[:, index]) for index, value in enumerate(coefficients)]
    if points < STUDENTISED_POINTS_MIN:
        return found
    highest = _studentised_highs(basis, demands, coefficients, draws, drawn, cap)
    return [each.model_copy(update={"high": max(each.high, high)}) for each, high in zip(found, highest, strict=True)]


def _studentised_highs(
    basis: FloatArray,
    demands: FloatArray,
    coefficients: FloatArray,
    draws: FloatArray,
    samples: FloatArray,
    cap: FloatArray,
) -> list[float]:
    """The upper ends of 95 % intervals by the bootstrap-t (B. Efron, R. Tibshirani, 1993, 12.5).

    Where the scatter is skewed, the rare high demands are missing from just the measurements with too low an estimate,
    and so is their spread: the estimates of samples then lie farther below in units of their own standard errors.
    """
    everything = np.ones((1, len(demands)))
    error = quasi_likelihood.standard_errors(basis, demands, everything, coefficients[None, :], cap[:1])[0]
    errors = quasi_likelihood.standard_errors(basis, demands, draws, samples, cap)
    highs = []
    for index, value in enumerate(coefficients):
        known = errors[:, index] > 0
        if value <= 0 or not known.any():
            highs.append(-np.inf)
            continue
        distances = (samples[known, index] - value) / errors[known, index]
        highs.append(float(value - np.quantile(distances, 0.025) * error[index]))
    return highs


def _draws(sizes: FloatArray, knees: tuple[float, ...], random: np.random.Generator) -> FloatArray:
    """How often each point occurs in each sample; every piece keeps points, and there are two sizes."""
    found: list[FloatArray] = []
    while len(found) < BOOTSTRAP_SAMPLES:
        counts = random.multinomial(len(sizes), np.full(len(sizes), 1.0 / len(sizes))).astype(float)
        distinct = np.unique(sizes[counts > 0])
        if len(distinct) > 1 and all(np.any((distinct > low) & (distinct < high)) for low, high in _spans(knees)):
            found.append(counts)
    return np.array(found)


def _ranks(values: FloatArray) -> FloatArray:
    """The values' ranks, the mean of them where values are equal, as Spearman's correlation has them."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _falling(sizes: FloatArray, demands: FloatArray) -> tuple[str, ...]:
    if demands.min() == demands.max():
        return ()
    correlation = float(np.corrcoef(_ranks(sizes), _ranks(demands))[0, 1])
    if correlation > FALLING_MAX:
        return ()
    return (
        f"Larger documents needed less work (rank correlation {correlation:.2f}): g was constrained not to fall; "
        "look for what else differs between the sizes.",
    )


def _scattered(residuals: FloatArray, cap: float, scatter: float) -> tuple[str, ...]:
    outliers = int(np.sum(np.abs(residuals) > cap))
    warnings = []
    if outliers:
        warnings.append(
            f"{outliers} of {len(residuals)} demands lie far from the others and got less weight in the fit of g: "
            "check how they were measured."
        )
    if scatter > SCATTER_MAX:
        warnings.append(
            f"The demands scatter by {scatter:.0%} around g (coefficient of variation of a point): g is their mean at "
            "each size, no request's own demand; a system file with it has no such scatter in its service times."
        )
    return tuple(warnings)
