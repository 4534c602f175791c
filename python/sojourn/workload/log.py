"""Imports an access log, with failures said the way every command says them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.results import writing
from sojourn.workload import log_files

TRACE_MAGIC = b"SJTRACE"
"""What a trace file of any version begins with."""
SESSION_GAP = "15s"
"""The default everywhere: seed IBM RC22629, 3.3."""


@dataclass(frozen=True)
class LogOptions:
    """How a log is read, and what of it is taken; docs/traces.md has the forms of each.

    Every selection is a list of which one has to fit; an empty one takes everything.
    """

    also: Sequence[str] = ()
    """Further logs, folders and patterns, which are read as one with the log itself."""
    session_gap_seconds: float = 15.0
    log_format: str | None = None
    """A name, or the server's own format string; None finds it out."""
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
    """The size of documents whose size the log does not say; None leaves them out."""

    def given(self) -> list[str]:
        """The options that differ from their defaults, as `name=value`, for the record of a run."""
        default = asdict(LogOptions())
        return [f"{name}={value}" for name, value in asdict(self).items() if value != default[name]]


class TraceNotWritten(CouldNotRun):
    """The log could be read, but not its trace written."""

    @property
    def because(self) -> str:
        """The system's reason alone."""
        return writing.reason(self.__cause__) if isinstance(self.__cause__, OSError) else self.what


_NOT_WRITTEN = "the trace cannot be written"
"""What the import says then."""


def require_log(log: str, also: Sequence[str] = ()) -> None:
    """Refuses logs that are not there, before anything is made for them."""
    log_paths(log, also)


def log_paths(log: str, also: Sequence[str]) -> str | list[tuple[str, bool]]:
    """One log by its path alone, so that it is called nothing else; several with whether they were found."""
    files = log_files.find([log, *also])
    if len(files) == 1 and not files[0].is_found:
        return files[0].path
    for file in files:
        if not file.is_found and is_trace(file.path):
            raise CouldNotRun(
                f"{file.path} is a trace, and there are other logs",
                "give a trace alone, or the logs that it was made of",
            )
    return [(file.path, file.is_found) for file in files]


Report = dict[str, Any]
"""What an import counted, as the native module says it; summaries keep it."""

Progress = Callable[[float, float | None], None]
"""Takes the bytes read and the bytes in all (None where unknown)."""


def import_log(log: str, options: LogOptions, seed: int, progress: Progress) -> tuple[_native.Trace, Report]:
    """The trace of a log in memory, and what its import counted.

    Args:
        log: a path of a file or a folder, a pattern, or `-` for standard input; plain, gz, bz2, xz or zst.
        options: how it is read.
        seed: spreads requests within their second.
        progress: is told how far it is.

    Raises:
        CouldNotRun: no such file, options that cannot be, an empty log, or no request in it that can be replayed.
    """
    paths = log_paths(log, options.also)
    native = native_options(options)
    with _explained(_called(log, options)):
        trace = _native.import_log(paths, native, seed, lambda done, total: progress(done, total or None))
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
) -> tuple[_native.StoredTrace, Report]:
    """The same as a trace file, in memory that grows with the distinct documents and clients alone.

    Args:
        log: as in `import_log`.
        output: a path, at which there is the whole trace or what was there before; an open file; or None for a file
            without a name. A path's folder is to be there.
        options: as in `import_log`.
        seed: as in `import_log`.
        progress: as in `import_log`.
        may_be_empty: whether a log without any request that can be replayed is imported too, for what else it says.

    Raises:
        TraceNotWritten: the disk of `output` is full, or closed to us.
        CouldNotRun: as `import_log`.
    """
    require_log(log, options.also)
    if isinstance(output, Path):
        if output.exists() and not output.is_file():
            raise CouldNotRun(f"{output} is not a file", "name a file for the trace with --output")
        part = output.with_name(f"{output.name}.part")
        try:
            part.touch()
        except OSError as error:
            raise TraceNotWritten(f"{_NOT_WRITTEN}: {error}", "name another file with --output") from error
        try:
            trace, report = _import_to_path(log, str(part), str(output.parent), options, seed, progress, may_be_empty)
            with _explained(log):
                part.replace(output)
        finally:
            part.unlink(missing_ok=True)
        return trace, report
    if output is not None:
        # A descriptor's name, under which the file can be opened again though it has no other.
        name = f"/proc/self/fd/{output.fileno()}"
        return _import_to_path(log, name, tempfile.gettempdir(), options, seed, progress, may_be_empty)
    with tempfile.TemporaryFile() as file:
        return import_log_to_file(log, file, options, seed, progress, may_be_empty=may_be_empty)


def _import_to_path(
    log: str, output: str, folder: str, options: LogOptions, seed: int, progress: Progress, may_be_empty: bool
) -> tuple[_native.StoredTrace, Report]:
    native = native_options(options, may_be_empty=may_be_empty)
    with _explained(_called(log, options)):
        report = _native.import_log_to_file(
            log_paths(log, options.also),
            output,
            folder,
            native,
            seed,
            lambda done, total: progress(done, total or None),
        )
        return _native.StoredTrace.open(output), report


def _called(log: str, options: LogOptions) -> str:
    return f"{log} and {len(options.also)} more" if options.also else log


@contextmanager
def _explained(log: str) -> Iterator[None]:
    """Says what an import died of the way every command does."""
    try:
        yield
    except (OSError, ValueError) as error:
        what, _, hint = str(error).partition("\nhint: ")
        kind = TraceNotWritten if what.startswith(_NOT_WRITTEN) else CouldNotRun
        raise kind(f"cannot import {log}: {what}", hint or None) from error


def is_trace(source: str) -> bool:
    """True if a file is a trace that was imported already."""
    if source == "-" or not Path(source).is_file():
        return False
    with Path(source).open("rb") as file:
        return file.read(len(TRACE_MAGIC)) == TRACE_MAGIC


def load_trace(source: str, options: LogOptions) -> _native.Trace:
    """A trace from its file, in memory; options that say how a log is read come too late for it.

    Raises:
        CouldNotRun: there are such options, or the file is damaged.
    """
    require_default(source, options)
    with _damage_explained():
        return _native.Trace.load(source)


def open_trace(source: str, options: LogOptions) -> _native.StoredTrace:
    """The same of which the documents alone are held."""
    require_default(source, options)
    with _damage_explained():
        return _native.StoredTrace.open(source)


@contextmanager
def _damage_explained() -> Iterator[None]:
    """Says why a trace file cannot be read."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise CouldNotRun(str(error), "import the log again: sojourn trace LOG --output TRACE") from error


def require_default(source: str, options: LogOptions) -> None:
    """Refuses options of a log for a trace."""
    if given := options.given():
        raise CouldNotRun(
            f"{source} is a trace, and {', '.join(given)} says how a log is read",
            "give these options to `sojourn trace LOG --output TRACE`, or give the log itself",
        )


def native_options(options: LogOptions, *, may_be_empty: bool = False) -> _native.LogOptions:
    """The options, checked.

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
