"""Parses logs on the workers of a cluster, for the one import that collects all lines in their order.

A plain log is parsed in parts, each a task whose result is a piece of parsed lines. A compressed log, or one whose
lines depend on those before them, is one task: its worker keeps the pieces in a temporary file, and the import fetches
them one by one. So memory does not grow with a log, here or there. What was lost with a worker is parsed again.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from sojourn import _native
from sojourn.cluster.target import LocalProcesses, Target
from sojourn.cluster.tasks import Tasks, WorkerLost, worker_address
from sojourn.failure import CouldNotRun
from sojourn.workload.log import LogOptions, native_options
from sojourn.workload.log_files import STANDARD_INPUT

T = TypeVar("T")

PART_BYTES = 16 << 20
"""The part of a plain log that is a task: large beside what a task costs."""
PIECE_TEXT_BYTES = 16 << 20
"""The text of a piece of a log that is parsed as a whole."""
AHEAD_PER_THREAD, AHEAD_MAX = 3, 64
"""Parts and logs parsed ahead of the one that is collected: per thread of the cluster, and at most."""
KEPT_SECONDS_MAX = 3600.0
"""A worker forgets the pieces of a command that has asked for none so long: it may have been killed."""
LOSSES_MAX = 5
"""How often a log may be parsed again because its worker was lost."""
HEAD_BYTES, TAIL_BYTES = 64 << 10, 4 << 10
"""What is compared to know a log again on another machine."""
_ALL = 1 << 62
_SHARED = (
    "put the log where all workers find it under the same path, or leave out --cluster: the import uses all cores here"
)


@dataclass(frozen=True)
class LogFile:
    """A log as this machine sees it."""

    path: str
    bytes: int
    digest: str
    """Of its first and last bytes."""

    @classmethod
    def described(cls, path: str, bytes_known: int | None = None) -> LogFile:
        """Describes the file, or its first bytes: a log may grow."""
        with Path(path).open("rb") as file:
            count = os.fstat(file.fileno()).st_size if bytes_known is None else bytes_known
            digest = hashlib.sha256(file.read(min(HEAD_BYTES, count)))
            file.seek(max(0, count - TAIL_BYTES))
            digest.update(file.read(min(TAIL_BYTES, count)))
        return cls(path, count, digest.hexdigest())


@dataclass(frozen=True)
class Kept:
    """The pieces of a whole log, in a file of the worker that parsed it."""

    worker: str
    key: str
    pieces: list[tuple[int, int]]
    """Of each the length, and the stored bytes that it was read from."""


# -- at workers


@dataclass
class _KeptFile:
    file: IO[bytes]
    asked_at: float


_kept: dict[str, _KeptFile] = {}
_lock = threading.Lock()


def parse_part(log: LogFile, options: LogOptions, begin: int, end: int) -> bytes | None:
    """The parsed lines that begin in a range of a plain log; None if there are none."""
    _require(log)
    return _native.LogParser(log.path, native_options(options), begin, end).piece(_ALL)


def parse_whole(log: LogFile, options: LogOptions, key: str) -> Kept:
    """Parses a log, and keeps its pieces here."""
    _require(log)
    parser = _native.LogParser(log.path, native_options(options))
    pieces, read_bytes = list[tuple[int, int]](), 0
    file = tempfile.TemporaryFile()  # noqa: SIM115  it stays open until it is dropped
    try:
        while (piece := parser.piece(PIECE_TEXT_BYTES)) is not None:
            file.write(piece)
            pieces.append((len(piece), parser.read_bytes - read_bytes))
            read_bytes = parser.read_bytes
        file.flush()
    except OSError as error:
        file.close()
        raise CouldNotRun(
            f"the worker on {socket.gethostname()} cannot keep the parsed lines of {log.path} in "
            f"{tempfile.gettempdir()}: {error.strerror}",
            "they take about as much as the compressed log: free some, or start the worker with TMPDIR elsewhere",
        ) from error
    now = time.monotonic()
    with _lock:
        for old in [each for each, kept in _kept.items() if now - kept.asked_at > KEPT_SECONDS_MAX]:
            _kept.pop(old).file.close()
        _kept[key] = _KeptFile(file, now)
    return Kept(worker_address(), key, pieces)


def fetch(key: str, begin: int, length: int) -> bytes | None:
    """A piece that is kept here; None if it is not."""
    with _lock:
        kept = _kept.get(key)
        if kept is None:
            return None
        kept.asked_at = time.monotonic()
        return os.pread(kept.file.fileno(), length, begin)


def drop(key: str) -> None:
    """Forgets the pieces of a log."""
    with _lock:
        kept = _kept.pop(key, None)
    if kept is not None:
        kept.file.close()


def _require(log: LogFile) -> None:
    host = socket.gethostname()
    try:
        found = LogFile.described(log.path, log.bytes)
    except OSError as error:
        raise CouldNotRun(f"the worker on {host} cannot read {log.path}: {error.strerror}", _SHARED) from error
    if found != log:
        raise CouldNotRun(f"{log.path} on {host} is another file than here", _SHARED)


# -- here


def are_parsed_elsewhere(target: Target | None) -> bool:
    """Whether logs are parsed on the workers of a cluster: if they are of other machines.

    Processes of this one take longer than its threads, which need not send what they have parsed.
    """
    return target is not None and not isinstance(target, LocalProcesses)


class OnWorkers:
    """Gives an import the pieces of its logs."""

    def __init__(self, tasks: Tasks, part_bytes: int = PART_BYTES) -> None:
        self._tasks = tasks
        self._part_bytes = part_bytes

    def __call__(
        self, paths: Sequence[str], options: LogOptions
    ) -> Callable[[str], Iterator[tuple[bytes, int]] | None]:
        """Begins to parse the logs; returns what gives the pieces of each, asked for in this order.

        Raises:
            CouldNotRun: one of them is standard input.
        """
        if STANDARD_INPUT in paths:
            raise CouldNotRun("workers cannot read this machine's standard input", "give files, or leave out --cluster")
        return _Parsing(self._tasks, paths, options, self._part_bytes).pieces


_Arguments = tuple[Callable[..., bytes | Kept | None], tuple[object, ...]]


@dataclass(frozen=True)
class _Unit:
    """A part of a log, or a whole one."""

    arguments: _Arguments
    stored_bytes: int


def _parsed(function: Callable[..., bytes | Kept | None], words: tuple[object, ...]) -> bytes | Kept | None:
    return function(*words)


class _Parsing:
    """The logs of one import."""

    def __init__(self, tasks: Tasks, paths: Sequence[str], options: LogOptions, part_bytes: int) -> None:
        self._tasks = tasks
        self._paths = paths
        self._options = options
        self._part_bytes = part_bytes
        self._key = uuid.uuid4().hex
        self._units: dict[str, list[_Unit]] = {}
        self._outcomes = self._in_order()

    def pieces(self, path: str) -> Iterator[tuple[bytes, int]] | None:
        """The pieces of a log, each with the stored bytes that it was read from; None if it is to be read here."""
        units = self._units_of(path)
        return self._pieces(units) if units else None

    def _pieces(self, units: list[_Unit]) -> Iterator[tuple[bytes, int]]:
        for unit in units:
            parsed = next(self._outcomes)
            if isinstance(parsed, Kept):
                yield from self._fetched(unit, parsed)
            elif parsed is not None:
                yield parsed, unit.stored_bytes

    def _fetched(self, unit: _Unit, kept: Kept) -> Iterator[tuple[bytes, int]]:
        """The pieces of a whole log; it is parsed again where its worker is lost."""
        begin, losses = 0, 0
        for number in range(len(kept.pieces)):
            length, stored_bytes = kept.pieces[number]
            while (piece := self._asked(kept, begin, length)) is None:
                losses += 1
                if losses > LOSSES_MAX:
                    raise CouldNotRun(
                        f"the parsed lines of a log were lost with their workers {losses} times",
                        "have the workers enough memory? Their own logs say how they ended",
                    )
                [outcome] = self._tasks.each(_parsed, [unit.arguments])
                again = outcome.result()
                assert isinstance(again, Kept)
                kept = again
            yield piece, stored_bytes
            begin += length
        self._ask(kept, drop, kept.key)

    def _asked(self, kept: Kept, begin: int, length: int) -> bytes | None:
        return self._ask(kept, fetch, kept.key, begin, length)

    def _ask(self, kept: Kept, function: Callable[..., T], *arguments: object) -> T | None:
        try:
            return self._tasks.ask(kept.worker, function, *arguments)
        except WorkerLost:
            return None

    def _in_order(self) -> Iterator[bytes | Kept | None]:
        """What tasks have returned, in the order of the logs."""
        ahead = max(2, min(AHEAD_MAX, AHEAD_PER_THREAD * self._tasks.threads))
        every = (unit.arguments for path in self._paths for unit in self._units_of(path))
        waiting, place = {}, 0
        for outcome in self._tasks.each(_parsed, every, ahead_max=ahead):
            waiting[outcome.place] = outcome
            while place in waiting:
                yield waiting.pop(place).result()
                place += 1

    def _units_of(self, path: str) -> list[_Unit]:
        if path not in self._units:
            self._units[path] = self._divided(path) if Path(path).is_file() and Path(path).stat().st_size else []
        return self._units[path]

    def _divided(self, path: str) -> list[_Unit]:
        try:
            multiple = _native.log_parts(path, native_options(self._options))
            log = LogFile.described(os.path.abspath(path))
        except (OSError, ValueError):
            # The import says why, in its turn.
            return []
        if multiple == 0:
            return []
        if multiple is None:
            key = f"{self._key}-{len(self._units)}"
            return [_Unit((parse_whole, (log, self._options, key)), log.bytes)]
        step = max(1, self._part_bytes // multiple) * multiple
        ends = [min(begin + step, log.bytes) for begin in range(0, log.bytes, step)]
        return [
            _Unit((parse_part, (log, self._options, begin, end)), end - begin)
            for begin, end in zip([0, *ends], ends, strict=False)
        ]
