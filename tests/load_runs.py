"""Load runs made up: a result as the engine would print it, with latencies drawn from a law that drifts in time."""

from __future__ import annotations

import math

import numpy as np

from sojourn import _native
from sojourn.loading.record import RequestsRecord, SearchRecord, TrialRecord
from sojourn.loading.result import LoadResult


def simulated_run(
    seed: int,
    *,
    scale: float = 1.0,
    run_spread: float = 0.0,
    seconds: int = 40,
    correlation: float = 0.5,
    limited: bool = False,
    started: float = 0.0,
    level: float | None = None,
) -> LoadResult:
    """A run whose latencies are log-normal around 1 ms times `scale`; each second remembers the one before.

    `level` is what the run has of its own, on the logarithmic scale; None draws it with the deviation `run_spread`.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.normal(0, run_spread)
    level = drawn if level is None else level
    drift = rng.normal(0, 0.05)
    rows = []
    whole = _native.Histogram()
    counts = []
    for second in range(seconds):
        drift = correlation * drift + rng.normal(0, 0.05 * math.sqrt(1 - correlation**2))
        factor = scale * math.exp(level + drift)
        count = max(1, int(200 / factor))
        latencies = 1e-3 * factor * np.exp(rng.normal(0, 0.5, count))
        histogram = _native.Histogram()
        histogram.record(latencies, np.ones(count, dtype=np.uint64))
        whole.merge(histogram)
        counts.append(count)
        rows += [(tag, float(second), 1.0, histogram) for tag in ("response_time", "time_to_first_byte_intended")]
    steps = [(tag, 0.0, float(seconds), whole) for tag in ("response_time", "time_to_first_byte_intended")]
    because = "the generator's thread used 99 % of a core" if limited else None
    record = {
        "tool": "load",
        "version": "0",
        "url": "http://127.0.0.1/",
        "seed": seed,
        "connection": "keep-alive",
        "complete": True,
        "interrupted": False,
        "started_unix_seconds": started,
        "stopped_because": None,
        "requests": sum(counts),
        "errors": 0,
        "errors_by_cause": {},
        "unfinished": 0,
        "duration_seconds": float(seconds),
        "requests_per_second": sum(counts) / seconds,
        "bytes_per_second": 0.0,
        "response_time_seconds": whole.summary(),
        "generator": {
            "limited": limited,
            "limited_because": because,
            "cpu_fraction": 0.1,
            "cpu_seconds_per_request": 1e-5,
            "core_wait_fraction": 0.01,
            "core_steal_fraction": {"unavailable": "made up"},
            "send_lag_p99_seconds": 1e-5,
        },
        "steps": [],
    }
    logs = [_native.write_interval_log(0.0, each) for each in (steps, rows)]
    return LoadResult(RequestsRecord.model_validate(record), {}, logs[0], logs[1])


def search_without_a_pass() -> SearchRecord:
    """A search that ended with its first load, which failed."""
    return SearchRecord(
        varied="rate",
        unit="requests/s",
        options=["http://host/", "--rate", "500"],
        thresholds=["p95 < 1 ms"],
        ending="out of time",
        high=500.0,
        trials=[TrialRecord(load=500.0, passed=False)],
    )
