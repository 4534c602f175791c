"""Generates one load from several machines: starts them together, merges their histograms, compares their clocks.

The load is that of `sojourn load`, viewers of films included, or of `sojourn replay`: at given rates each machine draws
its sessions from the same trace, and as logged each has its part of the sessions. A machine is a worker of a cluster
with the resource `load`. On each one the engine prepares, and starts at a time of its own clock that means the same
moment everywhere. A clock offset is known to half a round trip (F. Cristian, Distributed Computing 3, 1989). A machine
that fails is named in the result, and the others continue.
"""

from __future__ import annotations

import ipaddress
import itertools
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from sojourn import engine, interrupts
from sojourn.cluster.dask_cluster import DaskCluster, Loader
from sojourn.cluster.tasks import WorkerLost
from sojourn.engine.progress import ProgressLine, parse, together
from sojourn.failure import CouldNotRun
from sojourn.loading import record as records
from sojourn.loading import worker_engine
from sojourn.loading.load_files import USERS_FILE, LoggedIn, files_of, with_files_beside
from sojourn.loading.merging import Part, merge
from sojourn.loading.record import StreamsRecord
from sojourn.loading.result import LoadResult
from sojourn.loading.run import Tool, cores_of, option, plays_streams, recorded, seed_of, with_option, without_options
from sojourn.loading.steps import with_confidence

T = TypeVar("T")

READY_SECONDS_MAX = 30.0
CLOCK_READINGS = 9
START_LEAD_SECONDS = 0.3
"""How far ahead the common start is set, in addition to three round trips."""
LOOK_SECONDS = 0.25
"""Between two looks at all machines while they generate load."""
STOP_GRACE_SECONDS = 20.0
MACHINES_MAX = 256
FILE_BYTES_MAX = 4 << 30
"""The largest file that is sent to the machines."""
PIECE_BYTES = 4 << 20
OF_THIS_MACHINE = ("--core", "--observe-core", "--observe-pid")
"""The engine's options that name a core or a process of this machine."""
OBSERVER_SHARE = 0.02
"""The share of the load that this machine generates where it observes the server."""
RAMP_DEFAULT = "50/s"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Machine:
    """A machine and its share of the load."""

    host: str
    share: float


