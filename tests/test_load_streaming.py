"""`sojourn load rtsp://`: what a person or a CI job gets of viewers, and how many of them a server carries."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import SOJOURN, run, run_on_a_terminal, wait_until_begun
from film_server import film_server
from sojourn.loading import folder

VIEWERS = ("--clients", "4", "--duration", "1s", "--prebuffer", "10s", "--lag-limit", "10s")
"""On a busy machine nobody is late: the server's and the generator's own delays say nothing here."""


def test_what_became_of_the_streams(tmp_path: Path) -> None:
    rows, families, kept = tmp_path / "rows.csv", tmp_path / "streams.prom", tmp_path / "run"
    with film_server(viewers_max=3) as server:
        outputs = ("--csv", rows, "--prometheus", families, "--output", kept, "--interval", "200ms")
        done = run("load", server.url, *VIEWERS, *outputs, "--threshold", "conforming>=99%", "--format", "json")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    streams, packets = result["streaming"]["streams"], result["streaming"]["packets"]
    assert (streams["started"], streams["judged"], streams["conforming"]) == (4, 4, 3)
    assert streams["refused_by_status"] == {"453": 1}
    assert packets["lost"] == 0
    assert packets["received"] >= 3 * 50
    assert result["generator"]["arrival_clock"].startswith("from the kernel")
    assert result["thresholds"][0]["value"] == 0.75
    assert not result["thresholds"][0]["passed"]
    with rows.open() as file:
        table = list(csv.DictReader(file))
    assert len(table) >= 3
    assert max(float(row["streams_playing"]) for row in table) == 3
    assert all(float(row["unix_seconds"]) > 1e9 for row in table)
    assert "sojourn_load_streams_conforming_fraction 0.75" in families.read_text()
    page = (kept / "report.html").read_text()
    assert 'id="plot-streams"' in page
    assert "75 %" in page
    assert "NaN" not in page
    drawn = run("report", kept)
    assert drawn.returncode == 0, drawn.stderr
    again = folder.read(kept)
    assert again.is_streams
    assert again.interval_table.keys() == set(table[0])
    assert again.quantile(1.0, "time_to_first_packet") > 0


def test_text_and_the_live_view() -> None:
    with film_server(viewers_max=9) as server:
        code, output, drawn = run_on_a_terminal("load", server.url, *VIEWERS, "--interval", "200ms")
        plain = run("load", server.url, *VIEWERS)
    assert code == 0
    assert "4 of 4 streams conform" in output
    assert "conforming" in drawn
    assert "behind" in drawn
    assert plain.returncode == 0, plain.stderr
    assert "4 of 4 streams conform (100 %)" in plain.stdout


def test_a_probed_server_says_what_a_stream_costs() -> None:
    with film_server(viewers_max=9) as server:
        done = run("load", server.url, *VIEWERS, "--probe-pid", str(os.getpid()), "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["probe"]["cpu_seconds_per_stream_second"] > 0
    assert result["steps"][0]["probe"]["counters"]["cpu_seconds"]["total"] > 0


def test_a_search_finds_how_many_are_carried() -> None:
    wanted = ("--search", "conforming>=99%", "--search-precision", "40%", "--search-time", "2m")
    quick = ("--clients", "2", "--duration", "300ms", "--prebuffer", "10s", "--lag-limit", "10s")
    with film_server(viewers_max=5) as server:
        done = run("load", server.url, *quick, *wanted, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["unit"] == "streams"
    assert found["low"] <= 5.5
    assert found["high"] >= 5
    for each in found["loads"]:
        assert each["passed"] == (each["runs"] if each["load"] <= 5 else 0), each


def test_an_interrupted_run_says_what_it_had() -> None:
    with film_server(viewers_max=9) as server:
        command = [str(SOJOURN), "load", server.url, "--clients", "3", "--duration", "10m", "--format", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_until_begun(process)
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            output, talk = process.communicate(timeout=60)
    assert process.returncode == 1, talk
    result = json.loads(output)
    assert result["interrupted"]
    assert not result["complete"]
    assert result["streaming"]["packets"]["received"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--threshold", "p99<1s"), "is not a metric of streams"),
        (("--slow", "5%"), "--slow needs --transport tcp"),
        (("--cluster", "local:2"), "1 clients cannot be shared by 2 machines"),
        (("--media", "/nonexistent"), "cannot read /nonexistent"),
        (("--rate", "5"), "unexpected argument"),
    ],
)
def test_slips_are_refused(words: tuple[str, ...], said: str) -> None:
    done = run("load", "rtsp://127.0.0.1:1/film", *words)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout
    assert run("load", "rtsp://", "--help").stdout.startswith("Load a streaming server")
