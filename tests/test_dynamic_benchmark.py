"""The benchmark of dynamic content: its structure, not its times, which moments on a shared machine say nothing of."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from benchmarks.server.competitors import null_responder_path
from server_benchmarks import bench, says_what_it_cannot_run
from sojourn.failure import CouldNotRun


def _skip_without_responder() -> None:
    try:
        null_responder_path()
    except CouldNotRun:
        pytest.skip("the null responder is not built")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="gateway and generator need a core each")
def test_gateways_are_measured_in_turn(tmp_path: Path) -> None:
    _skip_without_responder()
    moments = ("--in-turn", "--repetitions", "6", "--duration", "100ms", "--warm-up", "50ms")
    who = ("--only", "fastcgi-1KB,cgi-1KB", "--gateways", "amped,null-*")
    done = bench("dynamic", *moments, *who, "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    _, *cells = map(json.loads, (tmp_path / "cells.jsonl").read_text().splitlines())
    assert len(cells) == 2 * 2 * 6
    for cell in cells:
        assert cell["trouble"] is None, cell
        assert 1e-7 < cell["cpu_seconds_per_request"] < 1e-1
    for name, floor in (("fastcgi-1KB", "null-gateway"), ("cgi-1KB", "null-spawn")):
        said = rf"{name} amped: \d+\.\d+ of {floor} \(\d+\.\d+ to \d+\.\d+ at 95 %, 6 rounds\)"
        assert re.search(said, done.stdout), done.stdout


def test_what_it_cannot_run_it_says(tmp_path: Path) -> None:
    says_what_it_cannot_run("dynamic", "--gateways")
    done = bench("dynamic", "--in-turn", "--resume", "--output", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: benchmarks/dynamic/bench never goes on in turn\nhint: leave --in-turn or ")
    done = bench("server", "--in-turn", "--only", "idle,start", "--output", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: memory and starting are not measured in turn\nhint: leave --in-turn out")
