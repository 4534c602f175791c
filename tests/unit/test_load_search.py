"""The search against simulated servers of known capacity: it finds it, its interval holds, and it knows its limits."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from load_runs import search_without_a_pass
from sojourn import interrupts
from sojourn.loading.load_search import LoadSearch
from sojourn.loading.result import LoadResult
from sojourn.loading.run import option
from sojourn.loading.search import Belief, Found, OutOfTime, Plan, Trial, search
from sojourn.loading.threshold import Threshold
from sojourn.report.load.search import page
from sojourn.report.load.terminal import answer


def server(capacity: float, noise: float, seed: int, limit: float = math.inf) -> Callable[[float], Trial]:
    """Passes while the load is below the capacity, which differs from run to run; above `limit` a run is void."""
    rng = np.random.default_rng(seed)

    def measure(load: float) -> Trial:
        void = "the generator" if load > limit else None
        return Trial(load, load < capacity * math.exp(rng.normal(0, noise)), void, {"p95": load})

    return measure


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "runs_most"), [(0.0, 34), (0.02, 45), (0.05, 60)])
def test_the_capacity_is_found_and_the_interval_holds(noise: float, runs_most: int) -> None:
    trials = 30
    covered, runs, errors = 0, [], []
    for seed in range(trials):
        capacity = 1000 * math.exp(np.random.default_rng(seed).uniform(-2, 2))
        found = search(server(capacity, noise, seed), Plan(start=50.0))
        assert found.capacity is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= capacity <= found.high
        runs.append(len(found.trials))
        errors.append(abs(found.capacity / capacity - 1))
    # At 95 % fewer than 25 of 30 would come once in eighty times.
    assert covered >= 25, covered
    assert float(np.median(runs)) <= runs_most
    assert float(np.median(errors)) <= 0.02 + noise


def test_a_start_that_is_thought_near_is_left_in_small_steps() -> None:
    found = search(server(1500, 0.0, 1), Plan(start=1000, growth=1.4))
    assert [trial.load for trial in found.trials if trial.phase == "bracket"] == [1000, 1400, 1960]


@pytest.mark.parametrize("capacity", [1.5, 3.5, 37.5])
def test_clients_are_whole(capacity: float) -> None:
    found = search(server(capacity, 0.0, 1), Plan(start=1, whole=True))
    assert found.ending == "precise enough"
    assert all(trial.load == int(trial.load) for trial in found.trials)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= capacity <= found.high
    assert found.high - found.low <= max(1, 0.06 * capacity)


@pytest.fixture
def rounds_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a search asks for the interval again and again without a run in between."""
    asked: list[int] = []
    interval = Belief.interval

    def counted(belief: Belief) -> tuple[float, float]:
        asked.append(1)
        assert len(asked) < 10_000, "the search goes round without a run"
        return interval(belief)

    monkeypatch.setattr(Belief, "interval", counted)


@pytest.mark.usefixtures("rounds_limited")
def test_a_capacity_below_the_smallest_load_ends_the_search() -> None:
    outcomes = [True]
    found = search(lambda load: Trial(load, bool(outcomes) and load < 2 and outcomes.pop()), Plan(start=1, whole=True))
    assert found.ending == "precise enough"
    assert found.capacity is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.capacity < 1
    assert found.high - found.low <= 1


@pytest.mark.usefixtures("rounds_limited")
@pytest.mark.parametrize("capacity", [0.8, 1.0, 1.3, 2.1])
def test_every_search_over_few_clients_ends(capacity: float) -> None:
    plan = Plan(start=1, whole=True)
    for seed in range(12):
        found = search(server(capacity, 0.4, seed), plan)
        assert found.ending in ("precise enough", "out of time", "never passed")
        assert len(found.trials) <= plan.runs_max
        assert found.ending != "out of time" or len(found.trials) == plan.runs_max
        if found.low is not None and found.high is not None:
            assert found.low <= found.high


def test_the_generator_saturates_first() -> None:
    found = search(server(5000, 0.02, 1, limit=1500), Plan(start=100))
    assert found.ending == "generator"
    assert found.capacity is None
    assert found.low is not None
    assert 1500 / 1.2 < found.low <= 1500
    assert max(trial.load for trial in found.trials) <= 2000, "nothing far above the generator's limit is tried"


def test_one_disturbed_run_is_not_the_generators_limit() -> None:
    measure = server(1000, 0.01, 3)
    disturbed = [400.0]

    def once(load: float) -> Trial:
        if disturbed and load >= disturbed[0]:
            disturbed.clear()
            return Trial(load, False, "a neighbour")
        return measure(load)

    found = search(once, Plan(start=100))
    assert found.capacity == pytest.approx(1000, rel=0.1)


