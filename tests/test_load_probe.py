"""What a server uses while it is loaded: in the same tables as the latencies, recorded beside the run or elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import polars
import pytest

from conftest import SOJOURN, run, wait_until_begun
from sojourn.loading import folder
from test_commands import serving

LOAD = ("--clients", "4", "--duration", "2s", "--warm-up", "300ms")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    (site / "index.html").write_text("<p>hello</p>")
    return site


def test_the_servers_counters_are_in_every_table(root: Path, tmp_path: Path) -> None:
    kept, csv = tmp_path / "run", tmp_path / "run.csv"
    with serving(root) as (address, server):
        done = run("load", f"http://{address}/", *LOAD, "--probe", "--output", kept, "--csv", csv, "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert server.pid in result["probe"]["pids"]
    step = result["steps"][0]["probe"]
    user, system = (step[f"cpu_{part}_seconds_per_request"] for part in ("user", "system"))
    assert user + system == pytest.approx(step["cpu_seconds_per_request"])
    used = step["counters"]
    assert used["cpu_seconds"]["total"] > 0
    assert used["resident_bytes"]["mean"] > 0
    assert used["accept_queue"]["maximum"] >= 0
    rows = polars.read_csv(csv)
    per_interval = (rows["probe_cpu_seconds_per_second"] * rows["length_seconds"]).sum()
    assert per_interval == pytest.approx(used["cpu_seconds"]["total"], rel=0.2)
    timeline = polars.read_parquet(kept / "timeline.parquet")
    assert {"unix_seconds", "probe_cpu_user_seconds", "probe_minor_faults"} <= set(timeline.columns)
    again = folder.read(kept)
    assert again.recording is not None
    assert again.interval_table.keys() == set(rows.columns)
    page = (kept / "report.html").read_text()
    assert 'id="plot-server-cpu"' in page
    assert "NaN" not in page


def test_a_recording_from_elsewhere_is_joined_by_time(root: Path, tmp_path: Path) -> None:
    kept, recording = tmp_path / "run", tmp_path / "server.parquet"
    with serving(root) as (address, server):
        probe = [str(SOJOURN), "probe", "--pid", str(server.pid), "--output", str(recording), "--format", "json"]
        with subprocess.Popen(probe, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probing:
            wait_until_begun(probing)
            loaded = run("load", f"http://{address}/", *LOAD, "--output", kept)
            os.kill(probing.pid, signal.SIGINT)
            probing.communicate(timeout=60)
    assert loaded.returncode == 0, loaded.stderr
    joined = run("join-probe", kept, recording, "--format", "json")
    assert joined.returncode == 0, joined.stderr
    spent = json.loads(joined.stdout)["probe"]["counters"]["cpu_seconds"]["total"]
    assert spent > 0
    moved = run("join-probe", kept, recording, "--offset", "-500ms", "--format", "json")
    assert json.loads(moved.stdout)["probe"]["offset_seconds"] == -0.5
    apart = run("join-probe", kept, recording, "--offset", "1h")
    assert apart.returncode == 2
    assert "--offset" in apart.stderr
    # What could not be joined leaves the run as it was.
    probe = folder.read(kept).record.probe
    assert probe is not None
    assert probe.offset_seconds == -0.5


def test_a_server_elsewhere_cannot_be_probed_from_here() -> None:
    done = run("load", "http://192.0.2.1/", *LOAD, "--probe")
    assert done.returncode == 2
    assert "join-probe" in done.stderr


@pytest.mark.parametrize("option", [("-H", "Origin: https://shop.example"), ("--body", "http://127.0.0.1:9/x")])
def test_an_address_in_an_option_is_not_the_server_that_is_probed(option: tuple[str, str]) -> None:
    done = run("load", *option, "http://192.0.2.1/", *LOAD, "--probe")
    assert done.returncode == 2
    assert "192.0.2.1 is not this machine" in done.stderr


def test_a_probe_that_finds_nobody_says_so() -> None:
    done = run("load", "http://127.0.0.1:9/", *LOAD, "--probe")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "port 9" in done.stderr
