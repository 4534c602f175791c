"""A started server: its address, its processes, and how to stop it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from sojourn.engine.process import tied
from sojourn.failure import CouldNotRun

START_LIMIT_SECONDS = 10.0
STOP_LIMIT_SECONDS = 10.0
POLL_SECONDS = 0.02
_ASK_ALL = """trap 'trap "" TERM; kill -TERM 0' TERM; "$@" & wait $!"""
"""For a shell that stays with a command: sends the stop signal to every process that the command started."""
_DESCRIPTORS_WANTED = 1 << 16
"""More than any load has connections. Some programs prepare for as many files as they may open."""


@dataclass
class Running:
    """A server under test; leaving its context stops it."""

    url: str
    version: str
    command: list[str]
    process: subprocess.Popen[bytes] | None
    """The process we started; None for a server that was already running."""
    pids: list[int]
    """Its processes on this machine; the engine adds their children."""
    helpers: int | None = None
    metrics: Callable[[], dict[str, float]] = field(default=lambda: {})
    """The server's own counters, if it publishes any."""
    behind: Running | None = None
    """A server it depends on that is not under test, such as a proxy's origin; it stops with it."""

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def has_died(self) -> bool:
        """Returns true if the process we started has ended."""
        return self.process is not None and self.process.poll() is not None

    def before(self, start: Callable[[], Running]) -> Running:
        """Starts a server that depends on this one, which then stops with it; if it does not start, this one stops."""
        try:
            server = start()
        except BaseException:
            self.stop()
            raise
        server.behind, self.behind = self, server.behind
        return server

    def stop(self) -> None:
        """Asks it to stop, then kills it."""
        try:
            if self.process is not None and self.process.poll() is None:
                _end(self.process)
        finally:
            if self.behind is not None:
                self.behind.stop()


def start_process(
    command: list[str],
    said: Path,
    *,
    forwards_signals: bool = True,
    **options: Any,  # of subprocess.Popen
) -> subprocess.Popen[bytes]:
    """Starts a server with its output in a file; Ctrl-C reaches this process, not the server.

    It ends if this process is killed: a server left running would disturb the next measurement. If a server does not
    stop its children when asked to stop, they are asked, too. Its limit of open files is raised: not every server does
    that itself, and would be measured with the 1024 of a shell.
    """
    run = 'exec "$@"' if forwards_signals else _ASK_ALL
    command = tied(command, "TERM", f"ulimit -S -n {_descriptors()}; {run}")
    with said.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, **options
        )


def _descriptors() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft, _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED))


def free_port() -> int:
    """A port that was free a moment ago, for servers that cannot choose one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], name: str, said: Path) -> None:
    """Waits until the server is ready; stops a server that ends or hangs instead and quotes its output."""
    try:
        ended = _ended_before(ready, process)
    except BaseException:
        # Also on Ctrl-C, because nothing else would stop it yet.
        _kill(process)
        raise
    if ended is not None:
        _kill(process)
        words = said.read_text(errors="replace").strip().removeprefix("error: ")
        what, _, hint = words.partition("\nhint: ")
        raise CouldNotRun(f"{name} {ended}: {what or 'it printed nothing'}", hint or f"see {said}")


def _ended_before(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> str | None:
    """The reason why the server did not become ready; None once it is."""
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while not ready():
        if process.poll() is not None:
            return "ended at once"
        if time.monotonic() > deadline:
            return f"did not listen within {START_LIMIT_SECONDS:.0f} s"
        time.sleep(POLL_SECONDS)
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_LIMIT_SECONDS)
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills it and the rest of its session."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def accepts(port: int) -> bool:
    """Returns true if the loopback port accepts connections."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
