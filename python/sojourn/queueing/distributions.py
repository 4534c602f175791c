"""Distributions of sizes and times: exact moments, distribution function, density, quantiles and samples.

Values are non-negative and carry the unit of the caller. Laws are immutable; `affine` and `mixture` make new ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sojourn import _native
from sojourn.queueing.arrays import Array, vector

Density = Callable[[Array], Array]


class Distribution:
    """A distribution of a non-negative quantity; made by the functions of this module."""

    def __init__(self, native: _native.Distribution, name: str, density: Density | None) -> None:
        self.native = native
        self._name = name
        self._density = density

    def __repr__(self) -> str:
        return f"<{self._name}: mean {self.mean:g}, C2 {self.scv:g}>"

    @property
    def mean(self) -> float:
        """E[X]."""
        return self.native.mean

    @property
    def second_moment(self) -> float:
        """E[X²], exact even where a sample's second moment converges slowly."""
        return self.native.second_moment

    @property
    def variance(self) -> float:
        """Var[X]."""
        return self.scv * self.mean**2

    @property
    def scv(self) -> float:
        """C² = Var[X] / E[X]²."""
        return self.native.scv

    def cdf(self, x: ArrayLike) -> Array:
        """P(X ≤ x) for each x."""
        return self.native.cdf(vector(x, "x"))

    def pdf(self, x: ArrayLike) -> Array:
        """The density at each x, 0 below the support.

        Raises:
            ValueError: if the law has atoms (deterministic, empirical) and so no density, or none is known.
        """
        if self._density is None:
            raise ValueError(f"no density is known of a {self._name} law: use cdf")
        return self._density(vector(x, "x"))

    def quantile(self, p: ArrayLike) -> Array:
        """The smallest x with P(X ≤ x) ≥ p for each p.

        Raises:
            ValueError: if a p is not in [0, 1).
        """
        probabilities = vector(p, "p")
        if not bool(np.all((probabilities >= 0) & (probabilities < 1))):
            raise ValueError("every p must be at least 0 and below 1")
        return self.native.quantile(probabilities)

    def sample(self, count: int, seed: int = 1) -> Array:
        """Draws this many independent values; the same seed gives the same values."""
        return self.native.sample(count, seed)

    def affine(self, factor: float, offset: float = 0.0) -> Distribution:
        """The distribution of factor·X + offset, such as the service demand of a random document (thesis, Eq. 2.5).

        Raises:
            ValueError: if either is negative or not finite.
        """
        native, inner = self.native.affine(factor, offset), self._density
        if factor == 0 or inner is None:
            return Distribution(native, f"stretched {self._name}", None)
        return Distribution(native, f"stretched {self._name}", lambda x: inner((x - offset) / factor) / factor)


def deterministic(value: float) -> Distribution:
    """A constant value."""
    return Distribution(_native.Distribution.deterministic(value), "deterministic", None)


def exponential(mean: float) -> Distribution:
    """The memoryless law; C² = 1."""
    native = _native.Distribution.exponential(mean)
    return Distribution(native, "exponential", lambda x: _gamma_density(x, 1, mean))


def erlang(mean: float, stages: int) -> Distribution:
    """A sum of equal exponential stages; C² = 1/stages."""
    native = _native.Distribution.erlang(mean, stages)
    return Distribution(native, "Erlang", lambda x: _gamma_density(x, stages, mean / stages))


def hyper_exponential(mean: float, scv: float) -> Distribution:
    """A choice between two exponentials that each contribute half of the mean; C² = scv ≥ 1."""
    if not (math.isfinite(scv) and scv >= 1):
        raise ValueError(f"scv must be at least 1 for a hyper-exponential law, not {scv}")
    first = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
    means = (mean / (2 * first), mean / (2 * (1 - first)))
    native = _native.Distribution.hyper_exponential(first, means)

    def density(x: Array) -> Array:
        return first * _gamma_density(x, 1, means[0]) + (1 - first) * _gamma_density(x, 1, means[1])

    return Distribution(native, "hyper-exponential", density)


def log_normal(mu: float, sigma: float) -> Distribution:
    """Exp of a normal variable with this mean and standard deviation: the usual distribution of document sizes."""
    native = _native.Distribution.log_normal(mu, sigma)

    def density(x: Array) -> Array:
        positive = np.where(x > 0, x, 1.0)
        exponent = -0.5 * ((np.log(positive) - mu) / sigma) ** 2
        return np.where(x > 0, np.exp(exponent) / (positive * sigma * math.sqrt(2 * math.pi)), 0.0)

    return Distribution(native, "log-normal", density if sigma > 0 else None)


def pareto(shape: float, low: float, high: float) -> Distribution:
    """The bounded Pareto law: P(X > x) falls as x^−shape between low and high."""
    native = _native.Distribution.pareto(shape, low, high)
    mass = -math.expm1(shape * math.log(low / high))

    def density(x: Array) -> Array:
        inside = (x >= low) & (x <= high)
        value = shape / mass * low**shape * np.where(inside, x, low) ** (-shape - 1)
        return np.where(inside, value, 0.0)

    return Distribution(native, "bounded Pareto", density)


def empirical(values: ArrayLike, weights: ArrayLike | None = None) -> Distribution:
    """Measured values with weights; equally likely without weights."""
    native = _native.Distribution.empirical(
        vector(values, "values"), None if weights is None else vector(weights, "weights")
    )
    return Distribution(native, "empirical", None)


def mixture(parts: Sequence[tuple[float, Distribution]]) -> Distribution:
    """A choice among laws: pairs of weight and law; the weights are normalised."""
    native = _native.Distribution.mixture([(weight, law.native) for weight, law in parts])
    densities = [law._density for _, law in parts]
    if any(density is None for density in densities):
        return Distribution(native, "mixture", None)
    total = sum(weight for weight, _ in parts)

    def density(x: Array) -> Array:
        return sum((weight / total * law.pdf(x) for weight, law in parts), np.zeros_like(x))

    return Distribution(native, "mixture", density)


def _gamma_density(x: Array, stages: int, mean: float) -> Array:
    """The density of a sum of exponential stages with equal means, computed by logarithms to avoid overflow."""
    scaled = np.where(x > 0, x, 1.0) / mean
    value = np.exp((stages - 1) * np.log(scaled) - scaled - math.lgamma(stages)) / mean
    at_zero = 1 / mean if stages == 1 else 0.0
    return np.where(x > 0, value, np.where(x == 0, at_zero, 0.0))
