"""The server benchmark runs: its structure, not its times, which moments on a shared machine say nothing of."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from server_benchmarks import bench, says_what_it_cannot_run


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="server and generator need a core each")
def test_a_quick_run_measures_every_cell_and_writes_the_page(tmp_path: Path) -> None:
    names = ["keep-alive-500B", "keep-alive-50KB", "close-500B", "access-log", "httparena-64", "idle", "start"]
    if shutil.which("h2load") and shutil.which("openssl"):
        names += ["https-500B", "http2-500B-10", "handshake-full", "handshake-resumed"]
    only = ("--only", ",".join(names), "--servers", "amped")
    done = bench("server", "--quick", "--output", str(tmp_path / "run"), "--docs", str(tmp_path / "docs"), *only)
    assert done.returncode == 0, done.stderr
    run, *cells = map(json.loads, (tmp_path / "run" / "cells.jsonl").read_text().splitlines())
    assert run["congestion_control"]
    assert sorted(cell["condition"] for cell in cells) == sorted(names)
    assert {cell["competitor"] for cell in cells} == {"amped"}
    for cell in cells:
        assert cell["trouble"] is None, cell
        if cell["condition"] == "idle":
            assert cell["memory"]["connections"] == 10_000
            assert cell["memory"]["resident_bytes_after"] > cell["memory"]["resident_bytes_before"] > 0
        elif cell["condition"] == "start":
            assert 1e-4 < cell["start"]["seconds"] < 10
            assert min(cell["start"]["proportional_bytes"], cell["start"]["program_bytes"]) > 100_000
        else:
            assert cell["requests"] > 0
            # The resolution of a moment's CPU time is fine, but it must be of one request and not of all.
            assert 1e-7 < cell["cpu_seconds_per_request"] < 1e-2
    text = (tmp_path / "docs" / "server-benchmark.md").read_text()
    assert text == (tmp_path / "run" / "server-benchmark.md").read_text()
    assert "### 500 B, a connection per request, 64 clients" in text
    assert "## Memory of 10,000 idle connections" in text
    assert "$" not in text
    for name in ("cost-by-size", "ratio-by-size"):
        shown = tmp_path / "docs" / f"server-benchmark-{name}.svg"
        assert shown.is_file() == (name == "cost-by-size"), "beside nginx only with nginx"
        if shown.is_file():
            assert ElementTree.parse(shown).getroot().tag.endswith("svg")

    again = bench("server", "--quick", "--resume", "--output", str(tmp_path / "run"), *only)
    assert again.returncode == 0, again.stderr
    assert len((tmp_path / "run" / "cells.jsonl").read_text().splitlines()) == 1 + len(cells), "nothing was missing"


def test_what_it_cannot_run_it_says() -> None:
    says_what_it_cannot_run("server", "--servers")