@dataclass(frozen=True)
class Fleet:
    """The machines of a cluster that generate a load together."""

    cluster: DaskCluster
    tool: Tool = "load"
    weights: Sequence[float] | None = None
    """By machine in the order of the cluster; equal if not given."""
    observes: bool = False
    """Whether this machine generates a small share as well, beside the server that the options name to observe."""
    leaves_out: bool = False
    """Whether machines are left out if there are fewer clients; otherwise such a load is refused."""

    @property
    def address(self) -> str:
        """The address under which the machines reach this one: the loopback if all of them are this one."""
        for each in self.cluster.loaders():
            host = str(urlsplit(each.address).hostname)
            if not ipaddress.ip_address(host).is_loopback:
                with socket.socket(type=socket.SOCK_DGRAM) as asking:
                    # Nothing is sent; the kernel chooses the source of the route.
                    asking.connect((host, 9))
                    return str(asking.getsockname()[0])
        return LOOPBACK

    def url(self, here: str) -> str:
        """The URL under which the machines reach a server of this machine."""
        parts = urlsplit(here)
        return here if self.address == LOOPBACK else parts._replace(netloc=f"{self.address}:{parts.port}").geturl()

    def run(self, options: Sequence[str], progress: engine.Progress | None = None) -> LoadResult:
        """Runs the load on all machines at once.

        Users of `--users-file` are shared by the machines, and are in the file as they are afterwards.

        Raises:
            CouldNotRun: a machine does not become ready; none has started then.
        """
        with tempfile.TemporaryDirectory(prefix="sojourn-fleet-") as folder:
            return self._run(options, Path(folder), progress)

    def _run(self, given: Sequence[str], folder: Path, progress: engine.Progress | None) -> LoadResult:
        options, beside = with_files_beside(given, folder)
        loaders: list[Loader | ThisMachine] = [*self.cluster.loaders()]
        clients = option(options, "--clients") or ("1" if plays_streams(options) else "")
        if self.leaves_out and clients.isdecimal():
            loaders = loaders[: max(1, int(clients))]
        machines = machines_of([each.name for each in loaders], self.weights)
        if self.observes:
            machines = [Machine(each.host, each.share * (1 - OBSERVER_SHARE)) for each in machines]
            machines.append(Machine(ThisMachine.name, OBSERVER_SHARE))
            loaders.append(ThisMachine())
        shared = shares(recorded(self.tool, options), machines)
        logged_in, users = LoggedIn.of(options), list[Path]()
        if logged_in is not None:
            users = logged_in.parts(_users_of(machines, len(logged_in.users)), folder)
            shared = [with_option(part, USERS_FILE, str(path)) for part, path in zip(shared, users, strict=True)]
        told = None if progress is None else _Together(progress)
        runs = [
            _MachineRun(machine, loader, [self.tool, *_own(part, loader)], cores_of(options), told, beside)
            for machine, loader, part in zip(machines, loaders, shared, strict=True)
        ]
        try:
            with interrupts.raised():
                for run in runs:
                    run.send_files()
                for run in runs:
                    run.begin()
                for run in runs:
                    run.wait_ready()
                for run in runs:
                    run.read_clock()
            start = time.time() + START_LEAD_SECONDS + 3 * max(run.round_trip_seconds for run in runs)
            with interrupts.handed_on() as handed:
                for run in runs:
                    run.say(f"go {start + run.clock_offset_seconds:.6f}")
                asked_at: float | None = None
                while any([run.is_running() for run in runs]):
                    time.sleep(LOOK_SECONDS)
                    if handed.asked and asked_at is None:
                        asked_at = time.monotonic()
                        for run in runs:
                            run.say("stop")
                    elif asked_at is not None and time.monotonic() - asked_at > STOP_GRACE_SECONDS:
                        for run in runs:
                            run.kill()
            merged = merge([run.part() for run in runs], reached_by_all="--stop-when-failing" in options)
            if logged_in is not None:
                logged_in.keep(users, [run.users for run in runs])
            return merged if merged.is_streams else with_confidence(merged)
        finally:
            for run in runs:
                run.end()


def machines_of(names: Sequence[str], weights: Sequence[float] | None) -> list[Machine]:
    """The machines with their shares.

    Raises:
        CouldNotRun: there is none, or not a weight for each.
    """
    if not 1 <= len(names) <= MACHINES_MAX:
        raise CouldNotRun(
            f"the cluster has {len(names)} workers that generate load; 1 to {MACHINES_MAX} can be used",
            "start workers with the resource: dask worker --resources load=1",
        )
    given = weights or [1.0] * len(names)
    if len(given) != len(names):
        raise CouldNotRun(
            f"there are {len(given)} shares for {len(names)} machines: {', '.join(names)}", "give one for each"
        )
    return [Machine(name, weight / sum(given)) for name, weight in zip(names, given, strict=True)]


def shares(options: Sequence[str], machines: Sequence[Machine]) -> list[list[str]]:
    """Each machine's options: its share of the clients, of the rate or of the sessions, and its own seed.

    A number of requests or visits after which to stop is shared, too.
    """
    parts = [[*options] for _ in machines]
    clients, rate = option(options, "--clients"), option(options, "--rate")
    if plays_streams(options) and clients is None:
        clients = "1"
    if clients is not None and clients.isdecimal():
        counts = _shared_count(int(clients), machines, "--clients")
        parts = [with_option(part, "--clients", str(count)) for part, count in zip(parts, counts, strict=True)]
        if plays_streams(options):
            ramp = option(options, "--ramp") or RAMP_DEFAULT
            ramps = [_shared_rates(ramp, count / int(clients)) for count in counts]
            parts = [with_option(part, "--ramp", text) for part, text in zip(parts, ramps, strict=True)]
    elif rate is not None:
        each = [_shared_rates(rate, machine.share) for machine in machines]
        parts = [with_option(part, "--rate", value) for part, value in zip(parts, each, strict=True)]
    elif option(options, "--scale") is not None:
        ends = [0.0, *itertools.accumulate(machine.share for machine in machines[:-1]), 1.0]
        places = [f"{begin!r}..{end!r}" for begin, end in itertools.pairwise(ends)]
        parts = [with_option(part, "--part", text) for part, text in zip(parts, places, strict=True)]
    else:
        raise CouldNotRun("only --clients, --rate and --scale can be shared by machines", "give one of them")
    for name in ("--requests", "--sessions"):
        stops_after = option(options, name)
        if stops_after is not None and stops_after.isdecimal():
            counts = _shared_count(int(stops_after), machines, name)
            parts = [with_option(part, name, str(count)) for part, count in zip(parts, counts, strict=True)]
    seed = seed_of(options)
    return [with_option(part, "--seed", str(seed + index)) for index, part in enumerate(parts)]


