"""Laws fitted to measured values by maximum likelihood, and the tail index of the largest."""

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
    """Akaike's criterion: the smallest wins."""
    kolmogorov_smirnov: float
    """The largest distance between the law and the values' distribution functions."""


class ParetoTail(TypedDict):
    """P(X > x) ∝ x^−shape beyond `start` (Hill 1975)."""

    shape: float
    shape_standard_error: float
    start: float
    fraction: float
    kolmogorov_smirnov: float


def fit_laws(values: ArrayLike) -> list[Fit]:
    """Fits every family to the values (shape (n,), n ≥ 10, positive), the best by AIC first.

    Raises:
        ValueError: if there are too few values or one is not positive and finite.
    """
    fits: list[Fit] = _native.fit_laws(vector(values, "values"))  # type: ignore[assignment]
    return fits


def fit_tail(values: ArrayLike, fraction: float = 0.05) -> ParetoTail:
    """Fits a power tail to the largest `fraction` of the values.

    Raises:
        ValueError: if fewer than 10 values are in the tail, or the fraction is not between 0 and 1.
    """
    tail: ParetoTail = _native.fit_tail(vector(values, "values"), fraction)  # type: ignore[assignment]
    return tail
