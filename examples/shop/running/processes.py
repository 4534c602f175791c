"""Processes that outlive the command that started them, identified later by their ID and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

START_SECONDS_MAX = 60.0
END_SECONDS_MAX = 15.0


class Failed(Exception):
    """The command could not be carried out; the message says what to do."""


@dataclass(frozen=True)
class Process:
    """A started process."""

    pid: int
    began: int
    """Start time in ticks since boot, which tells it from a later process with the same ID."""

    @property
    def runs(self) -> bool:
        return _began(self.pid) == self.began

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Asks it to end, waits, and kills it if it does not."""
        for how, seconds in ((by, END_SECONDS_MAX), (signal.SIGKILL, END_SECONDS_MAX)):
            if not self.runs:
                return
            os.kill(self.pid, how)
            until = time.monotonic() + seconds
            while self.runs and time.monotonic() < until:
                _reap(self.pid)
                time.sleep(0.02)


def start(
    command: Sequence[str | Path],
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    user: str | None = None,
    passed: Sequence[int] = (),
) -> Process:
    """Starts a process that writes to the log, in a session of its own."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            user=user,
            group=user,
            extra_groups=[] if user else None,
            start_new_session=True,
            pass_fds=passed,
            env={**os.environ, **(environment or {})},
        )
    child.returncode = 0  # It lives on: suppresses the warning when this object is deleted.
    return Process(child.pid, _began(child.pid) or 0)


def wait_until(ready: Callable[[], bool], process: Process, log: Path) -> None:
    """Waits until a started process is ready."""
    until = time.monotonic() + START_SECONDS_MAX
    while not ready():
        if not process.runs or time.monotonic() > until:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise Failed(f"{log.stem} did not start; {log} says:\n{last}")
        time.sleep(0.05)


def answers(port: int) -> bool:
    """Returns true if a process listens on this port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Returns a port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listener(port: int = 0) -> socket.socket:
    """Returns a listening socket on this port, or a free one, to pass to a process."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(1024)
    return listening


def _began(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
