"""The probe where it may see little: another user, a /proc that hides others, a kernel or a machine without a source.

Nothing may be 0 that was not measured; every counter that is missing says why.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sojourn import engine

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@contextmanager
def somebody_elses_process() -> Iterator[int]:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def as_nobody(*arguments: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    """The engine as a user without any right, in a mount namespace that the shell's words change first."""
    with engine.path().open("rb") as program:
        # By the descriptor: nobody may not be allowed into the folder.
        become = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
        inside = f'{shell} exec {become} /proc/self/fd/{program.fileno()} "$@"'
        command = ["unshare", "--mount", "sh", "-c", inside, "sh", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, pass_fds=[program.fileno()]
        )


def reasons(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """By counter, why it has no value: from the start, or in the last sample."""
    assert done.returncode == 0, done.stderr
    header, *rows = map(json.loads, done.stdout.splitlines())
    found = {each["name"]: each["because"] for each in header["unavailable"]}
    values: list[Any] = rows[-1]["values"]
    for column, value in zip(header["columns"], values, strict=True):
        if isinstance(value, dict):
            found[column["name"]] = value["unavailable"]
    return found


def skip_if_namespaces_are_forbidden(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0 and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"mount namespaces are not allowed here: {done.stderr.strip()}")


@needs_root
def test_another_users_process_keeps_what_everybody_may_see() -> None:
    with somebody_elses_process() as pid:
        done = as_nobody("probe", "--pid", str(pid), "--duration", "300ms")
    skip_if_namespaces_are_forbidden(done)
    missing = reasons(done)
    assert "cpu_seconds" not in missing
    assert "resident_bytes" not in missing
    for name in ("disk_read_bytes", "proportional_bytes"):
        assert "denied" in missing[name], missing[name]
    assert "perf_event_paranoid" in missing["perf_task_clock_seconds"]
    assert (
        "only root can read tracefs" in missing["trace_sched_switches"]
        or "not mounted" in missing["trace_sched_switches"]
    )


@needs_root
def test_a_proc_that_hides_others_says_so() -> None:
    with somebody_elses_process() as pid:
        hidden = as_nobody(
            "probe", "--pid", str(pid), "--duration", "300ms", shell="mount -t proc -o hidepid=2 proc /proc &&"
        )
        closed = as_nobody(
            "probe", "--pid", str(pid), "--duration", "300ms", shell="mount -t proc -o hidepid=1 proc /proc &&"
        )
    skip_if_namespaces_are_forbidden(hidden)
    assert hidden.returncode == 2
    assert f"process {pid} does not exist or is not visible" in hidden.stderr
    assert "hidepid" in hidden.stderr
    missing = reasons(closed)
    for name in ("cpu_seconds", "minor_faults", "resident_bytes", "network_sent_bytes"):
        assert missing[name], name


@needs_root
def test_tracefs_that_is_not_mounted_says_how_to_mount_it() -> None:
    with somebody_elses_process() as pid:
        cover = "mount -t tmpfs none /sys/kernel && exec"
        command = ["unshare", "--mount", "sh", "-c", f'{cover} "$@"', "sh", str(engine.path()), "probe"]
        done = subprocess.run(
            [*command, "--pid", str(pid), "--duration", "200ms"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    skip_if_namespaces_are_forbidden(done)
    assert "mount -t tracefs" in reasons(done)["trace_sched_switches"]


def test_a_folder_that_is_no_control_group_says_so() -> None:
    done = subprocess.run(
        [str(engine.path()), "probe", "--cgroup", "/nowhere", "--duration", "200ms"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "not a control group" in reasons(done)["cgroup_cpu_seconds"]
    assert reasons(done)["cpu_seconds"] == "no process was named"
