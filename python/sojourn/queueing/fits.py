"""Fits distributions by maximum likelihood, the tail index of the largest values, and the scalability law."""

from __future__ import annotations

from typing import TypedDict

from numpy.typing import ArrayLike

from sojourn import _native
from sojourn.queueing.arrays import vector


class Fit(TypedDict):
    """A fitted law, in the unit of the values."""

    family: str
    parameters: dict[str, float]
    mean: float
    scv: float
    log_likelihood: float
    aic: float
    """Akaike's criterion; smaller is better."""
    kolmogorov_smirnov: float
    """The largest distance between the law and the values' distribution functions."""
    anderson_darling: float
    """The same distance squared, averaged with weights that grow in both tails."""


class ParetoTail(TypedDict):
    """P(X > x) ∝ x^−shape beyond `start` (Hill 1975)."""

    shape: float
    shape_standard_error: float
    start: float
    fraction: float
    kolmogorov_smirnov: float


class Interval(TypedDict):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


class UslFit(TypedDict):
    """X(n) = γ n / (1 + α(n−1) + β n(n−1)), the universal scalability law (Gunther 1993)."""

    gamma: Interval
    """γ: throughput of one job alone, in the unit of the throughputs."""
    alpha: Interval
    """α: contention."""
    beta: Interval
    """β: coherency; if its interval includes 0, the data do not show a falling throughput."""
    peak_load: float | None
    """√((1−α)/β); None if throughput never falls."""
    peak_throughput: float | None
    r_squared: float
    residual_standard_deviation: float


def fit_laws(values: ArrayLike) -> list[Fit]:
    """Fits every family to the values (shape (n,), n ≥ 10, positive), best AIC first.

    Raises:
        ValueError: if there are too few values or one is not positive and finite.
    """
    fits: list[Fit] = _native.fit_laws(vector(values, "values"))  # type: ignore[assignment]
    return fits


def fit_moments(values: ArrayLike) -> Fit:
    """The phase-type law with the mean and squared coefficient of variation of the values: for exact LPS.

    Raises:
        ValueError: if there are too few values, one is not positive and finite, or they vary too little.
    """
    fit: Fit = _native.fit_moments(vector(values, "values"))  # type: ignore[assignment]
    return fit


def fit_tail(values: ArrayLike, fraction: float = 0.05) -> ParetoTail:
    """Fits a power tail to the largest `fraction` of the values.

    Raises:
        ValueError: if fewer than 10 values are in the tail, or the fraction is not between 0 and 1.
    """
    tail: ParetoTail = _native.fit_tail(vector(values, "values"), fraction)  # type: ignore[assignment]
    return tail


def fit_usl(loads: ArrayLike, throughputs: ArrayLike, weights: ArrayLike | None = None) -> UslFit:
    """Fits the universal scalability law by bounded non-linear least squares; no measurement at one job is needed.

    Args:
        loads: jobs, threads or users, shape (n,).
        throughputs: per second, shape (n,).
        weights: 1/variance of each throughput, shape (n,); equal unless given.

    Raises:
        ValueError: if the shapes differ, a value is not positive and finite, or too few loads were measured.
    """
    fit: UslFit = _native.fit_usl(  # type: ignore[assignment]
        vector(loads, "loads"),
        vector(throughputs, "throughputs"),
        None if weights is None else vector(weights, "weights"),
    )
    return fit
