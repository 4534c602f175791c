"""FIFO percentiles beside a program that shares nothing with them: the compound geometric by NumPy's FFT.

The oracle rounds to the nearest point of its lattice instead of down and up, integrates the residual demand
numerically, and takes the demands from SciPy. Its own error is checked against M/M/1, whose response times are
exponential.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sojourn import queueing
from sojourn.queueing.results import SolverAnswer

Array = NDArray[np.float64]
Survival = Callable[[Array], Array]
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def oracle(survival: Survival, mean: float, rho: float, step: float, points: int) -> dict[str, float]:
    """Percentiles of the M/G/1 FIFO response time, of demands that exceed t with probability survival(t)."""
    # Values within half a step of a point belong to it.
    ends = (np.arange(points, dtype=np.float64) + 0.5) * step
    fine = 16
    middles = (np.arange(points * fine, dtype=np.float64) + 0.5) * step / fine
    beyond = survival(middles).reshape(points, fine)
    # ∫ of the survival function up to each end, which lies in the middle of the fine cells of a step.
    area = np.cumsum(beyond.ravel())[fine // 2 - 1 :: fine] * step / fine
    residual = -np.diff(np.concatenate([[1.0], 1 - area / mean]))
    demand = -np.diff(np.concatenate([[1.0], survival(ends)]))
    # On a circle inside the unit disc, so that what lies beyond the lattice does not fold back.
    inside = np.exp(-20.0 * np.arange(points) / (2 * points))
    residual_values, demand_values = (
        np.fft.rfft(residual * inside, 2 * points),
        np.fft.rfft(demand * inside, 2 * points),
    )
    response = np.fft.irfft(demand_values * (1 - rho) / (1 - rho * residual_values), 2 * points)[:points] / inside
    reached = np.maximum.accumulate(np.cumsum(response))
    assert reached[-1] > 0.9995
    return {name: float(np.interp(p, reached, ends)) for name, p in PERCENTILES.items()}


def log_normal(scv: float) -> Survival:
    sigma = np.sqrt(np.log1p(scv))
    return lambda t: stats.lognorm.sf(t, sigma, scale=np.exp(-(sigma**2) / 2))


def pareto(shape: float, largest: float) -> tuple[Survival, float]:
    mass = 1 - largest**-shape
    mean = shape / mass * (largest ** (1 - shape) - 1) / (1 - shape)
    return lambda t: np.clip(1 - (1 - np.maximum(t, 1.0) ** -shape) / mass, 0, 1), mean


def values(of: list[float], weights: list[float]) -> tuple[Survival, float]:
    shares = np.array(weights) / sum(weights)
    beyond = np.array(of)
    return lambda t: (shares * (beyond > t[:, None])).sum(axis=1), float(shares @ beyond)


@dataclass(frozen=True)
class Case:
    name: str
    demand: str
    survival: Survival
    mean: float
    rho: float
    step: float
    """Of the oracle, in mean demands; atoms lie in the middle of its cells."""
    within: float = 2e-3


PARETO, PARETO_MEAN = pareto(1.95, 428.0)
HEAVY, HEAVY_MEAN = pareto(1.5, 1000.0)
FOUR, FOUR_MEAN = values([1, 2, 5, 20], [50, 30, 15, 5])
EVEN, EVEN_MEAN = values([2, 3, 5, 7], [1, 1, 1, 1])
ONE, _ = values([1], [1])
THESIS_SIZES = stats.lognorm(1.573, scale=np.exp(7.811))
THESIS_MEAN = 21.55 + 0.4851e-3 * np.exp(7.811 + 1.573**2 / 2)
CASES = [
    Case("log-normal 12.3", '{ law = "log-normal", mean = "1s", scv = 12.3 }', log_normal(12.3), 1, 0.897, 0.02),
    Case("log-normal 6.2", '{ law = "log-normal", mean = "1s", scv = 6.2 }', log_normal(6.2), 1, 0.69, 0.02),
    Case("log-normal 20", '{ law = "log-normal", mean = "1s", scv = 20 }', log_normal(20), 1, 0.7, 0.02),
    Case("Pareto 1.95", '{ law = "pareto", shape = 1.95, min = "1s", max = "428s" }', PARETO, PARETO_MEAN, 0.91, 0.02),
    Case("Pareto 1.5", '{ law = "pareto", shape = 1.5, min = "1s", max = "1000s" }', HEAVY, HEAVY_MEAN, 0.7, 0.02),
    Case(
        "four values",
        '{ law = "empirical", values = ["1s", "2s", "5s", "20s"], weights = [50, 30, 15, 5] }',
        FOUR,
        FOUR_MEAN,
        0.315,
        1 / 64 / FOUR_MEAN,
        # The oracle spreads an atom over its cell.
        1e-2,
    ),
    Case(
        "four near values",
        '{ law = "empirical", values = ["2s", "3s", "5s", "7s"] }',
        EVEN,
        EVEN_MEAN,
        0.315,
        1 / 64 / EVEN_MEAN,
        1e-2,
    ),
    Case("constant", '"1s"', ONE, 1, 0.8, 1 / 256, 5e-3),
    Case("exponential", '{ law = "exponential", mean = "1s" }', lambda t: np.exp(-t), 1, 0.9, 0.01),
    Case(
        "thesis's web server",
        '{ fixed = "21.55s", per_byte = "485.1us/B" }',
        lambda t: np.where(t < 21.55, 1.0, THESIS_SIZES.sf((t - 21.55) / 0.4851e-3)),
        THESIS_MEAN,
        0.9,
        0.01,
    ),
]


def fifo(demand: str, rate: float) -> SolverAnswer:
    answer = queueing.predict(
        queueing.System(
            '[document]\nlaw = "log-normal"\nmu = 7.811\nsigma = 1.573\nunit = "B"\n'
            f'[stations.a]\ndiscipline = "fifo"\ndemand = {demand}\n'
            f'[classes.c]\nrate = "{rate!r}/s"\nroute = ["a"]\n'
        )
    )["solvers"]["open"]["answer"]
    assert answer is not None
    return answer


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_percentile_called_exact_is(case: Case) -> None:
    answer = fifo(case.demand, float(case.rho / case.mean))
    assert answer["percentiles"] == "exact"
    bound = answer["percentiles_relative_error"]
    assert bound is not None
    assert bound <= 1e-3
    times = dict(answer["classes"]["c"]["response_time_seconds"])
    expected = oracle(case.survival, case.mean, case.rho, case.step * case.mean, 1 << 16)
    for name, seconds in expected.items():
        assert times[name] == pytest.approx(seconds, rel=bound + case.within), name


def test_the_oracle_knows_mm1() -> None:
    found = oracle(lambda t: np.exp(-t), 1.0, 0.9, 0.01, 1 << 16)
    for name, p in PERCENTILES.items():
        assert found[name] == pytest.approx(-10 * np.log(1 - p), rel=1e-3)


def test_a_load_beyond_the_bound_is_not_called_exact() -> None:
    answer = fifo('"1s"', 0.9995)
    assert answer["percentiles"].startswith("bounds ")
    assert (answer["percentiles_relative_error"] or 0) > 1e-3


def test_an_approximate_mean_says_so() -> None:
    text = (
        '[stations.a]\ndiscipline = "fifo"\nservers = 4\ndemand = { law = "log-normal", mean = "1s", scv = 15 }\n'
        '[classes.c]\nrate = "2.8/s"\nroute = ["a"]\n'
    )
    answer = queueing.predict(queueing.System(text))["solvers"]["open"]["answer"]
    assert answer is not None
    assert "a: several servers by Allen and Cunneen" in answer["means"]
    assert answer["percentiles"].startswith("approximation")
    assert fifo('"1s"', 0.5)["means"] == "exact"
