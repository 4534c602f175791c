"""Runs the probe beside a server, as a process of its own whose CPU time the kernel reports at its end."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sojourn import engine
from sojourn.engine.results import ProbeHeader, ProbeRow
from sojourn.failure import CouldNotRun
from sojourn.probe.profile import tree
from sojourn.probe.recording import Recording

INTERVAL_SECONDS = 0.1
"""Ten samples a second, the probe's default."""
BEGIN_LIMIT_SECONDS = 10.0
POLL_SECONDS = 0.02


@dataclass
class Watched:
    """A probe's recording, and what the probe used from its first sample on; known when it has ended."""

    recording: Recording | None = None
    cpu_seconds: float = 0.0


@contextmanager
def probe(pids: Sequence[int], core: int | None, sources: str | None, port: int | None = None) -> Iterator[Watched]:
    """Probes the processes and the accept queue of a port until the block ends; it has begun when this yields.

    Raises:
        CouldNotRun: the machine offers none of these sources.
    """
    command = [str(engine.path()), "probe", "--interval", f"{INTERVAL_SECONDS:g}s"]
    for pid in pids:
        command += ["--pid", str(pid)]
    command += ["--core", str(core)] if core is not None else []
    command += ["--port", str(port)] if port is not None else []
    command += ["--sources", sources] if sources else []
    watched = Watched()
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as work:
        # Not a pipe, because nothing reads it while the server is measured.
        output = Path(work) / "samples"
        with output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, process_group=0)
        try:
            _wait_for_sample(process, output)
            _check_offered(_recording(output))
            begin = cpu_seconds([process.pid])
            yield watched
        finally:
            process.send_signal(signal.SIGINT)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        watched.recording = _recording(output)
        watched.cpu_seconds = used.ru_utime + used.ru_stime - begin


def _wait_for_sample(process: subprocess.Popen[bytes], output: Path) -> None:
    until = time.monotonic() + BEGIN_LIMIT_SECONDS
    while output.read_bytes().count(b"\n") < 2:
        if process.poll() is not None or time.monotonic() > until:
            raise CouldNotRun("the probe took no sample")
        time.sleep(POLL_SECONDS)


def _recording(output: Path) -> Recording:
    header, *lines = output.read_text().splitlines()
    recording = Recording.begin(ProbeHeader.model_validate_json(header))
    for line in lines:
        recording.add(ProbeRow.model_validate_json(line))
    return recording


def _check_offered(recording: Recording) -> None:
    if not recording.counters:
        reasons = [why for why in recording.unavailable.values() if why != "not asked for"]
        raise CouldNotRun(reasons[0] if reasons else "nothing was asked for")


def cpu_seconds(pids: Iterable[int]) -> float:
    """Returns what they and their living descendants have used, to the nanosecond."""
    threads = [thread for pid in tree(pids) for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
