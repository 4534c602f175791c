"""Throughput against clients: X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), the universal scalability law.

Bounded non-linear least squares on X itself, with relative residuals (Gunther's transform N/C - 1 magnifies noise and
needs a point at N = 1, which this does not). alpha is contention, beta coherency; beta above zero makes a peak at
N* = sqrt((1 - alpha) / beta), and an interval of beta that holds zero says that no peak was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from sojourn.calibration.estimate import (
    BOOTSTRAP_SAMPLES,
    FloatArray,
    HeldOut,
    cross_validated,
    folds,
    percentile_interval,
)
from sojourn.failure import CouldNotRun
from sojourn.summary import Interval

LEVELS_MIN = 4
"""Three coefficients need more levels than themselves for an error."""


@dataclass(frozen=True)
class ScalabilityFit:
    """The law's coefficients and its peak."""

    gamma_per_second: Interval
    """Throughput of one client."""
    alpha: Interval
    beta: Interval
    peak_clients: float | None
    """N*; None without a peak."""
    peak_per_second: float | None
    held_out: HeldOut
    warnings: tuple[str, ...]


def fit(clients: FloatArray, throughputs: FloatArray, seed: int) -> ScalabilityFit:
    """Fits the law; intervals are percentile bootstrap over points (`BOOTSTRAP_SAMPLES` draws).

    Args:
        clients: N at each point, one or more; shape (points,).
        throughputs: requests/s; shape (points,).
        seed: of the folds and the bootstrap.
    """
    levels = len(np.unique(clients))
    if levels < LEVELS_MIN:
        raise CouldNotRun(
            f"{levels} levels of clients are too few for the scalability law: at least {LEVELS_MIN} are needed",
            "measure with more numbers of clients, some beyond the peak",
        )
    gamma, alpha, beta = _solve(clients, throughputs)
    random = np.random.default_rng(seed)
    samples = np.array([_resampled(clients, throughputs, random) for _ in range(BOOTSTRAP_SAMPLES)])
    intervals = [percentile_interval(value, samples[:, index]) for index, value in enumerate((gamma, alpha, beta))]
    error = cross_validated(
        "throughput",
        "each number of clients in turn" if levels <= 10 else "numbers of clients in ten parts",
        folds([float(each) for each in clients], seed, 10),
        throughputs,
        lambda fitted, out: throughput(clients[out], *_solve(clients[fitted], throughputs[fitted])),
    )
    has_peak = beta > 0 and alpha < 1
    peak = float(np.sqrt((1 - alpha) / beta)) if has_peak else None
    return ScalabilityFit(
        gamma_per_second=intervals[0],
        alpha=intervals[1],
        beta=intervals[2],
        peak_clients=peak,
        peak_per_second=None if peak is None else float(throughput(np.array([peak]), gamma, alpha, beta)[0]),
        held_out=error,
        warnings=_warnings(intervals[2], peak, float(clients.max())),
    )


def throughput(clients: FloatArray, gamma: float, alpha: float, beta: float) -> FloatArray:
    """X(N) in requests/s; shape of `clients`."""
    return gamma * clients / (1 + alpha * (clients - 1) + beta * clients * (clients - 1))


def _solve(clients: FloatArray, throughputs: FloatArray) -> tuple[float, float, float]:
    def residuals(coefficients: FloatArray) -> FloatArray:
        return throughput(clients, *coefficients) / throughputs - 1.0

    # Little's law bounds the throughput of one client from below by every X(N) / N.
    start = np.array([float(np.max(throughputs / clients)), 0.01, 1e-4])
    found = least_squares(residuals, start, bounds=([0, 0, 0], [np.inf, 1, np.inf]), x_scale=start, xtol=1e-12)
    gamma, alpha, beta = map(float, found.x)
    # The solver stays inside its bounds: what it leaves next to zero is zero.
    return gamma, alpha if alpha > 1e-9 else 0.0, beta if beta > 1e-12 else 0.0


def _resampled(clients: FloatArray, throughputs: FloatArray, random: np.random.Generator) -> tuple[float, float, float]:
    while True:
        chosen = random.integers(0, len(clients), len(clients))
        if len(np.unique(clients[chosen])) >= LEVELS_MIN - 1:
            return _solve(clients[chosen], throughputs[chosen])


def _warnings(beta: Interval, peak: float | None, most: float) -> tuple[str, ...]:
    if beta.low <= 0:
        return ("The interval of beta holds zero: the measurements show no peak.",)
    if peak is not None and peak > most:
        return (f"The peak at {peak:.0f} clients lies beyond the {most:.0f} measured: it is an extrapolation.",)
    return ()
