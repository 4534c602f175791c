"""One cell of the tables: runs a generator once against the null responder, and measures what it used."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.load.conditions import Condition
from benchmarks.load.generators import Generator, Task
from benchmarks.server import conditions as server_conditions
from benchmarks.server.competitors import null_responder
from sojourn.failure import CouldNotRun
from sojourn.machine.cores import Cores, pinned_command
from sojourn.systems import Launch

END_TIMEOUT_SECONDS = 60.0
"""A generator that takes longer than its duration plus this has failed."""


@dataclass(frozen=True)
class Setting:
    """The parameters that all cells of a run share."""

    site: Path
    cores: Cores
    seed: int
    duration_seconds: float


@dataclass(frozen=True)
class Cell:
    """The figures of a run; `trouble` says why they are missing or doubtful."""

    condition: str
    generator: str
    repetition: int
    requests: int | None = None
    requests_per_second: float | None = None
    cpu_seconds_per_request: float | None = None
    cpu_user_fraction: float | None = None
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    send_lag_p99_seconds: float | None = None
    limited_because: str | None = None
    trouble: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""
        return asdict(self)


def measure(condition: Condition, generator: Generator, repetition: int, setting: Setting) -> Cell:
    """Measures one cell. If the generator fails, the cell has `trouble`."""
    cell = Cell(condition.name, generator.name, repetition)
    program = generator.program()
    if program is None:
        return replace(cell, trouble="not installed: benchmarks/load/peers")
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as work:
        launch = Launch(setting.site, Path(work), setting.cores.server, "", False)
        served = server_conditions.Condition("", "", "500B", condition.connection, condition.clients)
        try:
            with null_responder("epoll").start(launch, served) as server:
                url = server.url + served.path
                task = Task(condition, url, setting.duration_seconds, setting.seed, Path(work))
                command = pinned_command(setting.cores.generator, generator.command(program, task))
                return _run(cell, generator, command, task)
        except CouldNotRun as error:
            return replace(cell, trouble=error.what)


def _run(cell: Cell, generator: Generator, command: list[str], task: Task) -> Cell:
    output, talk = task.work / "output", task.work / "talk"
    began = time.monotonic()
    with output.open("wb") as out, talk.open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=task.work)
        code, used = _wait(process, began + task.seconds + task.condition.warm_up_seconds + END_TIMEOUT_SECONDS)
    seconds = time.monotonic() - began
    if code != 0:
        last = (talk.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        return replace(cell, trouble=f"exit code {code}: {last}")
    try:
        said = generator.read(output.read_text(errors="replace"))
    except (ValueError, KeyError) as error:
        return replace(cell, trouble=f"its output is not understood: {error}")
    cpu = used.ru_utime + used.ru_stime
    if said.requests == 0:
        return replace(cell, trouble="no request was answered")
    # The CPU time includes the warm-up, the request count does not: add its requests in proportion to the time.
    share = task.seconds / (task.seconds + task.condition.warm_up_seconds)
    return replace(
        cell,
        requests=said.requests,
        requests_per_second=said.requests / (seconds * share),
        cpu_seconds_per_request=cpu * share / said.requests,
        cpu_user_fraction=used.ru_utime / cpu if cpu > 0 else None,
        p50_seconds=said.p50_seconds,
        p99_seconds=said.p99_seconds,
        send_lag_p99_seconds=said.send_lag_p99_seconds,
        limited_because=said.limited_because,
        trouble=f"{said.errors} of {said.requests + said.errors} requests failed" if said.errors else None,
    )


def _wait(process: subprocess.Popen[bytes], until: float) -> tuple[int, Any]:
    """Waits for its end, or kills it; returns its exit code and what it and its children used."""
    try:
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode, used
            if time.monotonic() > until:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.01)
    except KeyboardInterrupt:
        process.kill()
        process.wait()
        raise
