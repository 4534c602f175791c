"""Solvers and simulator beside independent programs; `make bench-models` adds the models that take long."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.models.checked import Check, check, page
from benchmarks.models.oracles import PERCENTILES, birth_death, markov, tagged_job
from benchmarks.models.oracles.models import Model, all_models

HALF_WIDTH = 0.05
MODELS = [model for model in all_models() if not model.slow]


@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_every_answer_is_what_it_says_of_itself(model: Model) -> None:
    found = list(check(model, HALF_WIDTH))
    assert found, "no solver answers"
    wrong = [(each.solver, each.label, each.figure, each.expected, each.obtained) for each in found if not each.holds]
    assert wrong == []


def test_every_solver_is_checked() -> None:
    from sojourn.queueing import System, predict

    some = [model for model in MODELS if "2/5" in model.name or ("users" in model.name and "M/H₂" in model.name)]
    some += [model for model in MODELS if "USL" in model.name]
    solved = Counter(
        solver for model in some for solver, said in predict(System(model.text))["solvers"].items() if said["answer"]
    )
    assert set(solved) == set(predict(System(MODELS[0].text))["solvers"])


def checked(label: str, obtained: float, low: float | None, high: float | None) -> Check:
    return Check("open", label, "M/M/1", "theorem", "mean", 1.0, obtained, low, high)


def test_an_answer_that_claims_too_much_is_found_and_shown() -> None:
    assert not checked("means: exact", 1.001, 0.0, 0.0).holds
    assert checked("means: exact", 1.0, 0.0, 0.0).holds
    assert not checked("means: approximation", 1.2, -0.05, 0.1).holds
    assert checked("means: error not known", 1.2, None, None).holds
    text = page([checked("means: exact", 1.001, 0.0, 0.0), checked("means: error not known", 1.2, None, None)])
    assert "| `open` | means: exact | 1 | none | +0.10 % (the truth within 0 %) | mean of M/M/1 |" in text
    assert "not known, and said" in text
    assert "$" not in text


def test_the_oracles_know_mm1_and_each_other() -> None:
    solved = tagged_job.solve(tagged_job.exponential(1.0), 0.5, 1, jobs_max=60)
    mean, percentiles = birth_death.mm1(0.5)
    assert solved.mean == pytest.approx(mean)
    assert solved.percentiles(PERCENTILES) == pytest.approx(percentiles, rel=3e-5)
    loss, mean, percentiles = birth_death.mmck(2.4, 2, 5)
    chain = tagged_job.solve(tagged_job.exponential(1.0), 2.4, 2, speed=lambda n: float(min(n, 2)), capacity=5)
    assert (chain.mean, chain.loss) == pytest.approx((mean, loss))
    assert chain.percentiles(PERCENTILES) == pytest.approx(percentiles, rel=1e-5)


def test_a_chain_of_two_states_is_as_expected() -> None:
    chain = markov.explore([0], lambda state: [(1.0, 1)] if state == 0 else [(3.0, 0)])
    assert chain.stationary() == pytest.approx([0.75, 0.25])
