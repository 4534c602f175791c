"""The main job end to end, on the installed programs and real servers, with the quick effort.

An assessment takes half a minute, so several tests look at the same one.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any, get_args

import polars
import pytest

from conftest import REAL_LOGS, SOJOURN, run
from sojourn.assessment.summary import Verdict

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def assessed(log: Path | str, output: Path, *options: str) -> dict[str, Any]:
    done = run("assess", log, "--output", output, "--effort", "quick", *options, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads((output / "summary.json").read_text())
    return summary


def looks_like_an_answer(summary: dict[str, Any]) -> None:
    assert summary["complete"]
    assert summary["knee"]["requests_per_second"] > 500
    assert summary["answer"]["largest_rate_requests_per_second"] > 500
    answer = summary["answer"]
    # On a machine with other work the bottleneck may stay unknown, but then for a reason.
    assert answer["bottleneck"] in ("server CPU", "access line", "helpers", None)
    assert answer["bottleneck_because"]
    assert answer["is_lower_bound"] == (answer["lower_bound_because"] is not None)
    highest = max(step["requests_per_second"]["maximum"] for step in summary["steps"])
    assert answer["largest_rate_requests_per_second"] <= 3 * highest
    assert any(step["within_target"] for step in summary["steps"])
    held_out = [step for step in summary["steps"] if step["held_out"]]
    assert held_out
    withheld = any(each["figure"].startswith("model") for each in answer["withheld"])
    assert withheld == (summary["model"] is None)
    assert all((step["simulation"] is None) == withheld for step in held_out)
    assert summary["demand_fit"]["fixed_seconds"]["low"] > 0


def assess_the_example(log: Path, output: Path, *options: str) -> Path:
    assessed(log, output, "--access-line", "100Mbit/s", *options)
    return output


@pytest.fixture(scope="module")
def example_run(example_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of the example log on our server, with one change carried out afterwards."""
    return assess_the_example(example_log, tmp_path_factory.mktemp("example") / "run", "--verify", "half-processor")


