"""M/G/1 in order of arrival: the compound geometric distribution of the response time by NumPy's FFT.

It rounds demands to the nearest point of a lattice, integrates the residual demand numerically, and takes the demands
from SciPy. Its own error is checked against M/M/1, whose response times are exponential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.models.oracles import PERCENTILES

Array = NDArray[np.float64]
Survival = Callable[[Array], Array]
"""P(demand > t)."""
POINTS = 1 << 16
FINE = 16


def percentiles(survival: Survival, mean: float, rho: float, step: float, points: int = POINTS) -> dict[str, float]:
    """Returns percentiles of the response time, for demands that exceed t with probability survival(t)."""
    # Values within half a step of a lattice point belong to it.
    ends = (np.arange(points, dtype=np.float64) + 0.5) * step
    middles = (np.arange(points * FINE, dtype=np.float64) + 0.5) * step / FINE
    beyond = survival(middles).reshape(points, FINE)
    # The integral of the survival function up to each of `ends`, which lie in the middle of a step's fine cells.
    area = np.cumsum(beyond.ravel())[FINE // 2 - 1 :: FINE] * step / FINE
    residual = -np.diff(np.concatenate([[1.0], 1 - area / mean]))
    demand = -np.diff(np.concatenate([[1.0], survival(ends)]))
    # On a circle inside the unit disc, so that probability beyond the lattice does not fold back (aliasing).
    inside = np.exp(-20.0 * np.arange(points) / (2 * points))
    residual_values = np.fft.rfft(residual * inside, 2 * points)
    demand_values = np.fft.rfft(demand * inside, 2 * points)
    response = np.fft.irfft(demand_values * (1 - rho) / (1 - rho * residual_values), 2 * points)[:points] / inside
    reached = np.maximum.accumulate(np.cumsum(response))
    if reached[-1] <= 0.9995:
        raise ValueError(f"the lattice ends at the {reached[-1]} quantile")
    return {name: float(np.interp(p, reached, ends)) for name, p in PERCENTILES.items()}


def log_normal_survival(scv: float) -> Survival:
    """Returns the survival function of a log-normal demand of mean 1."""
    sigma = np.sqrt(np.log1p(scv))
    return lambda t: stats.lognorm.sf(t, sigma, scale=np.exp(-(sigma**2) / 2))


def pareto_survival(shape: float, largest: float) -> tuple[Survival, float]:
    """Returns the survival function of a bounded Pareto demand with minimum 1, and its mean."""
    mass = 1 - largest**-shape
    mean = shape / mass * (largest ** (1 - shape) - 1) / (1 - shape)
    return lambda t: np.clip(1 - (1 - np.maximum(t, 1.0) ** -shape) / mass, 0, 1), mean


def values_survival(values: Sequence[float], weights: Sequence[float]) -> tuple[Survival, float]:
    """Returns the survival function of a demand with a few values, and its mean."""
    shares, of = np.array(weights) / sum(weights), np.array(values)
    return lambda t: (shares * (of > t[:, None])).sum(axis=1), float(shares @ of)


def pareto_second_moment(shape: float, largest: float) -> float:
    """Returns the second moment of a bounded Pareto demand with minimum 1."""
    return float(shape / (1 - largest**-shape) * (largest ** (2 - shape) - 1) / (2 - shape))


def pollaczek_khinchine(rho: float, mean: float, scv: float) -> float:
    """Returns the mean response time."""
    return mean + rho / (1 - rho) * mean * (1 + scv) / 2


def log_normal(scv: float, rho: float) -> dict[str, float]:
    """Returns mean and percentiles of the response time, mean demand 1."""
    step = 0.02
    found = percentiles(log_normal_survival(scv), 1.0, rho, step)
    return {"mean": pollaczek_khinchine(rho, 1.0, scv)} | found


def pareto(shape: float, largest: float, rho: float) -> dict[str, float]:
    """Returns mean and percentiles of the response time; the smallest demand is 1."""
    survival, mean = pareto_survival(shape, largest)
    second = pareto_second_moment(shape, largest)
    found = percentiles(survival, mean, rho, 0.1, 1 << 20)
    return {"mean": pollaczek_khinchine(rho, mean, second / mean**2 - 1)} | found
