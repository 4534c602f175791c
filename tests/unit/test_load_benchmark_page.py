"""The load benchmark reads what generators print, and judges; on outputs and cells that are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.load import conditions, generators
from benchmarks.load.cell import Cell
from benchmarks.load.generators import Said, Task
from benchmarks.load.page import judge, page, tables
from benchmarks.selection import chosen
from sojourn.failure import CouldNotRun

WRK = """  Latency Distribution
     50%  812.00us
     99%    2.50ms
  290531 requests in 2.00s, 205.01MB read
  Socket errors: connect 0, read 2, write 0, timeout 1
"""
H2LOAD = "requests: 51610 total, 51674 started, 51610 done, 51610 succeeded, 0 failed, 0 errored, 0 timeout\n"
AB = "Complete requests:      18034\nFailed requests:        3\n"
HTTPERF = "Total: connections 64 requests 64000 replies 64000 test-duration 1.5 s\nErrors: total 0 client-timo 0\n"
OHA = json.dumps(
    {
        "statusCodeDistribution": {"200": 90, "500": 2},
        "errorDistribution": {"aborted due to deadline": 64, "connection refused": 3},
        "latencyPercentiles": {"p50": 0.001, "p99": 0.002},
    }
)
K6 = json.dumps(
    {
        "metrics": {
            "http_reqs": {"values": {"count": 100}},
            "http_req_failed": {"values": {"passes": 4}},
            "http_req_duration": {"values": {"med": 1.5, "p(99)": 9}},
        }
    }
)


@pytest.mark.parametrize(
    ("name", "output", "said"),
    [
        ("wrk", WRK, Said(290531, 3, 812 * 1e-6, 0.0025)),
        ("h2load", H2LOAD, Said(51610, 0)),
        ("ab", AB, Said(18034, 3)),
        ("httperf", HTTPERF, Said(64000, 0)),
        ("oha", OHA, Said(90, 3, 0.001, 0.002)),
        ("k6", K6, Said(96, 4, 0.0015, 0.009)),
    ],
)
def test_what_a_generator_says_is_read(name: str, output: str, said: Said) -> None:
    (generator,) = chosen(name, generators.generators(), "generator")
    assert generator.read(output) == said
    with pytest.raises((ValueError, KeyError)):
        generator.read("{}")


def test_commands_make_the_conditions_load(tmp_path: Path) -> None:
    for condition in conditions.CONDITIONS:
        for generator in generators.generators():
            if generator.takes(condition):
                command = generator.command("tool", Task(condition, "http://127.0.0.1:81/500B", 2.0, 1, tmp_path))
                assert command[0] == "tool"
                assert any("127.0.0.1" in word or word.endswith(".js") for word in command)


def cells(generator: str, condition: str, costs: list[float], **more: float | str) -> list[Cell]:
    return [
        Cell(condition, generator, number, requests=10, cpu_seconds_per_request=cost * 1e-6, **more)  # type: ignore[arg-type]
        for number, cost in enumerate(costs)
    ]


def test_targets_compare_medians_and_the_page_has_every_table() -> None:
    measured = [
        *cells("sojourn", "closed", [4.0, 9.0, 3.0]),
        *cells("wrk", "closed", [8.0]),
        *cells("sojourn", "many-clients", [30.0], send_lag_p99_seconds=0.002),
        Cell("closed", "k6", 0, trouble="not installed"),
    ]
    verdicts = {verdict.what: verdict for verdict in judge(tables(measured))}
    closed = verdicts["CPU per request, closed loop ÷ wrk"]
    assert (closed.measured, closed.word) == (pytest.approx(0.5), "met")
    assert verdicts["CPU per request, closed loop ÷ httperf"].word == "not measured"
    late = next(verdict for what, verdict in verdicts.items() if "late" in what)
    assert (late.measured, late.word) == (2.0, "not met")
    run = {
        "date": "2026-11-22",
        "command": "bench",
        "revision": "abc",
        "repetitions": 3,
        "duration_seconds": 2.0,
        "seed": 1,
        "cores": {"server": 0, "generator": 1},
        "busy_fraction": 0.5,
        "environment": {"processor": "one | two"},
    }
    text = page(run, measured, complete=False)
    assert "**Incomplete**" in text
    assert "**Disturbed**" in text
    assert "| sojourn | 4.00 [3.00–9.00] | 1.00 |" in text
    assert "- † k6: not installed" in text
    assert "$" not in text


def test_runs_that_failed_are_compared_with_nothing() -> None:
    failed = cells("sojourn", "closed", [4.0], trouble="5 of 105 requests failed")
    lag = cells("sojourn", "many-clients", [30.0], send_lag_p99_seconds=0.0001, trouble="5 of 105 requests failed")
    verdicts = judge(tables([*failed, *lag, *cells("wrk", "closed", [8.0])]))
    assert {verdict.word for verdict in verdicts} == {"not measured"}
    limited = cells("sojourn", "closed", [4.0], limited_because="it used a whole core")
    (closed, *_) = judge(tables([*limited, *cells("wrk", "closed", [8.0])]))
    assert (closed.measured, closed.word) == (0.5, "met"), "a limit is no failure"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(CouldNotRun, match="no generator is named nobody"):
        chosen("nobody", generators.generators(), "generator")
