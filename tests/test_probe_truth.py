"""What the probe tells is what was used: children that do known amounts of work, beside their own account and perf."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.probe.perf_stat import perf_stat
from benchmarks.probe.watching import Watched, probe
from sojourn.failure import CouldNotRun
from sojourn.probe.totals import Used, totals

CHILD = Path(__file__).with_name("known_child.py")
TICK_SECONDS = 0.01
"""/proc cuts what ended threads and children used off to this."""


@contextmanager
def child(*work: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(CHILD), *work]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def work(process: subprocess.Popen[str]) -> dict[str, float]:
    """Has the child work; its own account of it, which begins before it is watched."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    used: dict[str, float] = json.loads(process.stdout.readline())
    return used


def used(watched: Watched) -> dict[str, Used]:
    assert watched.recording is not None
    return {each.counter.name: each for each in totals(watched.recording)}


def total(found: dict[str, Used], name: str) -> float:
    assert found[name].total is not None, found[name].unavailable
    return found[name].total or 0.0


def test_what_a_child_spins_faults_and_sleeps_is_counted() -> None:
    with child("faults", "5000", "spin", "0.4", "sleep", "100") as process:
        with probe([process.pid], None, "processes,software,tracepoints") as watched:
            account = work(process)
        found = used(watched)
    # Its account has what starting Python took before it was watched.
    assert 0.4 <= total(found, "cpu_seconds") <= account["cpu_seconds"] + TICK_SECONDS
    assert 5000 <= total(found, "minor_faults") <= account["minor_faults"]
    # It waits once more after its account.
    assert 100 <= total(found, "voluntary_switches") <= account["voluntary_switches"] + 1
    for name, least in (("perf_page_faults", 5000), ("perf_context_switches", 100), ("trace_sched_switches", 100)):
        if found[name].unavailable is None:
            assert total(found, name) >= least
    if found["trace_sched_switches"].unavailable is None:
        assert total(found, "trace_sched_switches") == pytest.approx(total(found, "perf_context_switches"), abs=2)
        # Python's heap grows in user code; the kernel touches few pages for it.
        assert 5000 <= total(found, "trace_user_page_faults") <= total(found, "perf_page_faults")


def test_children_that_end_between_two_samples_are_counted() -> None:
    """As those of a CGI program or of a process per connection: none lives as long as the time between samples."""
    with child("fork", "40", "0.01") as process:
        with probe([process.pid], None, "processes,software") as watched:
            account = work(process)
        found = used(watched)
    assert 0.4 - TICK_SECONDS <= total(found, "cpu_seconds") <= account["cpu_seconds"] + TICK_SECONDS
    if found["perf_task_clock_seconds"].unavailable is None:
        assert total(found, "perf_task_clock_seconds") == pytest.approx(total(found, "cpu_seconds"), rel=0.25)


@pytest.mark.alone
def test_perf_stat_tells_the_same_processor_time() -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed: linux-perf (Debian)")
    with child("spin", "0.5") as process:
        try:
            with perf_stat([process.pid]) as counted, probe([process.pid], None, "processes,software") as watched:
                work(process)
        except CouldNotRun as error:
            pytest.skip(error.what)
        found = used(watched)
    assert total(found, "perf_task_clock_seconds") == pytest.approx(counted.task_clock_seconds, rel=0.02)
    assert total(found, "cpu_seconds") == pytest.approx(counted.task_clock_seconds, rel=0.02, abs=0.01)


def test_children_that_the_kernel_forgets_make_the_sums_unknown_and_not_small() -> None:
    with child("forget", "20", "0.1") as process:
        with probe([process.pid], None, "processes,software") as watched:
            work(process)
            # Some samples follow, as they do while a server goes on.
            time.sleep(1.0)
        found = used(watched)
    for name in ("cpu_seconds", "minor_faults"):
        assert "ignores SIGCHLD" in (found[name].unavailable or ""), found[name]
    if found["perf_task_clock_seconds"].unavailable is None:
        assert total(found, "perf_task_clock_seconds") >= 20 * 0.1
