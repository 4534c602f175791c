"""Imports an access log, with failures said the way every command says them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sojourn import _native
from sojourn.failure import CouldNotRun

TRACE_MAGIC = b"SJTRACE2"
SESSION_GAP = "15s"
"""The default everywhere: seed IBM RC22629, 3.3."""


@dataclass(frozen=True)
class LogOptions:
    """How a log is read, and what of it is taken; docs/traces.md has the forms of each.

    Every selection is a list of which one has to fit; an empty one takes everything.
    """

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

    def given(self) -> list[str]:
        """The options that differ from their defaults, as `name=value`, for the record of a run."""
        default = asdict(LogOptions())
        return [f"{name}={value}" for name, value in asdict(self).items() if value != default[name]]


def require_log(log: str) -> None:
    """Refuses a log that is not there, before anything is made for it."""
    if log != "-" and not Path(log).is_file():
        raise CouldNotRun(f"there is no file {log}", "give an access log; plain, gz and zst are read as they are")


def import_log(
    log: str, options: LogOptions, seed: int, progress: Callable[[float, float | None], None]
) -> tuple[_native.Trace, dict[str, Any]]:
    """The trace of a log, and what its import counted.

    Args:
        log: a path, or `-` for standard input; plain, gz or zst.
        options: how it is read.
        seed: spreads requests within their second.
        progress: takes the bytes read and the bytes in all (None where unknown).

    Raises:
        CouldNotRun: no such file, options that cannot be, an empty log, or no request in it that can be replayed.
    """
    require_log(log)
    native = native_options(options)
    try:
        trace = _native.import_log(log, native, seed, lambda done, total: progress(done, total or None))
    except (OSError, ValueError) as error:
        what, _, hint = str(error).partition("\nhint: ")
        raise CouldNotRun(f"cannot import {log}: {what}", hint or None) from error
    report = trace.report()
    assert report is not None, "only a trace from a file has no report"
    return trace, report


def is_trace(source: str) -> bool:
    """Whether a file is a trace that was imported already."""
    if source == "-" or not Path(source).is_file():
        return False
    with Path(source).open("rb") as file:
        return file.read(len(TRACE_MAGIC)) == TRACE_MAGIC


def load_trace(source: str, options: LogOptions) -> _native.Trace:
    """A trace from its file; options that say how a log is read come too late for it.

    Raises:
        CouldNotRun: there are such options, or the file is damaged.
    """
    require_default(source, options)
    try:
        return _native.Trace.load(source)
    except (OSError, ValueError) as error:
        raise CouldNotRun(str(error), "import the log again: sojourn trace LOG --output TRACE") from error


def require_default(source: str, options: LogOptions) -> None:
    """Refuses options of a log for a trace."""
    if given := options.given():
        raise CouldNotRun(
            f"{source} is a trace, and {', '.join(given)} says how a log is read",
            "give these options to `sojourn trace LOG --output TRACE`, or give the log itself",
        )


def native_options(options: LogOptions) -> _native.LogOptions:
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
        )
    except ValueError as error:
        what, _, hint = str(error).partition("\nhint: ")
        raise CouldNotRun(what, hint or None) from error
