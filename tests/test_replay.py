"""`sojourn replay` as a person or a CI job meets it: all that `sojourn load` writes and decides, step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars
import pytest

from conftest import run, run_on_a_terminal
from sojourn.loading import folder
from test_commands import serving

# A machine that is busy with other things must not void the runs.
_PATIENT = ("--think-scale", "0.01", "--lag-limit", "5s")
AS_LOGGED = ("--scale", "300", *_PATIENT)
STEPS = ("--rate", "200,400", "--step", "2s", "--settle", "500ms", *_PATIENT)


@pytest.fixture(scope="module")
def trace(small_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "small.trace"
    done = run("trace", small_log, "--output", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def address(small_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site") / "site"
    assert run("trace", small_log, "--build-site", site).returncode == 0
    with serving(site) as (address, _):
        yield address


def test_a_log_is_replayed_into_a_run_folder_with_files_and_verdicts(
    small_log: Path, address: str, tmp_path: Path
) -> None:
    kept, csv, parquet, prometheus = (tmp_path / name for name in ("run", "run.csv", "run.parquet", "run.prom"))
    outputs = ("--output", kept, "--csv", csv, "--parquet", parquet, "--prometheus", prometheus)
    # The log stands after options with values and without: it is found among them.
    done = run("replay", *AS_LOGGED, small_log, f"http://{address}", *outputs, "--threshold", "error_rate<1%")
    assert done.returncode == 0, done.stdout + done.stderr
    result = folder.read(kept)
    assert (result.requests, result.errors) == (600, 0)
    assert result.record.tool == "replay"
    assert str(small_log) in result.record.options
    rows = polars.read_csv(csv)
    assert rows["requests"].sum() == polars.read_parquet(parquet)["requests"].sum() == 600
    assert "sojourn_load_requests 600" in prometheus.read_text()
    assert "pass  error_rate < " in done.stdout
    page = (kept / "report.html").read_text()
    assert "replay report" in page
    assert "NaN" not in page
    assert run("report", kept).returncode == 0


def test_a_threshold_that_does_not_hold_is_exit_code_1(trace: Path, address: str) -> None:
    done = run("replay", trace, f"http://{address}", *AS_LOGGED, "--threshold", "p99<1ns", "--format", "json")
    assert done.returncode == 1
    assert [each["passed"] for each in json.loads(done.stdout)["thresholds"]] == [False]


def test_replays_are_compared(trace: Path, address: str, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("a", "b")]
    for kept in runs:
        replay = ("replay", trace, f"http://{address}", *AS_LOGGED, "--output", kept)
        assert run(*replay).returncode == 0
    done = run("compare", *runs, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["metric"]: each for each in json.loads(done.stdout)["differences"]}
    assert found["p50"]["ratio"] > 0


def test_every_step_has_its_intervals_or_says_why_not(trace: Path, address: str) -> None:
    done = run("replay", trace, f"http://{address}", *STEPS, "--threshold", "error_rate<1%", "--format", "json")
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert len(steps) == 2
    for step in steps:
        assert set(step["confidence"]) == {"level", "rps", "mean", "p50", "p90", "p99", "ttfb.p50", "ttfb.p99"}
        for name, found in step["confidence"].items():
            if name != "level" and "unavailable" not in found:
                assert found["low"] <= found["value"] <= found["high"], name
                assert found["batches"] >= 5
        assert step["confidence"]["rps"]["value"] == pytest.approx(step["requests_per_second"])


def test_a_ramp_and_a_short_step_have_figures_without_intervals(address: str) -> None:
    schedule = "100/s for 300ms, ramp to 200/s in 1s, 200/s for 3s"
    load = ("load", f"http://{address}/", "--schedule", schedule, "--warm-up", "0s", "--arrivals", "constant")
    done = run(*load, "--threshold", "error_rate<=1", "--format", "json")
    steps = json.loads(done.stdout)["steps"]
    assert [step["ramp"] for step in steps] == [False, True, False]
    why = [step["confidence"]["rps"].get("unavailable", "") for step in steps]
    assert "needs 5 batches" in why[0]
    assert "changed within the step" in why[1]


def test_two_machines_replay_as_one_with_every_figure(trace: Path, address: str, tmp_path: Path) -> None:
    replay = ("replay", trace, f"http://{address}", *STEPS, "--cluster", "local:2", "--shares", "3,1")
    done = run(*replay, "--output", tmp_path / "run", "--format", "json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert sum(machine["requests"] for machine in whole["machines"]) == whole["requests"] > 0
    assert [step["offered_requests_per_second"] for step in whole["steps"]] == [200, 400]
    for record in (whole, *whole["steps"]):
        assert sum(each["requests"] for each in record["by_size"]) == record["requests"]
        assert record["by_status"]["200"]["responses"] == record["requests"]
        assert record["response_time_seconds"]["count"] == record["requests"]
    assert "Response time by size" in (tmp_path / "run" / "report.html").read_text()
    refused = run("replay", tmp_path / "no.trace", "http://127.0.0.1:1", *STEPS, "--cluster", "local:1")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


def test_the_live_view_draws_a_replay(trace: Path, address: str) -> None:
    replay = ("replay", trace, f"http://{address}", "--scale", "200", "--think-scale", "0.01")
    code, output, drawn = run_on_a_terminal(*replay)
    assert code == 0
    assert drawn.count("requests/s") >= 2
    assert "600 requests" in output


def test_the_help_has_the_engines_options_and_ours() -> None:
    done = run("replay", "--help")
    assert done.returncode == 0
    for name in ("--scale", "--log-format", "--threshold", "--output", "error_rate"):
        assert name in done.stdout


def test_a_log_of_which_little_can_be_replayed_is_refused_and_what_is_left_out_is_said(
    address: str, tmp_path: Path
) -> None:
    log = tmp_path / "application.log"
    stamp = "[21/Nov/2026:10:00:00 +0000]"
    paths = ["/", "/a.gif", *(f"/find?q={number}" for number in range(10))]
    log.write_text("".join(f'10.0.0.1 - - {stamp} "GET {path} HTTP/1.1" 200 {4000}\n' for path in paths))
    words = ("replay", log, f"http://{address}", *AS_LOGGED, "--paths", "site")
    done = run(*words)
    assert done.returncode == 2
    assert "10 of the log's 12 requests are not replayed: 10 with a query" in done.stderr
    assert "hint: --paths original would include them; --left-out-limit raises the limit" in done.stderr
    allowed = run(*words, "--left-out-limit", "90%")
    assert allowed.returncode == 0, allowed.stderr
    assert "warning: 10 of the log's 12 requests are not replayed" in allowed.stderr
