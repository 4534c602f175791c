"""The probe and the memory benchmark run: their structure, not their figures, which moments say nothing of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.probe.variants import COMPARED, VARIANTS
from conftest import REPOSITORY


def bench(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(REPOSITORY / "benchmarks" / name / "bench"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="server and generator need a core each")
@pytest.mark.skipif(shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") is None, reason="nginx is not there")
def test_a_short_run_observes_in_every_way(tmp_path: Path) -> None:
    short = ("--repetitions", "1", "--duration", "500ms")
    done = bench("probe", *short, "--servers", "nginx", "--rate", "200", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    cells = records(tmp_path / "cells.jsonl")
    costs = [cell for cell in cells if cell["kind"] == "cost" and cell["load"] == "saturated"]
    assert {cell["variant"] for cell in costs} == {variant.name for variant in VARIANTS}
    for cell in costs:
        # A machine without a PMU or a permission says so; anything else is measured.
        assert cell["trouble"] or 1e-7 < cell["cpu_seconds_per_request"] < 1e-2, cell
    time_wait = [cell for cell in cells if cell["kind"] == "cost" and cell["load"] == "time-wait"]
    assert {cell["variant"] for cell in time_wait} == {variant.name for variant in COMPARED}
    assert not any(cell["trouble"] for cell in costs if cell["variant"] in ("off", "all", "processes"))
    assert "### nginx, saturated" in (tmp_path / "probe-benchmark.md").read_text()


def test_memory_is_measured_beside_whatever_is_installed(tmp_path: Path) -> None:
    done = bench("memory", "--sizes", "1MiB", "--repetitions", "1", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = {figure["tool"]: figure for figure in records(tmp_path / "figures.jsonl")}
    assert max(found["sojourn"]["rates"]["copy-block"]) > 1e8
    for name, program, figure in (("mbw", "mbw", "MCBLOCK"), ("STREAM", "hpcc", "Copy")):
        if shutil.which(program):
            assert max(found[name]["rates"][figure]) > 1e8
        else:
            assert "not installed" in found[name]["trouble"]
    assert "## Measured" in (tmp_path / "memory-benchmark.md").read_text()


def test_arrays_that_mbw_cannot_make_are_refused(tmp_path: Path) -> None:
    done = bench("memory", "--sizes", "1KiB", "--output", str(tmp_path))
    assert done.returncode == 2
    assert "not whole MiB" in done.stderr
