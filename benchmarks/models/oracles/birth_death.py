"""One station with exponential demand: the distribution of the number of jobs by detailed balance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import simpson

from benchmarks.models.oracles import PERCENTILES

PIECES = 400
"""The number of intervals of the numerical integral."""


def probabilities(birth: Callable[[int], float], death: Callable[[int], float], most: int) -> list[float]:
    """Returns the probabilities that n jobs are present, for n from 0 to `most`."""
    weights = [1.0]
    for n in range(most):
        weights.append(weights[-1] * birth(n) / death(n + 1))
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def mm1(rho: float) -> tuple[float, dict[str, float]]:
    """Returns mean and percentiles of the response time of M/M/1, mean demand 1: it is exponential."""
    mean = 1 / (1 - rho)
    return mean, {name: -mean * math.log(1 - p) for name, p in PERCENTILES.items()}


def mmck(rate: float, servers: int, capacity: int) -> tuple[float, float, dict[str, float]]:
    """Loss, mean and percentiles of the response time of accepted jobs: M/M/c/K, mean demand 1, in order of arrival."""
    found = probabilities(lambda _: rate, lambda n: min(n, servers), capacity)
    loss = found[capacity]
    accepted = [p / (1 - loss) for p in found[:capacity]]
    mean = math.fsum(n * p for n, p in enumerate(found)) / (rate * (1 - loss))

    def beyond(t: float) -> float:
        """P(T > t) of accepted jobs: the wait for n - c + 1 departures at rate c, and their own exponential demand."""
        total = []
        for n, p in enumerate(accepted):
            total.append(p * _erlang_and_exponential(t, max(0, n - servers + 1), float(servers)))
        return math.fsum(total)

    return loss, mean, {name: where(beyond, 1 - p) for name, p in PERCENTILES.items()}


def _erlang_and_exponential(t: float, stages: int, rate: float) -> float:
    """P(E + X > t), E of `stages` stages of `rate`, X exponential of mean 1; integrates over X numerically."""
    if stages == 0:
        return math.exp(-t)
    # P(E > t) + ∫₀ᵗ f_E(s) e^{-(t-s)} ds, by Simpson.
    s = np.linspace(0.0, t, PIECES + 1)
    density = rate * np.exp(-rate * s + (stages - 1) * np.log(rate * np.maximum(s, 1e-300)) - math.lgamma(stages))
    tail = math.exp(-rate * t) * math.fsum((rate * t) ** k / math.factorial(k) for k in range(stages))
    return tail + float(simpson(density * np.exp(s - t), x=s))


def where(beyond: Callable[[float], float], p: float) -> float:
    """Returns the time that is exceeded with probability p."""
    low, high = 0.0, 1.0
    while beyond(high) > p:
        high *= 2
    while high - low > 1e-8 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > p else (low, middle)
    return (low + high) / 2
