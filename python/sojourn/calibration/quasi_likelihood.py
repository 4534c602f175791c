"""Fits means as a basis times non-negative coefficients, by quasi-likelihood.

The coefficient of variation is constant. The coefficients solve `sum_i w_i b_i (y_i - m_i) / m_i^2 = 0` with
m = basis @ coefficients: the Gamma law's score with an identity link (R. Wedderburn, Biometrika 61, 1974). On average
it is zero at the true mean whatever the law of the scatter. Residuals relative to the measurement would not do: low
measurements would weigh most, and a fit that scatters by half of its value would be a third too low.

Each step is a non-negative least-squares problem in a handful of coefficients, solved over all its faces for a whole
batch of problems at once: knees to choose from, bootstrap samples.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sojourn.calibration.estimate import FloatArray

CAP_DEVIATIONS = 10.0
"""Relative residuals are capped at this number of (robust) standard deviations: an outlier must not bend the curve, and
the tails of skewed scatter must count. The bias is below 1 % at a coefficient of variation of one."""
CAP_MIN = 0.1
MEAN_MIN = 1e-6
"""The smallest mean, relative to a measurement: a smaller one would outweigh all other points."""
STEPS_MAX = 60
STEPS_OF_CAP = 12
"""The cap follows the residuals for this many steps, then stays fixed."""
TOLERANCE = 1e-8
_RIDGE = 1e-12


def solve(basis: FloatArray, values: FloatArray, weights: FloatArray, cap: FloatArray | None = None) -> FloatArray:
    """The coefficients; shape (batch, coefficients).

    Args:
        basis: at least zero; shape (batch, points, coefficients), or (points, coefficients) for one basis of all.
        values: positive; shape (points,).
        weights: how many points each stands for; shape (batch, points).
        cap: of relative residuals; shape (batch,). None: by the residuals themselves.
    """
    products = basis[..., :, None] * basis[..., None, :]
    products = products.reshape(*basis.shape[:-1], -1)
    # Starts with residuals relative to the measurements: biased low, but high outliers have no weight.
    means = np.broadcast_to(values, weights.shape)
    clipped = means
    before: FloatArray | None = None
    limit = np.full(len(weights), np.inf) if cap is None else cap
    for step in range(STEPS_MAX):
        weighed = weights / means**2
        coefficients = _non_negative(_times(weighed, products), _times(weighed * clipped, basis))
        means = np.maximum(_means(basis, coefficients), MEAN_MIN * values)
        if cap is None and step < STEPS_OF_CAP:
            limit = caps(values, means)
        reach = limit[:, None] * means
        clipped = np.clip(values, means - reach, means + reach)
        if before is not None and step >= STEPS_OF_CAP and np.allclose(before, means, rtol=TOLERANCE, atol=0.0):
            break
        before = means
    return coefficients


def caps(values: FloatArray, means: FloatArray) -> FloatArray:
    """The relative residual from which on a point is an outlier; shape (batch,) for means of shape (batch, points)."""
    # The median of a normal law's absolute deviations is 0.6745 of its standard deviation.
    spread = np.median(np.abs(values / means - 1.0), axis=-1) / 0.6745
    limits: FloatArray = np.maximum(CAP_MIN, CAP_DEVIATIONS * spread)
    return limits


def standard_errors(
    basis: FloatArray, values: FloatArray, weights: FloatArray, coefficients: FloatArray, cap: FloatArray
) -> FloatArray:
    """The coefficients' standard errors by the sandwich formula, whatever the law of the scatter.

    Shape (batch, coefficients), as if none of them were held at zero.

    Args:
        basis: of all problems; shape (points, coefficients).
        values: positive; shape (points,).
        weights: how many points each stands for; shape (batch, points).
        coefficients: the solutions; shape (batch, coefficients).
        cap: of relative residuals; shape (batch,).
    """
    means = np.maximum(_means(basis, coefficients), MEAN_MIN * values)
    residuals = np.clip(values / means - 1.0, -cap[:, None], cap[:, None])
    relative = basis / means[:, :, None]
    products = np.einsum("bn,bnk,bnl->bkl", weights, relative, relative)
    scores = np.einsum("bn,bnk,bnl->bkl", weights * residuals**2, relative, relative)
    scale = np.sqrt(np.maximum(np.einsum("bkk->bk", products), np.finfo(float).tiny))
    outer = scale[:, :, None] * scale[:, None, :]
    inverse = np.linalg.inv(products / outer + _RIDGE * np.eye(basis.shape[-1])) / outer
    found: FloatArray = np.sqrt(np.maximum(0.0, np.einsum("bik,bkl,bli->bi", inverse, scores, inverse)))
    return found


def deviances(values: FloatArray, means: FloatArray) -> FloatArray:
    """Unit deviances of the Gamma law, minimal on average at the true mean; shape of `means`."""
    ratio = values / np.maximum(means, MEAN_MIN * values)
    found: FloatArray = 2.0 * (ratio - 1.0 - np.log(ratio))
    return found


def _times(weighed: FloatArray, factors: FloatArray) -> FloatArray:
    """Sums over the points; shape (batch, columns of the factors)."""
    found: FloatArray = weighed @ factors if factors.ndim == 2 else np.einsum("bn,bnk->bk", weighed, factors)
    return found


def _means(basis: FloatArray, coefficients: FloatArray) -> FloatArray:
    if basis.ndim == 2:
        return coefficients @ basis.T
    means: FloatArray = np.einsum("bnk,bk->bn", basis, coefficients)
    return means


def _non_negative(products: FloatArray, right: FloatArray) -> FloatArray:
    """Non-negative least squares by its normal equations: the best feasible solution over all faces."""
    batch, count = right.shape
    products = products.reshape(batch, count, count)
    scale = np.sqrt(np.maximum(np.einsum("bkk->bk", products), np.finfo(float).tiny))
    products = products / (scale[:, :, None] * scale[:, None, :]) + _RIDGE * np.eye(count)
    right = right / scale
    best = np.zeros((batch, count))
    lowest = np.full(batch, np.inf)
    for size in range(1, count + 1):
        for face in combinations(range(count), size):
            inside = np.array(face)
            own: NDArray[np.float64] = right[:, inside]
            found = np.linalg.solve(products[:, inside[:, None], inside], own[:, :, None])[:, :, 0]
            # What remains of the sum of squares: - b' A^-1 b.
            rest = -np.sum(own * found, axis=1)
            better = np.all(found >= 0.0, axis=1) & (rest < lowest)
            lowest[better] = rest[better]
            best[better] = 0.0
            best[np.ix_(better, inside)] = found[better]
    coefficients: FloatArray = best / scale
    return coefficients