@pytest.fixture(scope="module")
def url_run(example_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of the same log on the same server, which runs already and was given by its URL."""
    folder = tmp_path_factory.mktemp("url")
    assert run("trace", example_log, "--build-site", folder / "site").returncode == 0
    command = [str(SOJOURN), "serve", str(folder / "site"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = server.stderr.readline().split()[-1]
        try:
            return assess_the_example(example_log, folder / "run", "--server", f"http://{address}")
        finally:
            server.terminate()


def summary_of(run_folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((run_folder / "summary.json").read_text())
    return summary


def log_of_a_site(name: str, small_log: Path) -> tuple[Path, tuple[str, ...]]:
    """A real log if there is one, otherwise the small one; and the options with which it loads a server."""
    real = REAL_LOGS / name
    return (real, ()) if real.is_file() else (small_log, ("--think-scale", "0.1"))


@pytest.mark.alone
@pytest.mark.slow
def test_the_example_log_on_our_server(example_run: Path) -> None:
    output = example_run
    summary = summary_of(output)
    looks_like_an_answer(summary)
    answer = summary["answer"]
    assert answer["bottleneck"] == "access line"
    line = next(resource for resource in answer["resources"] if resource["name"] == "access line")
    assert 0.5 < line["utilisation"] <= 1.0
    doubled = {entry["resource"]: entry["gain_fraction"] for entry in answer["doubling"]}
    assert doubled["access line"] > 0.5
    assert doubled.get("server CPU", 0.0) == pytest.approx(0.0, abs=1e-6)
    assert tomllib.loads((output / "study.toml").read_text())["access_line_bits_per_second"] == 1e8
    points = polars.read_parquet(output / "points.parquet")
    assert points.height >= len(summary["steps"])
    assert polars.read_parquet(output / "timeline.parquet").height > 10
    assert list((output / "latency").glob("*.hlog"))
    assert (output / "report.html").stat().st_size > 50_000
    assert not (output / "work").exists()
    assert (output / "system.toml").exists() == (summary["model"] is not None)
    if summary["model"] is None:
        return
    simulated = run("simulate", output / "system.toml", "--half-width", "0.1", "--format", "json")
    assert simulated.returncode == 0, simulated.stderr
    assert json.loads(simulated.stdout)["response_time_seconds"]["mean"] > 0


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_as_the_second_system(small_log: Path, tmp_path: Path) -> None:
    log, options = log_of_a_site("calgary_1994-10-24_1995-01-31.log.gz", small_log)
    summary = assessed(log, tmp_path / "run", "--server", "nginx", *options)
    looks_like_an_answer(summary)
    assert summary["system"]["name"] == "nginx"
    assert summary["steps"][0]["server_cpu_seconds_per_request"]["median"] > 1e-6


@pytest.mark.alone
@pytest.mark.slow
def test_a_url_of_a_server_that_runs(url_run: Path) -> None:
    summary = summary_of(url_run)
    assert summary["complete"]
    assert summary["system"]["command"] == []
    assert all(step["server_core_busy_fraction"] is None for step in summary["steps"])
    assert all(step["server_cpu_fraction"] is not None for step in summary["steps"])
    assert summary["knee"]["requests_per_second"] > 500
    assert any("cores of their own" in warning for warning in summary["warnings"])


def started(log: Path, output: Path, *options: str) -> subprocess.Popen[str]:
    command = [str(SOJOURN), "assess", str(log), "--output", str(output), "--effort", "quick", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_kill_keeps_what_was_measured(small_log: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = started(small_log, output, "--think-scale", "0.1", "--repetitions", "20")
    # The first climb is in: the knee was explored.
    wait_for(output / "points.parquet", process)
    time.sleep(1)
    # To the whole process group, as `test_interrupts` types Ctrl-C.
    os.killpg(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["complete"], summary["incomplete_because"]) == (False, "interrupted")
    assert summary["steps"]
    assert "interrupted" in (output / "report.html").read_text()
    assert left_behind(output) == []


@pytest.mark.slow
def test_a_server_that_dies_ends_the_run_and_keeps_what_was_measured(small_log: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = started(small_log, output, "--think-scale", "0.1", "--repetitions", "20")
    wait_for(output / "points.parquet", process)
    for pid in left_behind(output):
        os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    summary = json.loads((output / "summary.json").read_text())
    assert not summary["complete"]
    assert "server" in summary["incomplete_because"]
    assert summary["steps"]


def left_behind(output: Path) -> list[int]:
    """Servers that serve this run's site, by the command lines the kernel shows."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in command and str(output.resolve() / "work" / "site").encode() in command:
            found.append(int(entry.name))
    return found


@pytest.mark.alone
@pytest.mark.slow
def test_two_runs_agree(example_run: Path, url_run: Path) -> None:
    answers = [summary_of(each)["answer"] for each in (example_run, url_run)]
    (low, high), (other_low, other_high) = (
        (each["low_requests_per_second"], each["high_requests_per_second"] or math.inf) for each in answers
    )
    # Not the accuracy of an assessment, which needs the normal effort and a quiet machine: only that the quick one,
    # on a machine that may do other work, does not contradict itself: the intervals overlap, or are near.
    assert low <= 1.5 * other_high
    assert other_low <= 1.5 * high


def verified_or_without_model(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The only change; None where the machine was too busy for a model, which is said then."""
    if summary["model"] is None:
        assert [each["verdict"] for each in summary["verification"]] == ["not measured"] * len(summary["verification"])
        assert any(warning.startswith("Nothing was verified") for warning in summary["warnings"])
        return None
    (made,) = summary["verification"]
    return dict(made)


@pytest.mark.alone
@pytest.mark.slow
def test_a_prediction_is_carried_out(example_run: Path) -> None:
    made = verified_or_without_model(summary_of(example_run))
    if made is None or made["unmade_because"] is not None:
        assert made is None or "control group" in made["unmade_because"]
        return
    folder = example_run / "verification" / "half-processor"
    prediction = json.loads((folder / "prediction.json").read_text())
    assert prediction["measured_knee"] is None
    assert prediction["predicted_capacity_requests_per_second"] == made["predicted_capacity_requests_per_second"]
    assert (folder / "prediction.json").stat().st_mtime < (folder / "points.parquet").stat().st_mtime
    points = polars.read_parquet(folder / "points.parquet")
    # Its own processes had half of a core, however busy the machine is.
    assert points["server_cpu_fraction"].max() < 0.6
    assert made["measured_knee"]["requests_per_second"] > 0
    assert made["verdict"] in get_args(Verdict)
    assert (made["verdict"] == "disturbed") <= bool(made["disturbed_because"])
    page = (example_run / "report.html").read_text()
    assert "predicted beside measured" in page
    assert "plot-verification" in page


@pytest.mark.slow
def test_an_interruption_of_a_change_keeps_the_assessment_and_the_prediction(small_log: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = started(small_log, output, "--think-scale", "0.1", "--verify", "more-helpers,one-helper")
    prediction = output / "verification" / "more-helpers" / "prediction.json"
    while not prediction.exists() and process.poll() is None:
        time.sleep(0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    summary = json.loads((output / "summary.json").read_text())
    made = verified_or_without_model(summary)
    if made is None:
        return
    assert process.returncode == 1, errors
    assert summary["answer"] is not None
    assert "interrupted" in summary["incomplete_because"]
    assert (made["change"], made["unmade_because"]) == ("more-helpers", "interrupted")
    assert (
        made["predicted_capacity_requests_per_second"]
        == json.loads(prediction.read_text())["predicted_capacity_requests_per_second"]
    )
    assert left_behind(output) == []
