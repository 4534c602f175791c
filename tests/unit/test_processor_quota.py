"""Limiting the cores of processes that run already: they get no more, their children neither, and all are let go."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sojourn.applications.verification import processor_quota
from sojourn.applications.verification.processor_quota import ROUNDS_MAX, ProcessorQuota
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


class Machine:
    """Control groups in a folder, and processes of which some start others while they are moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, base: Path, starts: dict[int, int]) -> None:
        self.base, self.starts = base, starts
        self.parents = dict[int, int]()
        self.groups = {1: base / "home"}
        monkeypatch.setattr(processor_quota, "_hierarchy", lambda: (base, True))
        monkeypatch.setattr(processor_quota, "_path", lambda pid, _: f"/{self.groups[pid].name}")
        monkeypatch.setattr(processor_quota, "_join", self.join)
        monkeypatch.setattr(processes, "members", self.members)

    def members(self, pids: list[int]) -> set[int]:
        found = set(pids)
        while further := {pid for pid, parent in self.parents.items() if parent in found} - found:
            found |= further
        return found

    def join(self, group: Path, pid: int) -> None:
        # What it starts just before is where it was itself.
        if (child := self.starts.pop(pid, None)) is not None:
            self.parents[child], self.groups[child] = pid, self.groups[pid]
        self.groups[pid] = group
        inside = [str(each) for each, where in self.groups.items() if where.name.startswith("sojourn-")]
        for folder in self.base.glob("sojourn-*"):
            (folder / "cgroup.procs").write_text("\n".join(inside))


def test_processes_that_are_started_while_others_are_moved_are_moved_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, {1: 2, 2: 3})
    with ProcessorQuota("test", [1], 0.5):
        assert {pid for pid, group in machine.groups.items() if group.name.startswith("sojourn-")} == {1, 2, 3}
    assert {group.name for group in machine.groups.values()} == {"home"}


def test_processes_that_start_others_without_end_are_followed_for_a_while(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, {pid: pid + 1 for pid in range(1, 100)})
    ProcessorQuota("test", [1], 0.5).__enter__()
    assert sum(group.name.startswith("sojourn-") for group in machine.groups.values()) == ROUNDS_MAX
