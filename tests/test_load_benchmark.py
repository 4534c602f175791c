"""The load benchmark runs: its structure, not its times, which moments on a shared machine say nothing of."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.server.competitors import null_responder_path
from conftest import REPOSITORY
from sojourn.failure import CouldNotRun

BENCH = REPOSITORY / "benchmarks" / "load" / "bench"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BENCH), *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="server and generator need a core each")
def test_a_quick_run_measures_every_cell_and_writes_the_page(tmp_path: Path) -> None:
    try:
        null_responder_path()
    except CouldNotRun:
        pytest.skip("the null responder is not built")
    only = ("--only", "closed,open", "--generators", "sojourn")
    done = bench("--quick", "--output", str(tmp_path / "run"), "--docs", str(tmp_path / "docs"), *only)
    assert done.returncode == 0, done.stderr
    _, *cells = map(json.loads, (tmp_path / "run" / "cells.jsonl").read_text().splitlines())
    assert sorted(cell["condition"] for cell in cells) == ["closed", "open"]
    for cell in cells:
        assert cell["trouble"] is None, cell
        assert 1e-7 < cell["cpu_seconds_per_request"] < 1e-2
    text = (tmp_path / "docs" / "load-benchmark.md").read_text()
    assert "### 500 B, keep-alive, 64 clients in a closed loop" in text


def test_what_it_cannot_run_it_says() -> None:
    done = bench("--only", "nothing")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no condition is named nothing\nhint: one or more of ")
