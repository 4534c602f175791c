"""`perf stat` beside a server: the CPU time that the kernel's task clock gives its processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from select import select

from sojourn.failure import CouldNotRun

ENABLE_LIMIT_SECONDS = 30.0
_CLOCK = re.compile(r"^(?P<milliseconds>[0-9.]+),msec,task-clock", re.MULTILINE)


@dataclass
class Counted:
    """The counted time; known when perf has ended."""

    task_clock_seconds: float = 0.0


@contextmanager
def perf_stat(pids: Sequence[int]) -> Iterator[Counted]:
    """Counts these processes and those that they start until the block ends; counting has begun when this yields.

    Raises:
        CouldNotRun: perf is missing or not permitted.
    """
    if shutil.which("perf") is None:
        raise CouldNotRun("perf is not installed", "install linux-perf (Debian)")
    listens, orders = os.pipe()
    answers, says = os.pipe()
    command = ["perf", "stat", "--event", "task-clock", "--field-separator", ",", "--pid", ",".join(map(str, pids))]
    # perf starts when we tell it and confirms that, because attaching takes it a while.
    command += ["--delay", "-1", "--control", f"fd:{listens},{says}"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
        pass_fds=(listens, says),
    )
    os.close(listens)
    os.close(says)
    try:
        os.write(orders, b"enable\n")
        ready, _, _ = select([answers], [], [], ENABLE_LIMIT_SECONDS)
        counted = Counted()
        if ready and os.read(answers, 16):
            yield counted
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        os.close(orders)
        os.close(answers)
    found = _CLOCK.search(said)
    if found is None:
        raise CouldNotRun(f"perf stat counted nothing: {said.strip()}", "kernel.perf_event_paranoid may forbid it")
    counted.task_clock_seconds = float(found["milliseconds"]) / 1e3
