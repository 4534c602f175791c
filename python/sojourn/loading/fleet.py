"""Generates one load from several machines: starts them together, merges their histograms, compares their clocks.

The load is that of `sojourn load`, or the rates of `sojourn replay`, where each machine draws its sessions from the
same trace. On each machine the engine prepares, prints `ready`, answers with its time when asked, and starts at a time
of its own clock that means the same moment everywhere. A clock offset is known to half a round trip (F. Cristian,
Distributed Computing 3, 1989). A machine that fails is named in the result, and the others continue. Each machine's
load is its weight's share of `--clients` or `--rate`.
"""

from __future__ import annotations

import contextlib
import math
import queue
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from pydantic import ValidationError

from sojourn import engine, interrupts
from sojourn.engine.progress import parse
from sojourn.engine.results import Record
from sojourn.failure import CouldNotRun
from sojourn.loading.merging import Part, merge
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult
from sojourn.loading.run import Tool, cores_of, option, recorded, with_option
from sojourn.loading.steps import with_confidence

REMOTE_SHELL = "ssh -o BatchMode=yes {host} {command}"
"""The command template for a remote host: `{host}` and `{command}` are filled in, each as one word."""
READY_SECONDS_MAX = 30.0
CLOCK_READINGS = 5
START_LEAD_SECONDS = 0.3
"""How far ahead the common start is set, in addition to three round trips."""
STOP_GRACE_SECONDS = 20.0
MACHINES_MAX = 256


@dataclass(frozen=True)
class Machine:
    """A machine and its share of the load."""

    host: str
    share: float


@dataclass(frozen=True)
class Fleet:
    """The machines, with the command template for remote hosts."""

    machines: Sequence[Machine]
    remote_shell: str = REMOTE_SHELL
    remote_engine: str = "sojourn-engine"
    tool: Tool = "load"

    @classmethod
    def parse(cls, text: str, remote_shell: str, remote_engine: str, tool: Tool = "load") -> Fleet:
        """Parses `HOST[=WEIGHT],…`."""
        parts = [part.strip().partition("=") for part in text.split(",") if part.strip()]
        if not 1 <= len(parts) <= MACHINES_MAX:
            raise CouldNotRun(f"{text!r} names {len(parts)} machines", f"--on HOST[=WEIGHT],… of 1 to {MACHINES_MAX}")
        try:
            weights = [float(weight) if equals else 1.0 for _, equals, weight in parts]
        except ValueError:
            weights = [0.0]
        if not all(weight > 0 for weight in weights):
            raise CouldNotRun(f"{text!r} has a weight that is not a positive number", "--on big=2,small=1")
        odd = [host for host, _, _ in parts if not host or host.startswith("-")]
        if odd:
            raise CouldNotRun(f"{odd[0]!r} is not a machine: ssh would take it for an option", "--on HOST[=WEIGHT],…")
        if "{command}" not in remote_shell:
            raise CouldNotRun(f"--remote-shell {remote_shell!r} runs nothing", f"as in --remote-shell '{REMOTE_SHELL}'")
        machines = [Machine(part[0], weight / sum(weights)) for part, weight in zip(parts, weights, strict=True)]
        return cls(machines, remote_shell, remote_engine, tool)

    def run(self, options: Sequence[str], progress: engine.Progress | None = None) -> LoadResult:
        """Runs the load on all machines at once.

        Raises:
            CouldNotRun: a machine does not become ready; none has started then.
        """
        shared = shares(recorded(self.tool, options), self.machines)
        runs: list[_MachineRun] = []
        try:
            with interrupts.raised():
                for machine, part in zip(self.machines, shared, strict=True):
                    runs.append(_MachineRun(machine, self._command(machine, part), cores_of(options), progress))
                for run in runs:
                    run.wait_ready()
                for run in runs:
                    run.read_clock()
            start = time.time() + START_LEAD_SECONDS + 3 * max(run.round_trip_seconds for run in runs)
            with interrupts.handed_on() as handed:
                for run in runs:
                    run.say(f"go {start + run.clock_offset_seconds:.6f}")
                handed.to(lambda: _stop(runs))
                for run in runs:
                    run.wait()
            return with_confidence(merge([run.part() for run in runs]))
        finally:
            for run in runs:
                run.end()

    def _command(self, machine: Machine, options: Sequence[str]) -> list[str]:
        words = [self.remote_engine, self.tool, *options, "--format", "json", "--progress", "--start-on-stdin"]
        filled = {"{host}": machine.host, "{command}": shlex.join(words)}
        return [filled.get(word, word) for word in shlex.split(self.remote_shell)]


