"""The proxy benchmark runs: its structure, not its times, which moments on a shared machine say nothing of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.proxy.conditions import STORED_OBJECTS
from benchmarks.server.competitors import null_responder_path
from server_benchmarks import bench, says_what_it_cannot_run
from sojourn.failure import CouldNotRun


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="proxy and generator need a core each")
def test_a_quick_run_measures_every_cell_and_writes_the_page(tmp_path: Path) -> None:
    try:
        null_responder_path()
    except CouldNotRun:
        pytest.skip("the null responder is not built")
    names = ["hit-500B", "hit-500KB", "keep-5KB", "pass-5KB", "store-500B"]
    only = ("--only", ",".join(names), "--proxies", "amped")
    done = bench("proxy", "--quick", "--output", str(tmp_path / "run"), "--docs", str(tmp_path / "docs"), *only)
    assert done.returncode == 0, done.stderr
    _, *cells = map(json.loads, (tmp_path / "run" / "cells.jsonl").read_text().splitlines())
    assert sorted(cell["condition"] for cell in cells) == names
    for cell in cells:
        assert cell["trouble"] is None, cell
        if cell["condition"] == "store-500B":
            assert cell["stored"]["objects"] == STORED_OBJECTS
            assert cell["stored"]["kept_fraction"] == 1
            grown = cell["stored"]["process_bytes_after"] - cell["stored"]["process_bytes_before"]
            assert 500 < grown / STORED_OBJECTS < 5_000
            continue
        assert 1e-7 < cell["cpu_seconds_per_request"] < 1e-1
        passes = not cell["condition"].startswith("hit-")
        assert (cell["upstream_connections"] is not None) == passes
        if passes:
            assert cell["upstream_connections"] < cell["requests"], "connections are used again"
    text = (tmp_path / "docs" / "proxy-benchmark.md").read_text()
    assert "### 500 KB, from memory" in text
    assert "### 5 KB, through from the origin, and kept" in text
    assert "$" not in text

    again = bench("proxy", "--quick", "--resume", "--output", str(tmp_path / "run"), *only)
    assert again.returncode == 0, again.stderr
    assert len((tmp_path / "run" / "cells.jsonl").read_text().splitlines()) == 1 + len(cells), "nothing was missing"


def test_what_it_cannot_run_it_says() -> None:
    says_what_it_cannot_run("proxy", "--proxies")
