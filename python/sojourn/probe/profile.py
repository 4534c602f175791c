"""Profiles CPU time by function: samples of perf, folded into stacks.

perf samples by CPU cycles where the machine counts them, otherwise by the kernel's clock; the result records which.
This process is not sampled, so that the profile contains only the observed processes.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun

FREQUENCY = 199
"""Samples per second of CPU time: not a divisor of any timer, so that nothing periodic hides between samples."""
EVENT = "cpu-clock"
"""The kernel's clock, available everywhere; cycles would need a PMU."""
_ENDED_WELL = (0, -signal.SIGINT)
"""The codes of a perf whose processes have ended, and of one that was stopped."""

Stack = tuple[str, ...]

_FRAME = re.compile(r"\s+[0-9a-f]+ (?P<symbol>.+?)(?:\+0x[0-9a-f]+)? \((?P<object>[^)]*)\)$")


@dataclass(frozen=True)
class Profile:
    """Samples by stack: the program's name, then the functions from the outermost inwards."""

    stacks: dict[Stack, int]
    event: str
    frequency: int

    @property
    def without_symbols(self) -> list[str]:
        """Programs and libraries without symbols, those with the most samples first."""
        unknown: Counter[str] = Counter()
        for stack, count in self.stacks.items():
            for name in {frame[1:-1] for frame in stack if frame.startswith("[") and frame.endswith("]")}:
                unknown[name] += count
        return [name for name, _ in unknown.most_common() if name != "unknown"]

    @property
    def samples(self) -> int:
        return sum(self.stacks.values())


class Profiler:
    """A running perf; `end` stops it and reads the samples.

    It observes the processes, their living descendants, and what these start.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        if shutil.which("perf") is None:
            raise CouldNotRun("perf is not installed, so there is no profile", "install linux-perf (Debian)")
        self._folder = tempfile.TemporaryDirectory(prefix="sojourn-profile-")
        self._data = Path(self._folder.name) / "perf.data"
        command = ["perf", "record", "--quiet", "--event", EVENT, "--freq", str(FREQUENCY), "--call-graph", "fp"]
        command += ["--inherit", "--output", str(self._data), "--pid", ",".join(map(str, tree(pids)))]
        self._perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def check(self) -> None:
        """Raises `CouldNotRun` if perf has failed already."""
        if self._perf.poll() not in (None, *_ENDED_WELL):
            raise _took_no_samples(self._perf.communicate()[1])

    def end(self) -> Profile:
        """Stops sampling and folds the samples into stacks."""
        self._perf.send_signal(signal.SIGINT)
        with self._folder:
            try:
                _, said = self._perf.communicate(timeout=60)
                if not self._data.exists():
                    raise _took_no_samples(said)
                script = ["perf", "script", "--input", str(self._data), "--fields", "comm,ip,sym,dso"]
                done = subprocess.run(script, capture_output=True, text=True, timeout=300, check=False)
            except subprocess.TimeoutExpired as late:
                self._perf.kill()
                raise CouldNotRun(f"{' '.join(late.cmd[:2])} did not end within {late.timeout:g} s") from None
        stacks = folded(done.stdout.splitlines())
        if not stacks and (self._perf.returncode not in _ENDED_WELL or done.returncode != 0):
            raise _took_no_samples(said + done.stderr)
        return Profile(stacks, EVENT, FREQUENCY)


def _took_no_samples(said: str) -> CouldNotRun:
    return CouldNotRun(f"perf took no samples: {said.strip()}", "kernel.perf_event_paranoid may forbid it")


def folded(lines: Iterable[str]) -> dict[Stack, int]:
    """Folds the output of `perf script`: a line with the program's name, a line per frame, an empty line."""
    stacks: Counter[Stack] = Counter()
    name, frames = "", list[str]()
    for line in [*lines, ""]:
        if not line.strip():
            if name:
                stacks[(name, *reversed(frames))] += 1
            name, frames = "", []
        elif (frame := _FRAME.match(line)) is not None and name:
            frames.append(_symbol(frame["symbol"], frame["object"]))
        elif not line[0].isspace():
            name = line.strip()
    return dict(stacks)


def _symbol(symbol: str, object_name: str) -> str:
    """The function's name; if unknown, the binary it belongs to."""
    if symbol == "[unknown]":
        return f"[{Path(object_name).name.strip('[]') or 'unknown'}]"
    # Rust's legacy mangling ends in a hash that does not help a reader.
    return re.sub(r"::h[0-9a-f]{16}$", "", symbol)


def tree(pids: Iterable[int]) -> list[int]:
    """The processes and all their descendants, except those that have just ended."""
    found = []
    for pid in pids:
        children = _children(pid)
        if children is not None:
            found += [pid, *tree(children)]
    return found


def _children(pid: int) -> list[int] | None:
    """The children of a process; None if the process has ended."""
    try:
        texts = [(thread / "children").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return [int(child) for text in texts for child in text.split()]
