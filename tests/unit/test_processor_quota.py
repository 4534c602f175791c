"""Limiting the cores of processes that run already: they get no more, their children neither, and all are let go."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sojourn.applications.verification.processor_quota import ProcessorQuota
from sojourn.failure import CouldNotRun
from sojourn.tiers import processes

BURNS = "import os, time\nos.fork()\nwhile True: pass"


def cpu_seconds(pids: set[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_processes_get_so_much_and_are_let_go() -> None:
    with subprocess.Popen([sys.executable, "-c", BURNS], process_group=0) as process:
        try:
            while len(processes.members([process.pid])) < 2:
                time.sleep(0.01)
            pids = processes.members([process.pid])
            before = Path(f"/proc/{process.pid}/cgroup").read_text()
            try:
                with ProcessorQuota("test", pids, 0.2):
                    time.sleep(0.2)
                    begin, used = time.monotonic(), cpu_seconds(pids)
                    time.sleep(1.0)
                    fraction = (cpu_seconds(pids) - used) / (time.monotonic() - begin)
                    assert Path(f"/proc/{process.pid}/cgroup").read_text() != before
            except CouldNotRun as failure:
                pytest.skip(failure.said)
            assert fraction < 0.35
            assert Path(f"/proc/{process.pid}/cgroup").read_text() == before
        finally:
            for pid in processes.members([process.pid]):
                os.kill(pid, 9)


def test_a_process_that_is_gone_is_no_failure() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    try:
        with ProcessorQuota("gone", [process.pid], 0.5) as quota:
            assert quota is not None
    except CouldNotRun as failure:
        pytest.skip(failure.said)
