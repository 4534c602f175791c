"""Imports an access log and converts errors to failures with hints."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from sojourn import _native, interrupts
from sojourn.failure import CouldNotRun
from sojourn.results import writing
from sojourn.workload import log_files, recordings

TRACE_MAGIC = b"SJTRACE"
"""The first bytes of a trace file of any version."""
SESSION_GAP = "15s"
"""The default session gap: IBM RC22629, 3.3."""


@dataclass(frozen=True)
class LogOptions:
    """How to read a log and which entries to select; docs/traces.md describes the options.

    Every selection is a list, of which one item must match; an empty one accepts everything.
    """

    also: Sequence[str] = ()
    """Further logs, folders and patterns, read together with the log."""
    session_gap_seconds: float = 15.0
    log_format: str | None = None
    """A format's name, or the server's own format string; None to detect it."""
    json_fields: Sequence[str] = ()
    statuses: Sequence[str] = ()
    methods: Sequence[str] = ()
    paths: Sequence[str] = ()
    hosts: Sequence[str] = ()
    clients: Sequence[str] = ()
    begin: str | None = None
    end: str | None = None
    path_map: Sequence[str] = ()
    host_map: Sequence[str] = ()
    keep_failed: bool = False
    keep_queries: bool = False
    keep_methods: bool = False
    assumed_size_bytes: int | None = None
    """The size assumed for documents without a logged size; None leaves them out."""

    def given(self) -> list[str]:
        """The options that differ from their defaults, as `name=value`, for a run's record."""
        default = asdict(LogOptions())
        return [f"{name}={value}" for name, value in asdict(self).items() if value != default[name]]


class TraceNotWritten(CouldNotRun):
    """The log was read, but its trace could not be written."""

    @property
    def because(self) -> str:
        """The system's reason."""
        return writing.reason(self.__cause__) if isinstance(self.__cause__, OSError) else self.what


_NOT_WRITTEN = "the trace cannot be written"
"""The message in that case."""


def require_log(log: str, also: Sequence[str] = ()) -> None:
    """Refuses missing logs before anything is created for them."""
    log_paths(log, also)


def log_paths(log: str, also: Sequence[str]) -> str | list[tuple[str, bool]]:
    """The path of a single log, which messages then do not name; several with whether they were found in a folder."""
    files = [_readable(file) for file in log_files.find([log, *also])]
    if len(files) == 1 and not files[0].is_found:
        return files[0].path
    for file in files:
        if not file.is_found and is_trace(file.path):
            raise CouldNotRun(
                f"{file.path} is a trace, and there are other logs",
                "give a trace alone, or the logs that it was made of",
            )
    return [(file.path, file.is_found) for file in files]


def _readable(file: log_files.LogFile) -> log_files.LogFile:
    """A recording becomes a log."""
    return replace(file, path=recordings.as_log(file.path)) if recordings.is_recording(file.path) else file


Report = dict[str, Any]
"""An import's counts from the native module; summaries contain it."""

Progress = Callable[[float, float | None], None]
"""Receives the bytes read and the total bytes (None if unknown)."""


Pieces = Callable[[str], Iterator[tuple[bytes, int]] | None]
"""The pieces of a log that is parsed elsewhere, each with the stored bytes that it was read from, by the log's path;
None for a log that is to be read here.
"""

Parsing = Callable[[Sequence[str], LogOptions], Pieces]
"""Begins to parse logs elsewhere, as `log_pieces.OnWorkers` does."""


def import_log(
    log: str, options: LogOptions, seed: int, progress: Progress, parsing: Parsing | None = None
) -> tuple[_native.Trace, Report]:
    """Imports a log into memory; returns the trace and the report.

    Args:
        log: a path of a file or a folder, a pattern, or `-` for standard input; plain, gz, bz2, xz or zst.
        options: how it is read.
        seed: spreads requests within their second.
        progress: receives the progress.
        parsing: parses the log elsewhere; the result is the same.

    Raises:
        CouldNotRun: no such file, options that cannot be, an empty log, or no request in it that can be replayed.
    """
    paths = log_paths(log, options.also)
    native = native_options(options)
    pieces = _pieces(paths, options, parsing)
    with _explained(_called(log, options)), interrupts.preparing():
        trace = _native.import_log(paths, native, seed, lambda done, total: progress(done, total or None), pieces)
    report = trace.report()
    assert report is not None, "only a trace from a file has no report"
    return trace, report