def _shared_count(count: int, machines: Sequence[Machine], name: str) -> list[int]:
    """The machines' shares of the count that an option gives."""
    counts = apportioned(count, [machine.share for machine in machines])
    if 0 in counts:
        what = name.removeprefix("--")
        raise CouldNotRun(f"{count} {what} cannot be shared by {len(machines)} machines", f"give more {name}")
    return counts


def _users_of(machines: Sequence[Machine], count: int) -> list[int]:
    """How many of the users each machine has."""
    counts = apportioned(count, [machine.share for machine in machines])
    if 0 in counts:
        raise CouldNotRun(
            f"{count} users who are logged in cannot be shared by {len(machines)} machines", "let more users log in"
        )
    return counts


def _own(options: Sequence[str], loader: Loader | ThisMachine) -> list[str]:
    """The options without those for this machine, where another one runs them."""
    return [*options] if isinstance(loader, ThisMachine) else without_options(options, OF_THIS_MACHINE)


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


class _Together:
    """Combines the progress of all machines; tells it when the machine reports that was the first to report."""

    def __init__(self, progress: engine.Progress) -> None:
        self._progress = progress
        self._latest: dict[str, ProgressLine] = {}

    def __call__(self, name: str, line: ProgressLine) -> None:
        is_first = name == next(iter(self._latest), name)
        self._latest[name] = line
        if is_first:
            self._progress(together(list(self._latest.values())))


class ThisMachine:
    """Generates load in this process's engine, as a `Loader` does on a worker."""

    name = "this machine"

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1)
        self._task: Future[object] | None = None

    def begin(self, function: Callable[..., object], *arguments: object) -> None:
        """Begins the task."""
        self._task = self._threads.submit(function, *arguments)

    def ask(self, function: Callable[..., T], *arguments: object) -> T:
        """Calls the function."""
        return function(*arguments)

    def is_there(self) -> bool:
        """True: a command does not outlive itself."""
        return True

    def is_done(self) -> bool:
        """Whether the task has ended."""
        return self._task is None or self._task.done()

    def result(self) -> Any:
        """What the task returned; raises what it raised."""
        assert self._task is not None
        return self._task.result()

    def release(self) -> None:
        """Ends the thread once the task has ended."""
        self._threads.shutdown(wait=False)