def shares(options: Sequence[str], machines: Sequence[Machine]) -> list[list[str]]:
    """Each machine's options: its share of the clients or of the rate, and its own seed."""
    parts = [[*options] for _ in machines]
    clients, rate = option(options, "--clients"), option(options, "--rate")
    if clients is not None and clients.isdecimal():
        counts = apportioned(int(clients), [machine.share for machine in machines])
        if 0 in counts:
            raise CouldNotRun(f"{clients} clients cannot be shared by {len(machines)} machines", "give more --clients")
        parts = [with_option(part, "--clients", str(count)) for part, count in zip(parts, counts, strict=True)]
    elif rate is not None:
        each = [_shared_rates(rate, machine.share) for machine in machines]
        parts = [with_option(part, "--rate", value) for part, value in zip(parts, each, strict=True)]
    else:
        raise CouldNotRun("only --clients and --rate can be shared by machines", "give one of them")
    seed = int(option(options, "--seed") or 1)
    return [with_option(part, "--seed", str(seed + index)) for index, part in enumerate(parts)]


def _shared_rates(text: str, share: float) -> str:
    """A machine's share of a rate, or of the rates of a replay's steps."""
    try:
        return ",".join(f"{float(rate.removesuffix('/s')) * share:.10g}" for rate in text.split(","))
    except ValueError:
        raise CouldNotRun(f"--rate {text} cannot be shared", "give it per second, as in --rate 1000") from None


def apportioned(total: int, fractions: Sequence[float]) -> list[int]:
    """Splits a total into whole numbers in proportion to fractions (largest remainder method)."""
    exact = [total * fraction for fraction in fractions]
    counts = [int(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda index: counts[index] - exact[index])
    for index in order[: total - sum(counts)]:
        counts[index] += 1
    return counts


def _stop(runs: Sequence[_MachineRun]) -> None:
    """Asks all engines to end, and kills those that do not."""
    for run in runs:
        run.say("stop")
    last = threading.Timer(STOP_GRACE_SECONDS, _kill, (runs,))
    last.daemon = True
    last.start()


def _kill(runs: Sequence[_MachineRun]) -> None:
    for run in runs:
        run.kill()


class _Answer(Record):
    """The engine's answers before the start."""

    ready: bool = False
    clock_seconds: float | None = None


@dataclass
class _MachineRun:
    """A remote engine, controlled from this machine."""

    machine: Machine
    command: list[str]
    quiet_cores: frozenset[int]
    progress: engine.Progress | None
    clock_offset_seconds: float = 0.0
    round_trip_seconds: float = 0.0
    _talk: list[str] = field(default_factory=list)
    _output: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            # In its own process group: Ctrl-C reaches only this process, which forwards it once.
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            )
        except OSError as error:
            raise CouldNotRun(f"cannot run {self.command[0]}: {error.strerror}", "see --remote-shell") from error
        self._answers: queue.Queue[_Answer | None] = queue.Queue()
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        self._threads = [
            threading.Thread(target=self._listen, args=(process.stderr,), daemon=True),
            threading.Thread(target=lambda out: self._output.append(out.read()), args=(process.stdout,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def say(self, line: str) -> None:
        """Sends the engine a line; a failure is noticed elsewhere."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def wait_ready(self) -> None:
        """Waits until the engine is ready."""
        if not self._answer("it did not get ready in time").ready:
            raise CouldNotRun(
                f"{self.machine.host} did not report that it is ready", "does its sojourn-engine have this version?"
            )

    def read_clock(self) -> None:
        """Measures the offset of its clock, from the fastest of several questions."""
        readings = []
        for _ in range(CLOCK_READINGS):
            asked = time.time()
            self.say("clock")
            told = self._answer("it did not report its clock").clock_seconds or math.nan
            answered = time.time()
            readings.append((answered - asked, told - (asked + answered) / 2))
        self.round_trip_seconds, self.clock_offset_seconds = min(readings)

    def wait(self) -> None:
        """Waits until the remote engine ends."""
        self._process.wait()
        for thread in self._threads:
            thread.join()

    def kill(self) -> None:
        """Kills an engine that does not end when asked to."""
        self._process.kill()

    def part(self) -> Part:
        """Its result, or the reason why there is none."""
        result, because = None, None
        try:
            result = LoadResult.of(RequestsRecord.model_validate_json("".join(self._output)))
        except ValidationError:
            said = " ".join(self._talk).removeprefix("error: ") or f"exit code {self._process.returncode}"
            because = f"it ended without a result: {said}"
        offset, trip = self.clock_offset_seconds, self.round_trip_seconds
        return Part(self.machine.host, self.machine.share, result, because, offset, trip)

    def end(self) -> None:
        """Ends what still runs and releases all resources."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def _answer(self, otherwise: str) -> _Answer:
        try:
            answer = self._answers.get(timeout=READY_SECONDS_MAX)
        except queue.Empty:
            answer = None
        if answer is None:
            said = "; ".join(self._talk).removeprefix("error: ")
            raise CouldNotRun(
                f"{self.machine.host}: {said or otherwise}", "see --on, --remote-shell and --remote-engine"
            )
        return answer

    def _listen(self, stream: IO[str]) -> None:
        engine.stand_back(self.quiet_cores)
        for line in stream:
            if not line.startswith("{"):
                self._talk.append(line.rstrip())
            elif '"requests_per_second"' not in line:
                self._answers.put(_Answer.model_validate_json(line))
            elif self.progress is not None:
                self.progress(parse(line).model_copy(update={"host": self.machine.host}))
        self._answers.put(None)
