"""`sojourn.load` and its companions from Python: typed results, arrays that table libraries take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
import pytest

import sojourn
from benchmarks.paced_server import paced_server
from sojourn.failure import CouldNotRun


@pytest.fixture(scope="module")
def url() -> object:
    with paced_server(0.0005) as address:
        yield address


def test_a_result_holds_figures_and_arrays(url: str) -> None:
    result = sojourn.load(url, clients=2, duration=1.0, warm_up="200ms", seed=3, think_time="1ms")
    assert result.complete
    assert result.record.seed == 3
    assert result.requests > 100
    quantiles = result.quantiles([0.5, 0.9, 0.99])
    assert isinstance(quantiles, np.ndarray)
    assert np.all(np.diff(quantiles) >= 0)
    assert 0.0005 <= quantiles[0] < 0.1
    timeline = polars.DataFrame(result.timeline)
    assert timeline.height >= 9
    assert timeline["requests_per_second"].max() > 0  # type: ignore[operator]
    intervals = polars.DataFrame(result.interval_table)
    assert intervals["requests"].sum() == result.requests
    seconds, counts = result.latencies["response_time"].recorded()
    assert counts.sum() == result.requests
    assert seconds.max() == pytest.approx(result.of_requests.response_time_seconds.max, rel=1e-3)


def test_results_are_compared(url: str) -> None:
    runs = [sojourn.load(url, clients=2, duration=1.0, warm_up=0.2, seed=seed) for seed in (1, 2)]
    found = {each.metric.name: each for each in sojourn.compare(*runs).differences}
    assert 0.2 < found["rps"].ratio < 5
    assert sojourn.compare(runs, runs).differences[0].finding == "no difference shown"


def test_what_the_engine_refuses_is_an_error(url: str) -> None:
    with pytest.raises(CouldNotRun, match="no-such-option"):
        sojourn.load(url, clients=1, no_such_option=1)
    with pytest.raises(CouldNotRun, match="not a metric"):
        sojourn.search(url, "speed<1ms", clients=1)


@pytest.mark.slow
def test_a_search_from_python(tmp_path: Path) -> None:
    seen = []
    with paced_server(0.010) as slow:
        # Three clients wait for two others: 30 ms. Four would wait for 40 ms.
        found = sojourn.search(
            slow, "p50<35ms", clients=1, duration=1.0, warm_up=0.2, time=60, told=lambda trial, _: seen.append(trial)
        )
    assert found.low is not None
    assert found.high is not None
    assert 3 <= found.low <= found.high <= 4.5, seen
    assert len(seen) == len(found.trials)