def import_log_to_file(
    log: str,
    output: Path | IO[bytes] | None,
    options: LogOptions,
    seed: int,
    progress: Progress,
    *,
    may_be_empty: bool = False,
    parsing: Parsing | None = None,
) -> tuple[_native.StoredTrace, Report]:
    """Imports a log into a trace file, with memory only for distinct documents and clients.

    Args:
        log: as in `import_log`.
        output: a path, at which there is the whole trace or what was there before; an open file; or None for a file
            without a name. A path's folder is to be there.
        options: as in `import_log`.
        seed: as in `import_log`.
        progress: as in `import_log`.
        may_be_empty: whether a log without any request that can be replayed is imported too, for what else it says.
        parsing: as in `import_log`.

    Raises:
        TraceNotWritten: the disk of `output` is full, or closed to us.
        CouldNotRun: as `import_log`.
    """
    paths = log_paths(log, options.also)

    def imported(path: str, folder: str) -> tuple[_native.StoredTrace, Report]:
        native = native_options(options, may_be_empty=may_be_empty)
        pieces = _pieces(paths, options, parsing)
        with _explained(_called(log, options)), interrupts.preparing():
            report = _native.import_log_to_file(
                paths, path, folder, native, seed, lambda done, total: progress(done, total or None), pieces
            )
            return _native.StoredTrace.open(path), report

    if isinstance(output, Path):
        if output.exists() and not output.is_file():
            raise CouldNotRun(f"{output} is not a file", "name a file for the trace with --output")
        part = output.with_name(f"{output.name}.part")
        try:
            part.touch()
        except OSError as error:
            raise TraceNotWritten(f"{_NOT_WRITTEN}: {error}", "name another file with --output") from error
        try:
            trace, report = imported(str(part), str(output.parent))
            with _explained(log):
                part.replace(output)
        finally:
            part.unlink(missing_ok=True)
        return trace, report
    with tempfile.TemporaryFile() if output is None else nullcontext(output) as file:
        # The name of a descriptor, under which an unnamed file can be opened again.
        return imported(f"/proc/self/fd/{file.fileno()}", tempfile.gettempdir())


def _pieces(paths: str | list[tuple[str, bool]], options: LogOptions, parsing: Parsing | None) -> Pieces | None:
    if parsing is None:
        return None
    return parsing([paths] if isinstance(paths, str) else [path for path, _ in paths], options)


def _called(log: str, options: LogOptions) -> str:
    return f"{log} and {len(options.also)} more" if options.also else log


@contextmanager
def _explained(log: str) -> Iterator[None]:
    """Converts import errors to failures with hints."""
    try:
        yield
    except (OSError, ValueError) as error:
        what, _, hint = str(error).partition("\nhint: ")
        kind = TraceNotWritten if what.startswith(_NOT_WRITTEN) else CouldNotRun
        raise kind(f"cannot import {log}: {what}", hint or None) from error


def is_trace(source: str) -> bool:
    """Returns true if a file is a trace."""
    if source == "-" or not Path(source).is_file():
        return False
    with Path(source).open("rb") as file:
        return file.read(len(TRACE_MAGIC)) == TRACE_MAGIC


def load_trace(source: str, options: LogOptions) -> _native.Trace:
    """Reads a trace file into memory; options for reading a log do not apply to it.

    Raises:
        CouldNotRun: there are such options, or the file is damaged.
    """
    require_default(source, options)
    with _damage_explained():
        return _native.Trace.load(source)


def open_trace(source: str, options: LogOptions) -> _native.StoredTrace:
    """Opens a trace file, reading only its documents into memory."""
    require_default(source, options)
    with _damage_explained():
        return _native.StoredTrace.open(source)


@contextmanager
def _damage_explained() -> Iterator[None]:
    """Converts errors of a trace file to failures."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise CouldNotRun(str(error), "import the log again: sojourn trace LOG --output TRACE") from error


def require_default(source: str, options: LogOptions) -> None:
    """Refuses log options for a trace."""
    if given := options.given():
        raise CouldNotRun(
            f"{source} is a trace, and {', '.join(given)} says how to read a log",
            "give these options to `sojourn trace LOG --output TRACE`, or give the log itself",
        )


def native_options(options: LogOptions, *, may_be_empty: bool = False) -> _native.LogOptions:
    """Converts the options for the native module.

    Raises:
        CouldNotRun: one of them cannot be understood.
    """
    try:
        return _native.LogOptions(
            session_gap_seconds=options.session_gap_seconds,
            log_format=options.log_format,
            json_fields=list(options.json_fields),
            statuses=list(options.statuses),
            methods=list(options.methods),
            paths=list(options.paths),
            hosts=list(options.hosts),
            clients=list(options.clients),
            begin=options.begin,
            end=options.end,
            path_map=list(options.path_map),
            host_map=list(options.host_map),
            keep_failed=options.keep_failed,
            keep_queries=options.keep_queries,
            keep_methods=options.keep_methods,
            assumed_size_bytes=options.assumed_size_bytes,
            may_be_empty=may_be_empty,
        )
    except ValueError as error:
        what, _, hint = str(error).partition("\nhint: ")
        raise CouldNotRun(what, hint or None) from error
