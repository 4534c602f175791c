"""The access log of a study: a given one or the example log, as text and as a trace."""

from __future__ import annotations

from pathlib import Path

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.workload.log import LogOptions, import_log_to_file, is_trace

EXAMPLE = "example"
EXAMPLE_SEED = 1


def log_file(log: str, work: Path) -> Path:
    """The log's path; the example log is written below `work` first.

    Raises:
        CouldNotRun: there is no such file.
    """
    if log != EXAMPLE:
        if not Path(log).is_file():
            raise CouldNotRun(f"there is no file {log}", "give an access log with --log")
        return Path(log).resolve()
    made = work / "example.log"
    if not made.is_file():
        _native.synthesise_log(str(made), EXAMPLE_SEED)
    return made


def trace_file(log: str, work: Path) -> Path:
    """The log as a trace, imported once."""
    source = log_file(log, work)
    if is_trace(str(source)):
        return source
    made = work / "log.trace"
    if not made.is_file():
        import_log_to_file(str(source), made, LogOptions(), EXAMPLE_SEED, lambda done, total: None)
    return made
