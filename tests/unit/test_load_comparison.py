"""Comparisons say "no difference shown" as often as they should, and find the differences that there are."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.load import pairs
from load_runs import simulated_run
from sojourn.commands.repeated_load import failed
from sojourn.loading.comparison import METRICS, Difference, Group, compare, difference, how_measured, regressions
from sojourn.loading.confidence import Spread
from sojourn.loading.metrics import find
from sojourn.loading.result import LoadResult


def group(seeds: range, **law: float) -> Group:
    return Group("runs", [simulated_run(seed, **law) for seed in seeds])  # type: ignore[arg-type]


def levels(rng: np.random.Generator, count: int, correlation: float = 0.7, deviation: float = 0.1) -> list[float]:
    """What successive runs on a busy machine have of their own: each resembles the one before."""
    found = [float(rng.normal(0, deviation))]
    for each in rng.normal(0, deviation * math.sqrt(1 - correlation**2), count - 1):
        found.append(correlation * found[-1] + float(each))
    return found


def pair(seed: int, order: str, scale: float = 1.0) -> tuple[Group, Group]:
    """Groups whose runs, 0 of the first and 1 of the second, follow each other in this order."""
    runs: tuple[list[LoadResult], list[LoadResult]] = ([], [])
    for index, level in enumerate(levels(np.random.default_rng(seed), len(order))):
        side = int(order[index])
        made = simulated_run(
            1000 * seed + index, scale=scale if side else 1.0, level=level, seconds=8, started=10.0 * index + 1
        )
        runs[side].append(made)
    return Group("first", runs[0]), Group("second", runs[1])


@pytest.mark.parametrize(
    ("order", "measured"),
    [("01", "single runs"), ("0110", "alternately"), ("0011", "in sequence"), ("00001", "one against several")],
)
def test_how_runs_follow_each_other_is_seen(order: str, measured: str) -> None:
    assert how_measured(*pair(1, order)) == measured


def test_the_benchmark_s_pairs_are_measured_as_they_are_named() -> None:
    runs = [simulated_run(seed, started=10.0 * seed + 1) for seed in range(26)]
    found = {design.name: how_measured(*next(design.pairs(runs))) for design in pairs.DESIGNS}
    assert found == {
        "1 and 1, one after the other": "single runs",
        "1 and 1, twenty runs apart": "single runs",
        "5, then 1": "one against several",
        "5, then 5": "in sequence",
        "5 and 5 in turn": "alternately",
        "10 and 10 in turn": "alternately",
    }


@pytest.mark.slow
@pytest.mark.parametrize("order", ["01", "0110011001", "0000011111", "000001"])
def test_the_same_server_on_a_machine_that_drifts_shows_no_difference(order: str) -> None:
    trials = 60
    false = dict.fromkeys(("rps", "p50", "p99"), 0)
    for trial in range(trials):
        first, second = pair(trial, order)
        for metric in false:
            false[metric] += difference(find(metric), first, second).finding in ("better", "worse")
    # 5 % of 60, and two standard deviations of the count of trials; docs/load-results.md has real pairs.
    assert max(false.values()) <= 7, false


def test_one_run_of_each_decides_only_what_is_far_beyond() -> None:
    found = difference(find("p50"), group(range(1, 2)), group(range(2, 3), scale=1.15))
    assert found.finding == "cannot say"
    assert found.repetitions_for(0.05) is None
    assert "cannot say" in str(found)
    assert difference(find("p50"), group(range(1, 2)), group(range(2, 3), scale=3)).finding == "worse"


def test_single_runs_of_clients_that_never_think_decide_only_severalfold_differences() -> None:
    def saturated(seed: int, scale: float) -> Group:
        run = simulated_run(seed, scale=scale)
        step = SimpleNamespace(clients=8, in_flight_mean=7.9, offered_requests_per_second=None, server=None)
        return Group("runs", [replace(run, record=run.record.model_copy(update={"steps": [step]}))])

    compared = compare(saturated(1, 1.0), saturated(2, 3.0))
    assert {each.finding for each in compared.differences} <= {"cannot say", "not measured"}
    assert "4 times" in compared.warnings[0]
    assert difference(find("p50"), saturated(1, 1.0), saturated(2, 6.0)).finding == "worse"


def test_alternate_runs_find_what_runs_in_sequence_cannot() -> None:
    found = {}
    for order in ("0110011001", "0000011111"):
        shown = [difference(find("p50"), *pair(seed, order, scale=1.25)).finding == "worse" for seed in range(20)]
        found[order] = sum(shown)
    assert found["0110011001"] >= 10
    assert found["0110011001"] > found["0000011111"] + 3


def test_a_known_shift_is_found() -> None:
    found = difference(find("p50"), group(range(1, 4)), group(range(4, 7), scale=1.3))
    assert found.finding == "worse"
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.3 < found.high
    assert [regressions([found], limit) for limit in (0.05, 0.3, 1.0)] == [["shown"], ["open"], ["excluded"]]
    # One metric alone is judged by its interval.
    assert regressions([found], found.low - 1 - 1e-6) == ["shown"]
    assert regressions([found], found.low - 1 + 1e-6) == ["open"]
    better = difference(find("rps"), group(range(1, 2), scale=1.8), group(range(2, 3)))
    assert better.finding == "better"
    assert regressions([better], 0.05) == ["excluded"]
    assert "more" in str(better)


def made_up(worse_by: np.ndarray, freedom: int) -> list[Difference]:
    """A difference for each metric whose logarithm is worse by so much, in standard errors that are about 0.1."""
    found = []
    for name, each in zip(METRICS, worse_by, strict=True):
        metric = find(name)
        ratio = math.exp(each if metric.better == "lower" else -each)
        found.append(Difference(metric, 1.0, ratio, ratio, Spread(math.log(ratio), 0.1**2, freedom)))
    return found


def shares_of_regressions(limit: float, shift: np.ndarray, alike: float) -> tuple[float, float, float]:
    """The shares of 1,000 comparisons with a regression: all metrics judged together, any by itself, the first one.

    Errors are Student's t with four degrees of freedom; `alike` is the correlation between metrics.
    """
    random, freedom, trials = np.random.default_rng(5), 4, 1_000
    together = apart = first = 0
    for _ in range(trials):
        common, own = random.normal(size=2), random.normal(size=len(METRICS))
        error = math.sqrt(alike) * common[0] + math.sqrt(1 - alike) * own
        error /= math.sqrt(random.chisquare(freedom) / freedom)
        found = made_up(0.1 * error + shift, freedom)
        together += "shown" in regressions(found, limit)
        alone = [regressions([each], limit) == ["shown"] for each in found]
        apart += any(alone)
        first += alone[0]
    return together / trials, apart / trials, first / trials


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
def test_identical_servers_seldom_regress_in_any_metric(alike: float) -> None:
    together, apart, _ = shares_of_regressions(0.0, np.zeros(len(METRICS)), alike)
    # 5 % and two standard deviations of the count.
    assert together <= 0.064
    assert apart > 0.05


def test_a_server_that_is_slower_in_all_metrics_is_found_as_often_as_by_one_of_them() -> None:
    together, _, first = shares_of_regressions(0.05, np.full(len(METRICS), 0.5), 0.9)
    assert together > first > 0.6


def test_a_metric_that_is_worse_alone_needs_stronger_evidence() -> None:
    alone = np.array([0.0] * 4 + [0.35] + [0.0] * 4)
    assert regressions(made_up(alone, 8), 0.05)[4] == "open"
    assert regressions(made_up(1.5 * alone, 8), 0.05)[4] == "shown"
    assert regressions(made_up(np.full(9, 0.35), 8), 0.05) == ["shown"] * 9


def test_runs_that_differ_more_need_more_repetitions() -> None:
    needed = []
    for spread in (0.02, 0.1):
        first, second = (group(seeds, run_spread=spread, seconds=8) for seeds in (range(10), range(10, 20)))
        needed.append(difference(find("p50"), first, second).repetitions_for(0.1))
    assert needed[0] is not None
    assert needed[1] is not None
    assert 2 <= needed[0] < needed[1] < 60


def test_a_run_that_the_generator_limited_gets_no_verdict() -> None:
    void = Group("limited", [simulated_run(1, limited=True)])
    comparison = compare(group(range(2, 3)), void)
    assert "the generator was the limit" in comparison.void_because[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"requests": 0, "requests_per_second": 0.0}, "no request got a good response"),
        ({"failed_because": "too much was abandoned"}, "too much was abandoned"),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_server_that_answers_nothing_gets_no_verdict(changes: dict[str, object], said: str, times: int) -> None:
    runs = [simulated_run(seed) for seed in range(2, 2 + times)]
    broken = Group("broken", [replace(run, record=run.record.model_copy(update=changes)) for run in runs])
    comparison = compare(group(range(5, 5 + times)), broken)
    assert comparison.void_because == [f"broken: {said}"]
    assert failed(comparison, 0.05)


def test_what_differs_is_listed() -> None:
    runs = [simulated_run(seed) for seed in (1, 2)]
    first = Group("first", runs[:1], [{"kernel": "6.1", "cores_usable": 2}])
    second = Group("second", runs[1:], [{"kernel": "6.9", "cores_usable": 2}])
    warnings = compare(first, second).warnings
    assert "the environments differ in kernel: 6.1 and 6.9" in warnings
    assert not [warning for warning in warnings if "cores" in warning]
