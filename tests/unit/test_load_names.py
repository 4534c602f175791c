"""Figures by request name: thresholds of a name and of a pattern, merged over machines; what a replay leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.loading import metrics, named
from sojourn.loading.merging import Part, merge
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult
from sojourn.loading.threshold import Threshold
from sojourn.workload.not_replayed import LeftOut


def _result(seconds: dict[str, list[float]], errors: int) -> LoadResult:
    """A run of ten seconds with these response times by name, and so many errors of each."""
    rows, by_name = [], list[dict[str, Any]]()
    for name, times in seconds.items():
        histogram = _native.Histogram()
        histogram.record(np.array(times), np.ones(len(times), dtype=np.uint64))
        rows += [(named.tag(kind, name), 0.0, 10.0, histogram) for kind in named.TAGS]
        counts = {"requests": len(times), "errors": errors, "redirects": 1, "unfinished": 0, "abandoned": 2}
        rates = {"requests_per_second": len(times) / 10, "errors_by_cause": {"status_5xx": errors}}
        by_name.append({"name": name, **counts, **rates, "response_bytes_mean": 10.0 * len(times)})
    figures = {
        "requests": 3,
        "errors": errors,
        "errors_by_cause": {},
        "unfinished": 0,
        "abandoned": 4,
        "censored": {"timeouts": 0},
        "duration_seconds": 10.0,
        "by_name": by_name,
        "receive_lag_seconds": {"unavailable": "made up"},
        "generator": {"limited": False, "core_steal_fraction": {"unavailable": "made up"}},
    }
    record = {"tool": "load", "version": "0", "url": "http://x/", "seed": 1, "connection": "close", "complete": True}
    record |= {"started_unix_seconds": 0.0, **figures, "steps": [], "users": {"users": 2, "rows": 9, "new": False}}
    log = _native.write_interval_log(0.0, rows)
    return LoadResult(RequestsRecord.model_validate(record), {}, log, "")


NAMES = {"login": [0.1], "GET /a, b%": [0.2, 0.2, 0.2], "GET /c*": [0.4]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("login p95<300ms", 0.1),
        ("login: mean < 300ms", 0.1),
        ("GET /a, b% ttfb.p50<1s", 0.2),
        ("GET /* max<1s", 0.4),
        ("GET /* p50<1s", 0.2),
        ("* rps>0.1/s", 0.5),
        ("GET /c* errors<2", 1.0),
        ("GET /* error_rate<50%", 2 / 6),
    ],
)
def test_thresholds_of_names(text: str, value: float) -> None:
    threshold = Threshold.parse(text)
    verdict = threshold.judge(_result(NAMES, errors=1))
    assert verdict.estimate.value == pytest.approx(value, rel=1e-2)
    assert verdict.passed
    assert metrics.find(verdict.record.metric).name == threshold.metric.name


def test_a_name_that_there_is_not_passes_nothing() -> None:
    for text in ("logout p95<1s", "logout errors<1"):
        assert not Threshold.parse(text).judge(_result(NAMES, errors=0)).passed
    with pytest.raises(CouldNotRun, match="not available by name"):
        Threshold.parse("login connect.p99<1s")
    with pytest.raises(CouldNotRun, match="not available by name"):
        Threshold.parse("login throughput>1Mbit/s")
    with pytest.raises(CouldNotRun, match="not a metric"):
        Threshold.parse("login nonsense<1s")


def test_machines_add_up_by_name() -> None:
    one, other = _result(NAMES, errors=1), _result({"login": [0.3], "new": [0.1]}, errors=2)
    whole = merge([Part("a", 0.5, one), Part("b", 0.5, other)]).of_requests
    found = {each.name: each for each in whole.by_name}
    assert list(found) == [*NAMES, "new"]
    login = found["login"]
    assert (login.requests, login.errors, login.errors_by_cause) == (2, 3, {"status_5xx": 3})
    assert (login.redirects, login.abandoned, login.requests_per_second) == (2, 4, pytest.approx(0.2))
    assert login.response_time_seconds.max == pytest.approx(0.3, rel=1e-2)
    assert (whole.abandoned, whole.abandoned_fraction) == (8, pytest.approx(8 / 17))
    assert whole.users is not None
    assert whole.users.users == 4


def test_what_is_left_out_is_said_by_reason() -> None:
    left_out = LeftOut.of({"requests": 28, "skipped": {"with_query": 1900, "failed": 6, "partial": 0}})
    assert left_out.fraction == pytest.approx(1906 / 1934)
    said = "1,906 of the log's 1,934 requests are not replayed: 1,900 with a query, 6 failed or redirected"
    assert str(left_out) == said
    assert left_out.hint.startswith("--paths original, --failed expect would include them")
    assert LeftOut.of({"requests": 0, "skipped": {}}).fraction == 0.0
