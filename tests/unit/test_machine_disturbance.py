"""The preflight: what disturbs both cores, from made /proc and /sys trees and beside a real burner."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.machine import disturbance
from sojourn.machine.cores import Cores, plan
from sojourn.machine.disturbance import SPARE, Disturbance, between, measure
from sojourn.machine.samples import Sample, sample

ROLES = {0: "server", 1: "generator"}
CPUINFO = "sys/devices/system/cpu/cpu{}/"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def stat(root: Path, *, busy: int = 0, stolen: int = 0, interrupts: int = 0) -> None:
    """Two cores after 200 ticks; core 0 did this, core 1 did nothing."""
    idle = 1000 + 200 - busy - stolen - interrupts
    cores = f"cpu0 {100 + busy} 0 0 {idle} 0 {interrupts} 0 {stolen} 0 0\ncpu1 100 0 0 1200 0 0 0 0 0 0\n"
    write(root, "proc/stat", f"cpu  1 2 3 4 5 6 7 8 9 10\n{cores}intr 1 2 3\n")


def process(root: Path, pid: int, name: str, ticks: int, core: int = 0) -> None:
    fields = ["S", *["0"] * 36]
    fields[14 - 3], fields[39 - 3], fields[22 - 3] = str(ticks), str(core), "77"
    write(root, f"proc/{pid}/task/{pid}/stat", f"{pid} ({name}) {' '.join(fields)}\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/stat", "cpu0 100 0 0 1000 0 0 0 0 0 0\ncpu1 100 0 0 1000 0 0 0 0 0 0\n")
    write(tmp_path, "proc/self/cgroup", "5:memory:/\n")
    return tmp_path


def at_beginning(root: Path) -> Sample:
    return sample(ROLES, beginning=True, root=root)


def since(before: Sample, root: Path) -> Disturbance:
    return between(before, sample(ROLES, beginning=False, root=root), ROLES, 2.0, root)


def test_a_quiet_machine_is_quiet_and_says_what_it_does_not_know(root: Path) -> None:
    before = at_beginning(root)
    stat(root, busy=4)
    found = since(before, root)
    assert found.is_quiet
    assert found.sentences == []
    assert [core.other_work_fraction for core in found.cores] == [0.02, 0.0]
    assert found.cores[0].frequency_hertz is None
    assert found.cores[0].heat_throttles is None
    assert set(found.unavailable) == {"frequency_hertz", "heat_throttles", "quota_cores", "throttled_seconds"}


def test_other_work_is_named_by_who_took_most(root: Path) -> None:
    process(root, 123, "a (b) c", 50)
    process(root, 7, "elsewhere", 0, core=1)
    before = at_beginning(root)
    stat(root, busy=120)
    process(root, 123, "a (b) c", 150)
    process(root, 124, "late", 20)
    process(root, 7, "elsewhere", 190, core=1)
    found = since(before, root)
    assert not found.is_quiet
    assert found.sentences == [
        "Other work takes 60 % of core 0 (a (b) c, pid 123; late, pid 124): answers will be lower bounds."
    ]
    assert [(work.pid, work.fraction) for work in found.cores[0].top] == [(123, 0.5), (124, 0.1)]


def test_other_work_beside_a_server_that_runs_already_makes_no_lower_bounds(root: Path) -> None:
    before = at_beginning(root)
    stat(root, stolen=20, interrupts=40)
    found = between(before, sample(ROLES, beginning=False, root=root), {0: SPARE, 1: "generator"}, 2.0, root)
    assert not found.is_quiet
    assert len(found.sentences) == 2
    assert all(each.endswith("a server on this machine may get less of it.") for each in found.sentences)


def test_interrupts_and_processes_that_have_gone_are_told_apart(root: Path) -> None:
    before = at_beginning(root)
    stat(root, interrupts=40)
    assert "20 % of core 0 (interrupts)" in since(before, root).sentences[0]
    stat(root, busy=40)
    assert "20 % of core 0 (short-lived processes)" in since(before, root).sentences[0]


def test_the_hypervisor_is_said(root: Path) -> None:
    before = at_beginning(root)
    stat(root, stolen=20)
    found = since(before, root)
    assert found.sentences == ["The hypervisor takes 10 % of core 0: answers will be lower bounds."]
    assert found.cores[0].steal_fraction == 0.1
    assert not found.is_quiet


def test_heat_and_frequency(root: Path) -> None:
    for core in ROLES:
        write(root, CPUINFO.format(core) + "cpufreq/scaling_cur_freq", "3000000\n")
        write(root, CPUINFO.format(core) + "cpufreq/scaling_governor", "schedutil\n")
        write(root, CPUINFO.format(core) + "thermal_throttle/core_throttle_count", "4\n")
    before = at_beginning(root)
    stat(root)
    write(root, CPUINFO.format(0) + "cpufreq/scaling_cur_freq", "1500000\n")
    found = since(before, root)
    assert found.is_quiet, "a frequency that follows the load is usual"
    assert "core 0 moves (governor schedutil), 1.5 to 3 GHz" in found.sentences[0]
    write(root, CPUINFO.format(1) + "thermal_throttle/core_throttle_count", "6\n")
    found = since(before, root)
    assert found.sentences[0] == "The processor slowed core 1 down because of heat 2 times."
    assert not found.is_quiet


def test_a_further_hardware_thread_of_the_core_counts(root: Path) -> None:
    write(root, CPUINFO.format(1) + "topology/thread_siblings_list", "0-2\n")
    write(root, "proc/stat", "cpu1 0 0 0 100 0 0 0 0\ncpu2 0 0 0 100 0 0 0 0\ncpu0 0 0 0 100 0 0 0 0\n")
    before = at_beginning(root)
    write(root, "proc/stat", "cpu1 0 0 0 300 0 0 0 0\ncpu2 100 0 0 200 0 0 0 0\ncpu0 0 0 0 300 0 0 0 0\n")
    found = since(before, root)
    assert [core.sibling_work_fraction for core in found.cores] == [None, 0.5]
    assert not found.is_quiet
    assert "core 1's physical core is 50 % busy" in found.sentences[0]


def test_one_physical_core_for_server_and_generator_is_said(root: Path) -> None:
    write(root, CPUINFO.format(0) + "topology/thread_siblings_list", "0-1\n")
    before = at_beginning(root)
    stat(root)
    found = since(before, root)
    assert not found.is_quiet
    assert found.sentences[0] == "Server and generator share a physical core: answers will be lower bounds."
    # One that runs already may be anywhere.
    roles = {0: SPARE, 1: "generator"}
    assert between(before, sample(roles, beginning=False, root=root), roles, 2.0, root).is_quiet


@pytest.mark.parametrize(
    ("siblings", "allowed", "planned"),
    [
        ("0-1", {0, 1, 2, 3}, Cores(0, 2)),
        ("0,2", {0, 1, 2, 3}, Cores(0, 1)),
        ("0-1", {0, 1}, Cores(0, 1)),
        ("0", {0}, Cores(None, None)),
    ],
)
def test_server_and_generator_have_physical_cores_of_their_own_where_there_are_two(
    root: Path, monkeypatch: pytest.MonkeyPatch, siblings: str, allowed: set[int], planned: Cores
) -> None:
    write(root, CPUINFO.format(0) + "topology/thread_siblings_list", siblings + "\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    assert plan(root) == planned


@pytest.mark.parametrize("unified", [True, False])
def test_the_narrowest_quota_above_us_counts(root: Path, unified: bool) -> None:
    if unified:
        write(root, "proc/self/cgroup", "0::/outer/inner\n")
        write(root, "sys/fs/cgroup/outer/cpu.max", "50000 100000\n")
        write(root, "sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n")
        throttled, unit = root / "sys/fs/cgroup/outer/cpu.stat", ("throttled_usec", 10**6)
    else:
        write(root, "proc/self/cgroup", "3:cpu,cpuacct:/not/mounted/here\n0::/\n")
        write(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "25000\n")
        write(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n")
        throttled, unit = root / "sys/fs/cgroup/cpu,cpuacct/cpu.stat", ("throttled_time", 10**9)
    throttled.write_text(f"nr_periods 3\n{unit[0]} {unit[1]}\n")
    before = at_beginning(root)
    throttled.write_text(f"nr_periods 3\n{unit[0]} {3 * unit[1] // 2}\n")
    stat(root)
    found = since(before, root)
    assert found.quota_cores == 0.5
    assert found.throttled_seconds == 0.5
    assert not found.is_quiet
    assert "allows 0.5 cores' time, and 2 are needed: answers will be lower bounds" in found.sentences[0]


def test_no_limit_is_not_an_unknown_limit(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/\n")
    write(root, "sys/fs/cgroup/cpu.max", "max 100000\n")
    before = at_beginning(root)
    stat(root)
    found = since(before, root)
    assert found.quota_cores is None
    assert "quota_cores" not in found.unavailable
    assert found.is_quiet


def test_a_core_that_cannot_be_seen_is_not_quiet(root: Path) -> None:
    before = at_beginning(root)
    write(root, "proc/stat", "")
    found = since(before, root)
    assert [core.other_work_fraction for core in found.cores] == [None, None]
    assert not found.is_quiet
    assert found.sentences[0].startswith("Other work on the cores is unknown")


def test_a_burner_beside_is_seen_and_named() -> None:
    cores = plan()
    core = min(os.sched_getaffinity(0)) if cores.server is None else cores.server
    script = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"
    burner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert burner.stdout is not None
        burner.stdout.readline()
        found = measure(cores, seconds=1.0)
    finally:
        burner.kill()
        burner.wait()
    burnt = next(each for each in found.cores if each.core == core)
    assert burnt.other_work_fraction is not None
    assert burnt.other_work_fraction + (burnt.steal_fraction or 0) > 0.5, "a core with a burner is never idle"
    assert not found.is_quiet
    assert f"of core {core}" in " ".join(found.sentences)
    named = [work.pid for work in burnt.top]
    assert burner.pid in named or len(named) == disturbance.TOP_PROCESSES_MAX, "others may take more"


def test_one_core_is_measured_once() -> None:
    found = measure(Cores(None, None), seconds=0.05)
    assert {core.role for core in found.cores} == {"server and generator"}


def test_the_cores_of_a_server_that_runs_already_are_not_known() -> None:
    found = measure(Cores(None, None), seconds=0.05, starts_server=False)
    assert {core.role for core in found.cores} == {"generator"}
    one = min(os.sched_getaffinity(0))
    found = measure(Cores(one, one + 1), seconds=0.05, starts_server=False)
    assert [core.role for core in found.cores] == [SPARE, "generator"]