def test_disturbances_now_and_then_only_cost_time() -> None:
    rng = np.random.default_rng(5)
    measure = server(1000, 0.01, 3)

    def disturbed(load: float) -> Trial:
        return Trial(load, False, "a neighbour") if rng.random() < 0.25 else measure(load)

    found = search(disturbed, Plan(start=100))
    assert found.ending == "precise enough"
    assert found.capacity == pytest.approx(1000, rel=0.1)


def test_a_server_that_never_passes_and_one_that_always_does() -> None:
    assert search(server(0.5, 0.0, 1), Plan(start=100)).ending == "never passed"
    endless = search(server(1e12, 0.0, 1), Plan(start=100, load_max=10_000))
    assert endless.ending == "not reached"
    assert endless.low == 10_000


@pytest.mark.parametrize(("error", "ending"), [(KeyboardInterrupt, "interrupted"), (OutOfTime, "out of time")])
def test_what_was_found_is_kept(error: type[BaseException], ending: str) -> None:
    measure = server(1000, 0.02, 1)
    kept: list[Found] = []

    def until(load: float) -> Trial:
        if len(kept) == 12:
            raise error
        return measure(load)

    found = search(until, Plan(start=100), kept.append)
    assert found.ending == ending
    assert len(found.trials) == len(kept) == 12
    assert found.capacity == pytest.approx(1000, rel=0.2)


@pytest.mark.parametrize(
    ("low", "high", "trials", "said"),
    [
        (None, None, (), "nothing was measured"),
        (
            None,
            500.0,
            (Trial(1000.0, False, None, {}), Trial(500.0, False, None, {})),
            "no load that was tried passed; the smallest, 500 requests/s, failed",
        ),
        (
            100.0,
            None,
            (Trial(100.0, True, None, {}),),
            "at least 100 requests/s: no load failed, so the limit was not reached",
        ),
    ],
)
def test_the_answer_claims_what_the_runs_show(
    low: float | None, high: float | None, trials: Sequence[Trial], said: str
) -> None:
    assert answer(Found("out of time", None, low, high, trials), "requests/s") == said


def test_the_page_of_a_search_without_a_pass_has_no_lower_bound() -> None:
    record = search_without_a_pass()
    drawn = page(record)
    assert "none passed" in drawn
    assert "the smallest, 500 requests/s, failed" in drawn
    assert "at least" not in drawn


def test_the_monotone_regression_agrees() -> None:
    found = search(server(1000, 0.05, 9), Plan(start=100))
    shares = [share for _, _, _, share in found.pass_fractions]
    assert shares == sorted(shares, reverse=True)
    assert sum(runs for _, runs, _, _ in found.pass_fractions) == len(found.trials)
    around = [load for load, _, _, share in found.pass_fractions if share >= 0.5]
    assert max(around) == pytest.approx(1000, rel=0.15)


@pytest.mark.parametrize(
    ("thresholds", "options", "limit"),
    [
        (("p95<300ms",), (), "0.03s"),
        (("p99<1s", "ttfb.p95<200ms"), (), "0.02s"),
        (("p95<20ms",), (), "0.01s"),
        (("p95<300ms",), ("--lag-limit", "5ms"), "5ms"),
        (("rps>100/s",), (), None),
        (("p95>300ms",), (), None),
    ],
)
def test_it_follows_the_tightest_target(thresholds: Sequence[str], options: Sequence[str], limit: str | None) -> None:
    asked: list[Sequence[str]] = []

    def runner(words: Sequence[str]) -> LoadResult:
        asked.append(words)
        raise KeyboardInterrupt

    words = ("http://host/", "--rate", "100", *options)
    search = LoadSearch(words, [Threshold.parse(text) for text in thresholds], runner, budget_seconds=1, precision=0.1)
    assert search.run().ending == "interrupted"
    assert [option(words, "--lag-limit") for words in asked] == [limit]


def test_a_signal_between_runs_ends_the_search_before_the_next() -> None:
    def runner(words: Sequence[str]) -> LoadResult:
        raise AssertionError("another run began")

    words = ("http://host/", "--rate", "100")
    search = LoadSearch(words, [Threshold.parse("p95<300ms")], runner, budget_seconds=60, precision=0.1)
    # In the background of a script it is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupts.held(to_the_end=True):
            signal.raise_signal(signal.SIGINT)
            assert search.run().ending == "interrupted"
    finally:
        signal.signal(signal.SIGINT, before)
