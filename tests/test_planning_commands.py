"""`predict`, `simulate` and `plan` as a person or a script meets them."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import polars
import pytest

from conftest import REPOSITORY, SOJOURN, run, wait_until_begun

SYSTEMS = REPOSITORY / "studies" / "systems"
SITE = SYSTEMS / "public-site.toml"
WIDE = {**os.environ, "COLUMNS": "200"}
NAMES = ("public-site", "isp-with-proxy", "entire-model")


@pytest.mark.parametrize("name", NAMES)
def test_predict_every_example(name: str) -> None:
    done = run("predict", SYSTEMS / f"{name}.toml", "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result["response_time_seconds"]) >= {"mean", "p50", "p90", "p95", "p99", "p999", "max"}
    assert 0.2 < result["response_time_seconds"]["mean"] < 0.4
    assert result["bottleneck"]["station"] in ("line", "provider-line")
    for outcome in result["solvers"].values():
        assert (outcome["answer"] is None) != (outcome["refusal"] is None)


def test_predict_side_by_side_with_simulation() -> None:
    done = run("predict", SYSTEMS / "isp-with-proxy.toml", "--simulate", env=WIDE)
    assert done.returncode == 0, done.stderr
    for word in ("mva", "fixed-point", "simulation", "open refused", "bottleneck", "N*", "p95", "utilisation"):
        assert word in done.stdout, word


def test_predict_with_settings() -> None:
    def mean(*settings: str) -> float:
        done = run("predict", SITE, *(part for each in settings for part in ("--set", each)), "--format", "json")
        assert done.returncode == 0, done.stderr
        return float(json.loads(done.stdout)["response_time_seconds"]["mean"])

    assert mean("traffic=2") > mean() > mean("station.web.speed=2", "station.line.rate=3Mbit/s")


def test_predict_an_overloaded_system_says_so() -> None:
    done = run("predict", SITE, "--set", "class.visitors.rate=40/s", env=WIDE)
    assert done.returncode == 1
    assert "NO ANSWER" in done.stdout
    assert f"error: {SITE}: station line is unstable: its utilisation would be 1.81" in done.stderr
    assert "hint: lower the rate" in done.stderr
    assert "is unstable: its utilisation would be" in done.stdout
    # The file that the setting makes is nobody's to look into.
    assert "(line" not in done.stdout


HOLDS = """
name = "holding"
[stations.helpers]
discipline = "lps"
r = 4
[stations.line]
discipline = "ps"
[classes.requests]
rate = "20/s"
route = [
    { station = "helpers", demand = "10ms" },
    { station = "line", demand = "20ms", holds = "helpers" },
]
"""
"""A job keeps its helper while it is sent: every analytic solver refuses that."""


def test_predict_simulates_where_every_solver_refuses(tmp_path: Path) -> None:
    path = tmp_path / "holding.toml"
    path.write_text(HOLDS)
    done = run("predict", path, "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert all(solver["answer"] is None and solver["refusal"] for solver in result["solvers"].values())
    assert result["by"] == "simulation"
    assert 0.03 < result["response_time_seconds"]["mean"] < 0.1


@pytest.mark.parametrize("command", ["predict", "simulate", "plan"])
def test_a_wrong_name_in_a_system_file(command: str, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(SITE.read_text().replace('"web", "line"', '"wbe", "line"'))
    more = ("--target", "mean < 1s") if command == "plan" else ()
    done = run(command, path, *more)
    assert done.returncode == 2
    assert f"{path}, line 25: unknown station `wbe`" in done.stderr
    assert "hint: did you mean `web`?" in done.stderr


@pytest.mark.parametrize("command", ["predict", "simulate", "plan"])
def test_a_wrong_setting(command: str) -> None:
    more = ("--target", "mean < 1s") if command == "plan" else ()
    done = run(command, SITE, "--set", "station.lin.rate=2Mbit/s", *more)
    assert done.returncode == 2
    assert "no station is named lin" in done.stderr
    assert "hint: did you mean line?" in done.stderr


def test_no_such_system() -> None:
    done = run("predict", "nowhere.toml")
    assert done.returncode == 2
    assert "nowhere.toml" in done.stderr
    assert "hint:" in done.stderr


def test_simulate_to_a_half_width_of_a_percentile() -> None:
    arguments = ("--percentile", "p95", "--half-width", "2%", "--replications", "2", "--seed", "7", "--format", "json")
    done = run("simulate", SITE, *arguments)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    times = result["response_time_seconds"]
    assert result["converged"]
    assert (result["seed"], result["replications"]) == (7, 2)
    assert times["p95_half_width"] <= 0.02 * times["p95"]
    assert json.loads(run("simulate", SITE, *arguments).stdout) == result


def test_simulate_an_overloaded_system_ends_with_the_reason(tmp_path: Path) -> None:
    done = run("simulate", SITE, "--set", "traffic=5", env=WIDE)
    assert done.returncode == 1
    assert not done.stdout
    assert f"{SITE}: station line is unstable" in done.stderr
    assert "hint: lower the rate" in done.stderr
    path = tmp_path / "site.toml"
    path.write_text(SITE.read_text().replace('rate = "5/s"', 'rate = "50/s"'))
    done = run("simulate", path)
    assert done.returncode == 1
    assert f"{path}: station line is unstable: its utilisation would be" in done.stderr


@pytest.mark.parametrize("half_width", ["2", "none", "0%"])
def test_a_half_width_that_is_no_share(half_width: str) -> None:
    done = run("simulate", SITE, "--half-width", half_width)
    assert done.returncode == 2
    assert "2%" in done.stderr


def test_ctrl_c_prints_the_estimate_so_far() -> None:
    command = [str(SOJOURN), "simulate", str(SITE), "--half-width", "0.001%", "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until_begun(process)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        output, talk = process.communicate(timeout=60)
    assert process.returncode == 1, talk
    result = json.loads(output)
    assert (result["complete"], result["stop"]) == (False, "interrupted")
    assert result["response_time_seconds"]["mean"] == pytest.approx(0.283, rel=0.05)
    assert "interrupted" in talk


def test_progress_on_a_terminal_has_the_half_width() -> None:
    main, end = pty.openpty()
    command = [str(SOJOURN), "simulate", str(SITE), "--half-width", "0.1%", "--jobs-max", "3000000"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=end, env=environment) as process:
        os.close(end)
        shown = b""
        while True:
            try:
                part = os.read(main, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(main)
    assert process.returncode == 0
    assert b"(wanted: 0.10%)" in shown


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan") / "run"
    done = run(
        *("plan", SITE, "--target", "mean < 300ms at 10 req/s", "--output", folder),
        *("--price", "station.line.rate=20/Mbit/s", "--price", "station.web.speed=50"),
        *("--growth", "30%/year", "--from", "2026-11-22", "--sweep", "station.line.rate=1Mbit/s..8Mbit/s"),
    )
    assert done.returncode == 0, done.stderr
    for word in ("not met", "rate of line", "largest traffic", "cheapest", "saturated on", "confirmed by simulation"):
        assert word in done.stdout, word
    return folder


def test_a_plan_answers_everything_that_was_asked(planned: Path) -> None:
    found = json.loads((planned / "plan.json").read_text())
    levers = {lever["parameter"]: lever for lever in found["levers"]}
    line = levers["station.line.rate"]
    assert not found["now"]["met"]
    assert 1.5 < line["needed"] < 2
    assert line["confirmed_seconds"] <= 0.3
    assert found["mix"]["confirmed_seconds"] <= 0.3
    assert found["growth"]["saturated_on"] == "2029-11-26"
    assert [each["parameter"] for each in found["sweeps"]] == ["station.line.rate"]
    settled = run("predict", SITE, "--set", "class.visitors.rate=10/s", "--set", line["setting"], "--format", "json")
    assert json.loads(settled.stdout)["response_time_seconds"]["mean"] == pytest.approx(0.3, rel=0.03)


def test_a_plan_leaves_a_run_folder(planned: Path) -> None:
    report = (planned / "report.html").read_text()
    for word in ("What would meet the target", "Twice as much of one resource", "plot-station-line-rate", "plot-cost"):
        assert word in report, word
    assert "NaN" not in re.sub("<script.*?</script>", "", report, flags=re.DOTALL)
    for plot in ("cost", "station-line-rate"):
        text = "".join(ElementTree.parse(planned / "plots" / f"{plot}.svg").getroot().itertext())
        assert "target: 300 ms" in text
    assert len(polars.read_parquet(planned / "sweeps.parquet")) == 13
    again = run("predict", planned / "system.toml", "--format", "json")
    assert json.loads(again.stdout)["solvers"]["open"]["answer"]["classes"]["visitors"]["throughput_per_second"] == 10


def test_a_plan_does_not_overwrite_a_run(planned: Path) -> None:
    done = run("plan", SITE, "--target", "mean < 300ms", "--output", planned)
    assert done.returncode == 2
    assert "already holds a run" in done.stderr


def test_an_impossible_target_says_what_the_best_is(tmp_path: Path) -> None:
    done = run(
        *("plan", SITE, "--target", "mean < 100ms at 40 req/s", "--output", tmp_path / "run"),
        *("--sweep", "traffic=0.1..0.5"),
        env=WIDE,
    )
    assert done.returncode == 1, done.stderr
    assert "impossible by faster stations: 195 ms remain" in done.stdout
    assert "line is overloaded" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--target", "fast"), "p95 < 300ms"),
        (("--target", "mean < 1s", "--growth", "fast"), "30%/year"),
        (("--target", "mean < 1s", "--from", "soon"), "2026-11-22"),
        (("--target", "mean < 1s", "--price", "station.line.rate=1"), "/Mbit/s"),
        (("--target", "mean < 1s", "--sweep", "station.line.rate=1"), ".."),
        ((), "--target"),
    ],
)
def test_what_cannot_be_planned(arguments: tuple[str, ...], word: str, tmp_path: Path) -> None:
    done = run("plan", SITE, *arguments, "--output", tmp_path / "run")
    assert done.returncode == 2, done.stdout
    assert word in done.stderr
    assert not (tmp_path / "run").exists()


def test_plan_web99() -> None:
    done = run("plan", "web99", "--ram", "4GiB", "--connections", "3800", "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert round(result["ram_alone_connections"]) == 1_241
    assert [round(disk["class3_on_disk_connections"]) for disk in result["disks"]] == [1_039, 869]
    assert result["file_set_bytes"] == pytest.approx(12 * 2**30, rel=1e-4)
    for disk in result["disks"]:
        assert disk["page_cache"]["disk_byte_fraction"] < 1
        assert result["ram_alone_connections"] < disk["cached_connections"] < disk["optimal_connections"]
    said = run("plan", "web99", "--ram", "4GiB", env=WIDE).stdout
    assert "page cache of 4 GiB: connections" in said
    assert "869 (NFS) and 1,039 (local)" in said
    busy = run("plan", "web99", "--connections", "500", "--cpu-time", "100us", "--cores", "2", env=WIDE).stdout
    assert "5,885 connections at 3.40 requests/s each; 500 use 8.5 % of it" in busy, busy
    assert run("plan", "web99", "--connections", "500", "--cpu-time", "0s").returncode == 2
    bare = run("plan", "web99")
    assert bare.returncode == 2
    assert "hint:" in bare.stderr
