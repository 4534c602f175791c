"""From load runs to a plan, as a person goes: serve, load at several rates, fit, predict, plan."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from conftest import run
from sojourn.calibration import load_runs
from sojourn.loading import folder
from test_commands import serving

RATES = (80, 160, 240)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    site, kept = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("runs")
    (site / "large.bin").write_bytes(bytes(1_000_000))
    with serving(site) as (address, _):
        for rate in RATES:
            words = ("--rate", str(rate), "--duration", "4s", "--warm-up", "500ms", "--lag-limit", "1s", "--probe")
            done = run("load", f"http://{address}/large.bin", *words, "--output", kept / str(rate))
            assert done.returncode == 0, done.stderr
        unprobed = run(
            "load", f"http://{address}/large.bin", "--rate", "50", "--duration", "1s", "--output", kept / "x"
        )
        assert unprobed.returncode == 0, unprobed.stderr
    return [*(kept / str(rate) for rate in RATES), kept / "x"]


def test_load_runs_are_fitted_predicted_and_planned(runs: list[Path], tmp_path: Path) -> None:
    system = tmp_path / "system.toml"
    done = run("fit", *runs[:-1], "--output", system, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kind"] == "load runs"
    demand = found["estimates"]["demand_seconds"]["requests"]["estimate"]
    records = [folder.read(each).record for each in runs[:-1]]
    busy = sum(record.probe.counters["cpu_seconds"].total or 0.0 for record in records if record.probe is not None)
    # All CPU time over all requests, without what the server spends on nobody's behalf.
    assert demand == pytest.approx(busy / sum(record.steps[0].requests for record in records), rel=0.4)  # type: ignore[union-attr]
    assert {each["quantity"] for each in found["held_out"]} == {"utilisation", "response_time_mean"}
    described = tomllib.loads(system.read_text())
    assert described["description"].startswith("Measured at ")
    predicted = run("predict", system, "--format", "json")
    assert predicted.returncode == 0, predicted.stderr
    measured = max(record.steps[0].response_time_sent_seconds.mean for record in records)  # type: ignore[union-attr]
    assert 0 < json.loads(predicted.stdout)["response_time_seconds"]["mean"] < 3 * measured
    planned = run(
        "plan", system, "--target", "mean < 100ms at 200 req/s", "--output", tmp_path / "plan", "--format", "json"
    )
    assert planned.returncode == 0, planned.stderr
    beyond = json.loads(planned.stdout)["never_validated"]
    assert any("largest traffic" in each and "measured up to" in each for each in beyond)
    assert any("no run measured it" in each for each in beyond)


def test_the_report_of_a_fit_has_what_was_measured(runs: list[Path], tmp_path: Path) -> None:
    done = run("fit", *runs[:-1], "--report", tmp_path / "fit.html")
    assert done.returncode == 0, done.stderr
    # Standard output is the system file alone.
    assert tomllib.loads(done.stdout)["name"] == "server"
    assert f"report: {tmp_path / 'fit.html'}" in done.stderr.replace("\n", "")
    content = (tmp_path / "fit.html").read_text()
    assert 'id="table-held-out"' in content
    assert "This report has no calculator" in content or (
        len(re.findall(r'"load":', content)) == len(RATES) and '"path":"class.requests.rate","points":[' in content
    )
    refused = run("fit", *runs[:-1], "--report", tmp_path / "missing" / "fit.html")
    assert refused.returncode == 2
    assert "give another --report" in refused.stderr


def test_the_rate_that_is_asked_for_is_written(runs: list[Path]) -> None:
    done = run("fit", runs[0], "--rate", "777", "--format", "json")
    assert done.returncode == 0, done.stderr
    system = tomllib.loads(json.loads(done.stdout)["system_file"])
    rates = {name: float(each["rate"].removesuffix("/s")) for name, each in system["classes"].items()}
    assert rates["requests"] == pytest.approx(777)


def test_a_run_without_cpu_time_says_how_to_measure_it(runs: list[Path]) -> None:
    done = run("fit", runs[-1])
    assert done.returncode == 2
    assert "CPU time" in done.stderr
    assert "--probe" in done.stderr.split("hint:")[1]


def test_load_runs_are_told_from_other_folders(runs: list[Path], tmp_path: Path) -> None:
    assert load_runs.is_load_run(runs[0])
    assert not load_runs.is_load_run(tmp_path)
    done = run("fit", runs[0], tmp_path)
    assert done.returncode == 2
    assert "cannot be fitted together" in done.stderr


def test_the_runs_of_a_search_are_fitted_together(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    kept = tmp_path / "search"
    with serving(tmp_path) as (address, _):
        # Two runs at one load are enough to be fitted, and no load fails.
        words = ("--rate", "100", "--duration", "2s", "--warm-up", "0s", "--lag-limit", "1s", "--probe")
        done = run("load", f"http://{address}/", *words, "--search", "p95<9s", "--search-time", "9s", "--output", kept)
    assert (kept / "search.json").is_file(), done.stderr
    fitted = run("fit", kept, "--format", "json")
    assert fitted.returncode == 0, fitted.stderr
    found = json.loads(fitted.stdout)
    assert (found["kind"], found["sources"]) == ("load runs", [str(kept)])
    points = [folder.read(each) for each in folder.points(kept)]
    assert len(points) > 1
    assert all(point.recording is not None for point in points)
    rates = found["estimates"]["measured_requests_per_second"]
    measured = [step.requests_per_second for point in points for step in point.of_requests.steps]
    assert rates == [min(measured), max(measured)]  # type: ignore[type-var]
    (tmp_path / "emptied").mkdir()
    (tmp_path / "emptied" / "search.json").write_text((kept / "search.json").read_text())
    empty = run("fit", tmp_path / "emptied")
    assert empty.returncode == 2
    assert "point-*.json" in empty.stderr
