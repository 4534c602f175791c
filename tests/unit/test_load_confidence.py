"""Confidence intervals of a run's figures hold as often as they say, on data that hang together in time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from sojourn.loading import confidence, metrics
from sojourn.loading.record import Step
from sojourn.loading.steps import StepResult
from sojourn.loading.threshold import Threshold


def autoregressive(rng: np.random.Generator, count: int, correlation: float) -> list[float]:
    """Logarithms around zero with standard deviation 0.1, as seconds of a run: each remembers the one before."""
    noise = rng.normal(0, 0.1 * math.sqrt(1 - correlation**2), count)
    values = [float(rng.normal(0, 0.1))]
    for each in noise[1:]:
        values.append(correlation * values[-1] + float(each))
    return [100 * math.exp(value) for value in values]


def geometric_mean(rows: object) -> float:
    return float(np.exp(np.mean(np.log(rows))))  # type: ignore[call-overload]


@pytest.mark.parametrize(("correlation", "count", "least"), [(0.0, 40, 0.92), (0.5, 60, 0.88), (0.7, 200, 0.88)])
def test_the_interval_covers_the_truth(correlation: float, count: int, least: float) -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        found = confidence.estimate(autoregressive(rng, count, correlation), geometric_mean)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 100 <= found.high
    assert least <= covered / 400 <= 0.985


def test_ignoring_that_seconds_hang_together_would_not_do() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        logs = np.log(autoregressive(rng, 200, 0.7))
        half = confidence.student_t(0.95, 199) * logs.std(ddof=1) / math.sqrt(200)
        covered += abs(logs.mean() - math.log(100)) <= half
    assert covered / 400 < 0.75


def test_too_little_gives_no_interval() -> None:
    found = confidence.estimate([1.0, 2.0, 3.0], geometric_mean)
    assert found.value == pytest.approx(6 ** (1 / 3))
    assert found.low is None


@pytest.mark.parametrize(
    ("name", "fraction"), [("p99", 0.99), ("p99.9", 0.999), ("p999", 0.999), ("p50", 0.5), ("p9999", 0.9999)]
)
def test_percentiles_as_they_are_written(name: str, fraction: float) -> None:
    assert f"{fraction * 100:g}th" in metrics.find(name).help


@pytest.mark.parametrize(
    ("text", "holds", "fails"),
    [("p99 < 250ms", 0.249, 0.250), ("error_rate<=1%", 0.01, 0.011), ("rps>=2k/s", 2000, 1999), ("errors<1", 0, 1)],
)
def test_thresholds(text: str, holds: float, fails: float) -> None:
    threshold = Threshold.parse(text)
    assert threshold.holds(holds)
    assert not threshold.holds(fails)
    assert not threshold.holds(math.nan)


def test_the_page_has_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs" / "load-results.md").read_text()
    for name in [*metrics.SCALARS, *(f"{kind}.p99" for kind in metrics.LATENCIES if kind != "response")]:
        assert f"`{name}`" in page, name


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"clients": 10_000}, "10,000 clients"),
        ({"offered_requests_per_second": 77_700.4}, "77,700/s"),
        ({"offered_requests_per_second": 0.5}, "0.5/s"),
        ({"offered_requests_per_second": 200_000, "ramp": True}, "200,000/s, mean of a ramp"),
        ({}, "as logged"),
    ],
)
def test_what_was_offered_is_said_as_people_write_it(record: dict[str, int | float | bool], said: str) -> None:
    assert StepResult(1, Step.model_construct(**record), {}, []).offered == said