@dataclass
class _MachineRun:
    """The engine of one machine, controlled from this one."""

    machine: Machine
    loader: Loader | ThisMachine
    words: Sequence[str]
    quiet_cores: frozenset[int]
    progress: _Together | None
    beside: Mapping[str, Path]
    """Files that go beside those that the words name."""
    users: str | None = None
    """The users who came back, as a users file has them."""
    clock_offset_seconds: float = 0.0
    round_trip_seconds: float = 0.0
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    _lost_because: str | None = None
    _begun: bool = False
    _has_sent: bool = False
    _folder: str = ""
    """Where its engine leaves its result if its worker dies."""

    def send_files(self) -> None:
        """Copies the files that the options name to the machine."""
        for place, path in [*files_of(self.words).items(), *self.beside.items()]:
            if path.stat().st_size > FILE_BYTES_MAX:
                raise CouldNotRun(
                    f"{path} is larger than {FILE_BYTES_MAX:,} bytes", "copy it to the same new path on every machine"
                )
            with path.open("rb") as file:
                self._has_sent = True
                self.loader.ask(worker_engine.receive, self.name, place, b"")
                while piece := file.read(PIECE_BYTES):
                    self._asked(worker_engine.receive, self.name, place, piece)

    def begin(self) -> None:
        """Starts the task; the engine prepares and waits."""
        self._begun = True
        files = list(files_of(self.words))
        self.loader.begin(worker_engine.generate, self.name, list(self.words), files, self.quiet_cores)

    def wait_ready(self) -> None:
        """Waits until the engine is ready."""
        until = time.monotonic() + READY_SECONDS_MAX
        while not (status := self._asked(worker_engine.status, self.name)).is_ready:
            if self.loader.is_done():
                raise CouldNotRun(f"{self.machine.host}: {self._ending()}", "see the machine's engine and its options")
            if time.monotonic() > until:
                raise CouldNotRun(
                    f"{self.machine.host} is not ready after {READY_SECONDS_MAX:g} s",
                    "does it generate another load? The dashboard shows its tasks",
                )
            time.sleep(0.05)
        self._folder = status.folder

    def read_clock(self) -> None:
        """Measures the offset of its clock, from the fastest of several questions."""
        readings = []
        for _ in range(CLOCK_READINGS):
            asked = time.time()
            told = self._asked(worker_engine.clock)
            answered = time.time()
            readings.append((answered - asked, told - (asked + answered) / 2))
        self.round_trip_seconds, self.clock_offset_seconds = min(readings)

    def say(self, line: str) -> None:
        """Sends the engine a line; a failure is noticed at the end."""
        try:
            self.loader.ask(worker_engine.say, self.name, line)
        except WorkerLost as lost:
            self._lost(lost)

    def is_running(self) -> bool:
        """Whether its engine runs; hands on the progress that it has made."""
        if self._lost_because is not None or self.loader.is_done():
            return False
        try:
            lines = self.loader.ask(worker_engine.status, self.name).progress
        except WorkerLost as lost:
            if not self.loader.is_there():
                self._lost(lost)
            return self._lost_because is None
        if self.progress is not None:
            for line in lines:
                self.progress(self.name, parse(line))
        return True

    def part(self) -> Part:
        """Its result, or the reason why there is none."""
        result, because, rates = None, self._lost_because, list[float]()
        if because is None:
            try:
                ended: worker_engine.Ended = self.loader.result()
                printed = records.parse(ended.output)
                self.users = ended.users
                result = LoadResult.of(printed)
                rates = (printed.stream_bits_per_second or []) if isinstance(printed, StreamsRecord) else []
            except (WorkerLost, ValidationError, CouldNotRun):
                because = f"it ended without a result: {self._ending()}"
        offset, trip = self.clock_offset_seconds, self.round_trip_seconds
        return Part(self.machine.host, self.machine.share, result, because, offset, trip, rates)

    def kill(self) -> None:
        """Kills an engine that does not stop; what it has printed counts."""
        if self._begun and self._lost_because is None and not self.loader.is_done():
            try:
                self.loader.ask(worker_engine.kill, self.name)
            except WorkerLost as lost:
                self._lost(lost)

    def end(self) -> None:
        """Ends what still runs and gives the worker back."""
        if not (self._begun or self._has_sent) or self._lost_because is not None:
            return
        try:
            self.loader.ask(worker_engine.end, self.name)
        except (WorkerLost, CouldNotRun):
            pass
        finally:
            self._has_sent = False
            if self._begun:
                self._begun = False
                self.loader.release()

    def _asked(self, function: Callable[..., T], *arguments: object) -> T:
        """Asks before the start, when a machine that is lost ends the run."""
        try:
            return self.loader.ask(function, *arguments)
        except WorkerLost as lost:
            raise CouldNotRun(f"{self.machine.host} cannot be reached: {lost}", "see --cluster") from lost

    def _lost(self, lost: WorkerLost) -> None:
        self._lost_because = self._said(lost)

    def _said(self, lost: WorkerLost) -> str:
        left = f"; its engine stops and leaves its own result there, in {self._folder}" if self._folder else ""
        return f"its worker was lost: {lost}{left}"

    def _ending(self) -> str:
        """How its task ended."""
        try:
            ended: worker_engine.Ended = self.loader.result()
        except WorkerLost as lost:
            return self._said(lost)
        except CouldNotRun as failure:
            return failure.said
        return ended.talk.removeprefix("error: ") or f"exit code {ended.code}"
