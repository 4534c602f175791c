"""Imports an access log, with failures said the way every command says them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sojourn import _native
from sojourn.failure import CouldNotRun

SESSION_GAP = "15s"
"""The default everywhere: seed IBM RC22629, 3.3."""


def require_log(log: str) -> None:
    """Refuses a log that is not there, before anything is made for it."""
    if log != "-" and not Path(log).is_file():
        raise CouldNotRun(f"there is no file {log}", "give an access log; plain, gz and zst are read as they are")


def import_log(
    log: str, session_gap_seconds: float, seed: int, progress: Callable[[float, float | None], None]
) -> tuple[_native.Trace, dict[str, Any]]:
    """The trace of a log, and what its import counted.

    Args:
        log: a path, or `-` for standard input; plain, gz or zst.
        session_gap_seconds: a longer pause of a client starts a new session.
        seed: spreads requests within their second.
        progress: takes the bytes read and the bytes in all (None where unknown).

    Raises:
        CouldNotRun: no such file, an empty log, or no static request in it.
    """
    require_log(log)
    try:
        trace = _native.import_log(log, session_gap_seconds, seed, lambda done, total: progress(done, total or None))
    except (OSError, ValueError) as error:
        what, _, hint = str(error).partition("\nhint: ")
        raise CouldNotRun(f"cannot import {log}: {what}", hint or None) from error
    report = trace.report()
    assert report is not None, "only a trace from a file has no report"
    return trace, report
