"""Runs a server under cachegrind with a simulated clock, and ends it so that its counts are written.

Its environment is minimal, because environment variables move the stack, and with it which data share a cache line.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from sojourn import engine
from sojourn.failure import CouldNotRun

END_LIMIT_SECONDS = 60.0
"""Timeout for valgrind to write its counts."""
_SAID_LINES = 3
_HELD_MACHINE = "x86_64"
"""On other machines the engine does not know the registers of system call results."""
_POLL_SECONDS = 0.02
_IDLE = ("S", "Z")
"""States of a thread that sleeps, and of one that has ended."""


class Program:
    """A running server; leaving its context ends it."""

    def __init__(
        self,
        command: Sequence[str],
        caches: Sequence[str] | None,
        folder: Path,
        kept: Path,
        *,
        hold: bool,
        steps: bool = False,
    ) -> None:
        """Starts the server; with `caches` None no cache is simulated, which is faster.

        `folder` is for this run's files, `kept` for files that the server keeps between starts.
        """
        if shutil.which("valgrind") is None:
            raise CouldNotRun("valgrind is not installed, so no cache can be simulated", "apt-get install valgrind")
        if shutil.which(command[0]) is None:
            raise CouldNotRun(f"there is no program {command[0]}", "give the server's command after --")
        if hold and platform.machine() != _HELD_MACHINE:
            raise CouldNotRun(
                f"virtual time needs {_HELD_MACHINE}, and this is {platform.machine()}",
                "use the real clock with --free-running: counts then differ a little between runs",
            )
        self._said = folder / "said.log"
        self._output = folder / "counts"
        # A file for debuggers would be mapped at a different address in every run.
        valgrind = ["valgrind", "--trace-children=yes", "--fair-sched=yes", "--vgdb=no"]
        if caches is None:
            valgrind += ["--tool=none"]
        else:
            valgrind += ["--tool=cachegrind", "--cache-sim=yes", *caches]
            valgrind += [f"--cachegrind-out-file={self._output}.%p"]
        core = max(os.sched_getaffinity(0))
        holding = [str(engine.path()), "virtual-time", "--core", str(core), *(["--steps"] if steps else []), "--"]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*(holding if hold else []), *valgrind, *command],
                stdin=subprocess.PIPE if steps else subprocess.DEVNULL,
                stdout=subprocess.PIPE if steps else said,
                stderr=said,
                start_new_session=True,
                # With a shared home directory, GStreamer would rebuild its list of plugins for each environment.
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "XDG_CACHE_HOME": str(kept)},
            )
        self._hold = hold
        self.takes_turns = False
        """Once it is ended: whether its threads ran in the same order each time."""

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def has_ended(self) -> bool:
        """Returns true if it has ended."""
        return self._process.poll() is not None

    def pass_time(self, seconds: float) -> float:
        """Advances its clock while it does all due work; returns the time since its start."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{seconds * 1e6:.0f}us\n".encode())
            self._process.stdin.flush()
            return float(self._process.stdout.readline())
        except (OSError, ValueError):
            raise CouldNotRun("the server ended during the measurement", self.hint()) from None

    def activity(self) -> dict[str, str] | None:
        """How often each thread has run, unchanged while all are idle; None if one runs or waits for a disk.

        A thread at real-time priority runs for long without a context switch.
        """
        found = {}
        for pid in self._processes():
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    status = (task / "status").read_text().splitlines()
                    if any(line.startswith("State:") and line.split()[1] not in _IDLE for line in status):
                        return None
                    found[str(task)] = "".join(line for line in status if "ctxt_switches" in line)
        return found

    def end(self) -> list[Path]:
        """Ends it by an abort, so that its own shutdown is not counted; returns the files with the counts."""
        deadline = time.monotonic() + END_LIMIT_SECONDS
        others = [] if self.has_ended() else self._processes()[1:]
        with contextlib.suppress(ProcessLookupError):
            self.takes_turns |= self._hold and os.sched_getscheduler(self._process.pid) == os.SCHED_FIFO
        if self._hold:
            # It aborts its children.
            self._process.terminate()
        else:
            for pid in [self._process.pid, *others]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(END_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        # Until they end, they write their counts and occupy the next run's port.
        while any(_lives(pid) for pid in others) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return sorted(self._output.parent.glob(f"{self._output.name}.*"))

    def hint(self) -> str:
        """Its last output, without valgrind's own messages."""
        lines = self._said.read_text(errors="replace").splitlines()
        words = [line for line in lines if line.strip() and not line.startswith(("==", "--"))]
        return "; ".join(words[-_SAID_LINES:]) or "it printed nothing; try the command by itself"

    def _processes(self) -> list[int]:
        """Its processes, parents first."""
        found = [self._process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for children in Path(f"/proc/{pid}/task").glob("*/children"):
                    found += map(int, children.read_text().split())
        return found


def _lives(pid: int) -> bool:
    """Returns true if it still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
