"""Merging what several machines recorded is recording once: every figure, by step, status and size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import _native
from sojourn.engine.results import LoadRecord, NamedFigures, Summary, WebStone
from sojourn.loading.figures import COUNTS, LATENCIES
from sojourn.loading.merging import Part, merge
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult

Answer = tuple[int, bool, int, int, float]
"""The step, whether good, the status, where the class of sizes begins, the response time."""
_ENDS = {0: 1024, 1024: 10240, 10240: 102400, 102400: 1 << 20, 1 << 20: None}

answers = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.booleans(),
        st.sampled_from([200, 206, 404, 503]),
        st.sampled_from([*_ENDS]),
        st.floats(1e-6, 10.0),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=15)
@given(st.lists(answers, min_size=1, max_size=4))
def test_merging_equals_recording_once(machines: list[list[Answer]]) -> None:
    whole = merge([Part("one", 1.0, _recorded([answer for machine in machines for answer in machine]))])
    parts = [Part(f"m{number}", 0.25, _recorded(each)) for number, each in enumerate(machines)]
    together = merge(parts)
    for key in ("requests", "errors", "errors_by_cause", "censored", "by_status", "by_size", "error_time_seconds"):
        assert _rounded(together.record.as_json()[key]) == _rounded(whole.record.as_json()[key]), key
    for step, once in zip(together.record.steps, whole.record.steps, strict=True):
        for key in ("requests", "by_status", "by_size", "response_time_seconds", "error_time_seconds"):
            assert _rounded(step.as_json()[key]) == _rounded(once.as_json()[key]), key
    assert together.latencies["response_time"].summary() == whole.latencies["response_time"].summary()
    assert len(together.step_latencies) == len(whole.step_latencies) == 3


def test_laws_that_add_up_still_hold_for_the_whole() -> None:
    results = [_recorded([(0, True, 200, 0, 0.1)] * count) for count in (30, 10)]
    whole = merge([Part(name, 0.5, result) for name, result in zip("ab", results, strict=True)])
    step = whole.of_requests.steps[0]
    assert step.little is not None
    assert (step.little.clients, step.little.accounted) == (40, pytest.approx(40.0))
    assert step.little.relative_error == pytest.approx(0.0)
    assert step.clients == 40
    assert step.response_bytes_mean == pytest.approx(100.0)


def test_every_latency_and_count_is_merged() -> None:
    fields = LoadRecord.model_fields
    latencies = {name.removesuffix("_seconds") for name, field in fields.items() if field.annotation is Summary}
    assert latencies == set(LATENCIES)
    assert {name for name, field in fields.items() if field.annotation is int} - {"seed"} == set(COUNTS)
    results = [_recorded([(0, True, 200, 0, 0.1)] * count) for count in (3, 1)]
    whole = merge([Part(name, 0.5, result) for name, result in zip("ab", results, strict=True)]).of_requests
    assert (whole.handshakes_resumed, whole.handshake_time_seconds.count) == (4, 4)
    assert (whole.steps[0].handshakes_resumed, whole.steps[0].handshake_time_seconds.count) == (4, 4)


def test_all_rates_are_over_the_time_of_the_machine_that_took_longest() -> None:
    def ran_for(seconds: float) -> LoadResult:
        made = _recorded([])
        rate = 1000 / seconds
        named = NamedFigures(
            name="a", requests=1000, requests_per_second=rate, errors=0, redirects=0, unfinished=0, abandoned=0
        )
        webstone = WebStone(server_connection_rate_per_second=rate, littles_load_factor=4.0)
        figures = {"duration_seconds": seconds, "requests": 1000, "requests_per_second": rate, "steps": []}
        record = made.record.model_copy(update={**figures, "by_name": [named], "webstone": webstone})
        return LoadResult(record, {}, _log(made, 1), "")

    whole = merge([Part("fast", 0.5, ran_for(10.0)), Part("slow", 0.5, ran_for(20.0))]).of_requests
    assert whole.requests_per_second == pytest.approx(100.0)
    assert whole.by_name[0].requests_per_second == pytest.approx(100.0)
    assert whole.webstone is not None
    assert whole.webstone.server_connection_rate_per_second == pytest.approx(100.0)
    assert whole.webstone.littles_load_factor == pytest.approx(6.0)


def test_a_step_that_one_machine_did_not_reach_is_kept() -> None:
    long, short = _recorded([(step, True, 200, 0, 0.1) for step in (0, 1, 2)]), _recorded([(0, True, 200, 0, 0.1)])
    cut = LoadResult(short.record.model_copy(update={"steps": short.record.steps[:1]}), {}, _log(short, 1), "")
    whole = merge([Part("long", 0.5, long), Part("short", 0.5, cut)])
    assert [step.requests for step in whole.of_requests.steps] == [2, 1, 1]


def _recorded(seen: Sequence[Answer]) -> LoadResult:
    """What the engine would print and log of these answers, in three steps of ten seconds."""
    rows: list[tuple[str, float, float, _native.Histogram]] = []
    steps = []
    for number in range(3):
        tagged = _tagged([answer for answer in seen if answer[0] == number])
        rows += [(tag, 10.0 * number, 10.0, histogram) for tag, histogram in tagged.items()]
        steps.append({**_figures(tagged, 10.0), "start_seconds": 10.0 * number, "ramp": False, "steady": True})
    latencies: dict[str, _native.Histogram] = {}
    for tag, _, _, histogram in rows:
        latencies.setdefault(tag, _native.Histogram()).merge(histogram)
    whole = _figures(latencies, 30.0)
    record = {"tool": "load", "version": "0", "url": "http://x/", "seed": 1, "connection": "close", "complete": True}
    record |= {"interrupted": False, "stopped_because": None, "started_unix_seconds": 0.0, **whole, "steps": steps}
    return LoadResult(RequestsRecord.model_validate(record), {}, _native.write_interval_log(0.0, rows), "")


def _tagged(seen: Sequence[Answer]) -> dict[str, _native.Histogram]:
    good_times = _histogram([answer[4] for answer in seen if answer[1]])
    tagged = {"response_time": good_times, "handshake_time": good_times}
    for good in (True, False):
        for status in {answer[2] for answer in seen}:
            for size in _ENDS:
                times = [answer[4] for answer in seen if answer[1:4] == (good, status, size)]
                if times:
                    tagged[f"{'good' if good else 'wrong'}_{status}_{size}"] = _histogram(times)
    wrong = [answer[4] for answer in seen if not answer[1]]
    return {**tagged, **({"error_time_wrong_status": _histogram(wrong)} if wrong else {})}


def _figures(tagged: dict[str, _native.Histogram], seconds: float) -> dict[str, Any]:
    requests = len(tagged["response_time"])
    failed = len(tagged["error_time_wrong_status"]) if "error_time_wrong_status" in tagged else 0
    sizes = {int(tag.split("_")[2]) for tag in tagged if tag.startswith("good_")}
    little = {"clients": requests, "accounted": float(requests), "relative_error": 0.0} if requests else None
    return {
        "requests": requests,
        "errors": failed,
        "errors_by_cause": {"wrong_status": failed} if failed else {},
        "unfinished": 0,
        "handshakes_resumed": requests,
        "censored": {"timeouts": 0},
        "duration_seconds": seconds,
        "requests_per_second": requests / seconds,
        "bytes_per_second": 0.0,
        "by_size": [
            {"bytes_from": size, "bytes_below": _ENDS[size], "requests": 0, "response_time_seconds": {}}
            for size in sizes
        ],
        "receive_lag_seconds": {"unavailable": "made up"},
        "response_bytes_mean": 100.0 if requests else None,
        "clients": requests,
        "little": little,
        "generator": {"limited": False, "cpu_fraction": 0.1, "core_steal_fraction": {"unavailable": "made up"}},
    }


def _histogram(seconds: Sequence[float]) -> _native.Histogram:
    histogram = _native.Histogram()
    histogram.record(np.array(seconds), np.ones(len(seconds), dtype=np.uint64))
    return histogram


def _log(result: LoadResult, steps: int) -> str:
    rows = _native.read_interval_log(result.histogram_log)
    return _native.write_interval_log(0.0, [row for row in rows if row[1] < 10.0 * steps])


def _rounded(value: Any) -> Any:
    """Means are added up in another order; percentiles and counts have to be the same."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value
