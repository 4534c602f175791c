"""`sojourn load` as a person or a CI job meets it: outputs, thresholds, the live view, the run folder."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import polars
import pytest

from benchmarks.paced_server import paced_server
from conftest import SOJOURN, run, run_on_a_terminal, wait_until_begun
from load_runs import search_without_a_pass
from sojourn import engine
from sojourn.engine.results import Undisturbed
from sojourn.loading import folder
from test_commands import serving

QUICK = ("--clients", "4", "--duration", "1s", "--warm-up", "200ms")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    (site / "index.html").write_text("<p>hello</p>")
    return site


def test_a_run_folder_holds_the_run_and_its_report(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    with serving(root) as (address, server):
        observed = ("--observe-pid", str(server.pid))
        done = run("load", f"http://{address}/", *QUICK, *observed, "--output", kept, "--format", "json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    result = folder.read(kept)
    assert result.requests == printed["requests"] > 100
    assert len(result.intervals) >= 8
    # The intervals add up to the run: nothing is lost between them.
    for kind in ("response_time", "time_to_first_byte_intended"):
        assert sum(len(interval.latencies[kind]) for interval in result.intervals) == result.requests
        assert len(result.latencies[kind]) == result.requests
    assert result.quantile(0.99) == pytest.approx(printed["response_time_seconds"]["p99"])
    assert polars.read_parquet(kept / "intervals.parquet").height == len(result.intervals)
    page = (kept / "report.html").read_text()
    assert "load report" in page
    assert 'id="plot-distribution"' in page
    assert "NaN" not in page
    windows = result.of_requests.steps[0].undisturbed
    assert isinstance(windows, Undisturbed)
    for said in (f"all {windows.windows_total}", f"{windows.windows} undisturbed"):
        assert f">{said}<" in page
    again = run("report", kept)
    assert again.returncode == 0, again.stderr
    assert "requests/s" in again.stdout
    assert re.search(rf"^all {windows.windows_total} .*\n{windows.windows} undisturbed ", again.stdout, re.MULTILINE)
    twice = run("load", f"http://{address}/", *QUICK, "--output", kept)
    assert twice.returncode == 2
    assert "already holds a run" in twice.stderr


def test_outputs_for_other_programs(root: Path, tmp_path: Path) -> None:
    csv, parquet, prometheus = tmp_path / "run.csv", tmp_path / "run.parquet", tmp_path / "run.prom"
    outputs = ("--csv", csv, "--parquet", parquet, "--prometheus", prometheus)
    with serving(root) as (address, _):
        done = run("load", f"http://{address}/", *QUICK, *outputs)
    assert done.returncode == 0, done.stderr
    rows = polars.read_csv(csv)
    assert rows.height == polars.read_parquet(parquet).height >= 8
    assert rows["requests"].sum() > 100
    text = prometheus.read_text()
    samples = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if not line.startswith("#")}
    assert samples["sojourn_load_requests"] == rows["requests"].sum()
    assert samples["sojourn_load_response_time_seconds_count"] == rows["requests"].sum()
    assert samples["sojourn_load_errors"] == 0
    assert samples['sojourn_load_response_time_seconds{quantile="0.99"}'] > 0
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) sojourn_load_\w+ .*|sojourn_load_\w+(\{\w+=\"[^\"]*\"\})? [-+0-9.e]+", line)


def test_embedded_records_read_back(root: Path, tmp_path: Path) -> None:
    printed = tmp_path / "run.json"
    with serving(root) as (address, _):
        done = run("load", f"http://{address}/", *QUICK, "--embed", "--threshold", "p50<1s", "--format", "json")
    printed.write_text(done.stdout)
    result = folder.read(printed)
    assert len(result.latencies["response_time"]) == result.requests
    assert len(result.intervals) >= 8
    assert not np.isnan(result.timeline["requests_per_second"]).any()


def test_thresholds_decide_the_exit_code(root: Path) -> None:
    with serving(root) as (address, _):
        load = ("load", f"http://{address}/", *QUICK)
        good = run(*load, "--threshold", "p99<10s", "--threshold", "error_rate<1%")
        bad = run(*load, "--threshold", "p99<1ns", "--threshold", "rps>1/s", "--format", "json")
    assert good.returncode == 0, good.stdout + good.stderr
    assert len(re.findall(r"^pass  ", good.stdout, re.MULTILINE)) == 2
    assert bad.returncode == 1
    verdicts = json.loads(bad.stdout)["thresholds"]
    assert [verdict["passed"] for verdict in verdicts] == [False, True]
    assert verdicts[0]["low"] <= verdicts[0]["value"] <= verdicts[0]["high"]


@pytest.mark.parametrize(
    ("threshold", "word"), [("p99", "METRIC"), ("p99<5", "200ms"), ("speed<5ms", "error_rate"), ("rps>fast", "1000/s")]
)
def test_a_threshold_that_is_none_says_what_one_is(threshold: str, word: str) -> None:
    done = run("load", "http://127.0.0.1:1/", "--clients", "1", "--threshold", threshold)
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert word in done.stderr.split("hint:")[1]


def test_the_live_view_draws_on_a_terminal_and_leaves_the_result(root: Path) -> None:
    with serving(root) as (address, _):
        load = ("load", f"http://{address}/", "--clients", "2", "--duration", "2500ms")
        code, output, text = run_on_a_terminal(*load)
    assert code == 0
    assert text.count("requests/s") >= 2
    assert re.search(r"p99 +[\d.]+ (µs|ms)", text)
    assert text.endswith("\x1b[J"), "the view wipes itself"
    assert "requests/s" in output
    assert "\x1b" not in output


def test_an_interrupted_run_on_a_terminal_is_kept(root: Path, tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    with serving(root) as (address, _):
        words = ["load", f"http://{address}/", "--rate", "50", "--duration", "10m", "--output", str(tmp_path / "run")]
        with subprocess.Popen([str(SOJOURN), *words], stdout=subprocess.PIPE, stderr=terminal, text=True) as process:
            os.close(terminal)
            wait_until_begun(process)
            drawn = b""
            while drawn.count(b"requests/s") < 2:
                drawn += os.read(main, 65536)
            process.send_signal(signal.SIGINT)
            drain = threading.Thread(target=_drain, args=(main,), daemon=True)
            drain.start()
            output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    assert json.loads((tmp_path / "run" / "result.json").read_text())["interrupted"]
    assert "NOT COMPLETE" in output or "interrupted" in output


def _drain(terminal: int) -> None:
    # A terminal that nobody reads fills up, and whoever draws on it waits.
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass


def test_a_dead_server_is_an_error_and_not_a_traceback() -> None:
    done = run("load", "http://127.0.0.1:1/", *QUICK, "--threshold", "p99<1s")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "refused" in (done.stdout + done.stderr)


def test_plain_loads_become_the_engine(root: Path) -> None:
    with serving(root) as (address, _):
        command = [str(SOJOURN), "load", f"http://{address}/", *QUICK]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            programs = set()
            while process.poll() is None:
                # It may end between the two looks.
                with contextlib.suppress(FileNotFoundError):
                    programs.add(os.readlink(f"/proc/{process.pid}/exe"))
    assert str(engine.path().resolve()) in programs


def test_runs_are_compared(root: Path, tmp_path: Path) -> None:
    with serving(root) as (address, _):
        runs = [tmp_path / name for name in ("a1", "a2", "b1", "b2")]
        for kept in runs:
            assert run("load", f"http://{address}/", *QUICK, "--output", kept).returncode == 0
    done = run("compare", f"{runs[0]},{runs[1]}", f"{runs[2]},{runs[3]}", "--format", "json")
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout)
    found = {each["metric"]: each for each in compared["differences"]}
    assert found["p99"]["ratio_low"] < found["p99"]["ratio"] < found["p99"]["ratio_high"]
    assert compared["runs"] == [2, 2]
    assert not compared["void_because"]
    said = run("compare", runs[0], runs[2])
    assert "verdict at 95 %" in said.stdout
    assert "single runs do not show" in said.stdout
    missing = run("compare", runs[0], tmp_path / "nowhere")
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr


def test_a_load_is_repeated_in_turn_with_another_server_and_a_regression_ends_with_one(tmp_path: Path) -> None:
    kept = tmp_path / "runs"
    short = ("--clients", "2", "--duration", "500ms", "--warm-up", "100ms", "--repeat", "3")
    with paced_server(0.004) as fast, paced_server(0.040) as slow:
        verdict = ("--max-regression", "10%", "--format", "json")
        done = run("load", slow, "--against", fast, *short, *verdict, "--output", kept)
        again = run("load", fast, *short, "--baseline", kept / "second", *verdict)
    assert done.returncode == 1, done.stderr
    printed = json.loads(done.stdout)
    compared = printed["comparison"]
    assert (compared["measured"], compared["runs"]) == ("alternately", [3, 3])
    found = {each["metric"]: each for each in compared["differences"]}
    assert found["mean"]["regression"] == "shown"
    assert [len(each["runs"]) for each in printed["groups"]] == [3, 3]
    # Both runs of a pair ask for the same, and each run is one of its own.
    assert [[each["seed"] for each in side["runs"]] for side in printed["groups"]] == [[1, 2, 3], [1, 2, 3]]
    assert again.returncode == 0, again.stderr
    assert {each["finding"] for each in json.loads(again.stdout)["comparison"]["differences"][:3]} == {"better"}
    said = run("compare", kept / "first", kept / "second", "--max-regression", "10%")
    assert said.returncode == 1
    assert "shown to be worse by more than 10 %: rps, mean" in said.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-regression", "5%"), "needs something to compare with"),
        (("--against", "http://127.0.0.1:2/", "--baseline", "runs/a"), "give one of them"),
        (("--against", "http://127.0.0.1:2/", "--observe-pid", "1"), "--observe-pid names one server"),
        (("--repeat", "2", "--csv", "a.csv"), "each describe a single run"),
        (("--repeat", "2", "--web"), "--web shows a single run"),
        (("--search", "p99<1s", "--prometheus", "a.prom"), "each describe a single run"),
        (("--search", "p99<1s", "--web"), "--web shows a single run"),
        (("--search", "p99<1s", "--threshold", "error_rate<0.1%"), "--threshold judges a single run"),
        (("--repeat", "2", "--search", "p99<1s"), "--search repeats its runs by itself"),
        (("--baseline", "nowhere"), "nowhere"),
    ],
)
def test_repetitions_that_mean_nothing_are_refused(options: tuple[str, ...], said: str) -> None:
    done = run("load", "http://127.0.0.1:1/", *QUICK, *options)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.alone
@pytest.mark.slow
def test_a_search_finds_a_known_capacity(tmp_path: Path) -> None:
    kept = tmp_path / "search"
    # Ten milliseconds each: 100 requests/s are served, and within a second a backlog of 50 ms builds up at 105.
    with paced_server(0.010) as url:
        load = ("load", url, "--rate", "30", "--arrivals", "constant", "--duration", "1s", "--warm-up", "200ms")
        search = ("--search", "p95<60ms", "--search-precision", "20%", "--search-time", "18s", "--drain", "300ms")
        done = run(*load, *search, "--output", kept, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ending"] in ("precise enough", "out of time"), done.stderr
    assert 90 < found["capacity"] < 115
    assert found["low"] < found["capacity"] < found["high"]
    assert json.loads((kept / "search.json").read_text()) == found
    points = sorted(kept.glob("point-*.json"))
    assert len(points) == len(found["trials"])
    assert folder.read(points[0]).intervals


def test_the_report_of_a_search_is_printed_again(tmp_path: Path) -> None:
    stored = search_without_a_pass().as_json()
    (tmp_path / "search.json").write_text(json.dumps(stored))
    done = run("report", tmp_path, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == stored
    said = run("report", tmp_path)
    assert "the smallest, 500 requests/s, failed" in said.stdout
    assert "report.html" in said.stdout


def test_a_search_says_what_it_varies() -> None:
    done = run("load", "http://127.0.0.1:1/", "--schedule", "10/s for 1s", "--search", "p95<1s")
    assert done.returncode == 2
    assert "--rate or --clients" in done.stderr
