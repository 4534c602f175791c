"""Labels of FIFO answers: bounds that are too wide are no percentiles called exact, and approximate means say so.

What is called exact is checked in `test_oracles.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.models.oracles import PERCENTILES, lattice
from sojourn import queueing
from sojourn.queueing.results import SolverAnswer


def fifo(demand: str, rate: float, more: str = "") -> SolverAnswer:
    answer = queueing.predict(
        queueing.System(
            f'[stations.a]\ndiscipline = "fifo"\n{more}demand = {demand}\n'
            f'[classes.c]\nrate = "{rate!r}/s"\nroute = ["a"]\n'
        )
    )["solvers"]["open"]["answer"]
    assert answer is not None
    return answer


def test_the_oracle_knows_mm1() -> None:
    found = lattice.percentiles(lambda t: np.exp(-t), 1.0, 0.9, 0.01)
    for name, p in PERCENTILES.items():
        assert found[name] == pytest.approx(-10 * np.log(1 - p), rel=1e-3)


def test_a_load_beyond_the_bound_is_not_called_exact() -> None:
    answer = fifo('"1s"', 0.9995)
    assert answer["percentiles"].startswith("bounds ")
    assert (answer["percentiles_relative_error"] or 0) > 1e-3


def test_an_approximate_mean_says_so() -> None:
    answer = fifo('{ law = "log-normal", mean = "1s", scv = 15 }', 2.8, "servers = 4\n")
    assert "a: several servers by Allen and Cunneen" in answer["means"]
    assert answer["percentiles"].startswith("approximation")
    assert fifo('"1s"', 0.5)["means"] == "exact"
