"""The streaming benchmark: its page, and a quick run beside whatever is installed; not its figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stream.__main__ import FULL, within
from benchmarks.stream.cell import Cell
from benchmarks.stream.contestants import CONTESTANTS
from benchmarks.stream.page import page, said
from conftest import REPOSITORY
from sojourn.failure import CouldNotRun

RUN: dict[str, Any] = {
    "revision": "abc",
    "date": "2026-11-22 10:00 UTC",
    "command": "benchmarks/stream/bench",
    "seed": 1,
    "quick": False,
    "seconds": 60,
    "clients": 20,
    "search_seconds": 30,
    "busy_fraction": 0.0,
    "environment": {"kernel": "6"},
}


def test_the_page_says_what_was_measured_and_what_was_not() -> None:
    measured = Cell(
        "sojourn",
        "300k",
        "udp",
        20,
        conforming_fraction=1.0,
        cpu_seconds_per_stream_second=2e-4,
        resident_bytes_per_stream=4096.0,
        behind_p99_seconds=0.004,
        bits_per_second_per_stream=310e3,
        capacity_low=3000.0,
        ending="generator",
    )
    lacking = Cell("VLC", "300k", "udp", 20, trouble="VLC: not installed")
    text = page(RUN, [lacking, measured], complete=True)
    rows = [line for line in text.splitlines() if line.startswith("| 300k, udp: ")]
    assert rows[0] == "| 300k, udp: sojourn | 200 µs | 4 KiB | 100 % | 4 ms | 310 |"
    assert rows[1] == "| 300k, udp: VLC | – | – | – | – | – |"
    assert "at least 3,000" in rows[2]
    assert "- VLC: not installed" in text
    assert said(lacking).endswith("VLC: not installed")


def test_a_time_is_shared_out() -> None:
    effort = within(8, 12)
    assert 12 * (effort.seconds + effort.search_budget_seconds) < 8 * 60
    assert effort.seconds >= 3
    assert within(600, 2).search_seconds == FULL.search_seconds
    with pytest.raises(CouldNotRun, match="too few for 12 cells"):
        within(2, 12)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="server and generator need a core each")
@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg to make a film")
def test_a_quick_run_measures_what_is_installed(entered_path: Path) -> None:
    bench = REPOSITORY / "benchmarks" / "stream" / "bench"
    words = [str(bench), "--quick", "--rates", "300k", "--transports", "udp", "--output", str(entered_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    lacking = {each.name for each in CONTESTANTS if each.lacking() is not None}
    cells = [json.loads(line) for line in (entered_path / "cells.jsonl").read_text().splitlines()[1:]]
    assert {cell["contestant"] for cell in cells} == {each.name for each in CONTESTANTS}
    for cell in cells:
        if cell["contestant"] in lacking:
            assert cell["trouble"]
        else:
            assert cell["trouble"] is None, cell
            assert cell["cpu_seconds_per_stream_second"] > 0
    assert "## How many streams conform" in (entered_path / "stream-benchmark.md").read_text()
