"""The access log of a study: a given one, or one that is made; as text and as a trace."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.text import quantity
from sojourn.workload.log import LogOptions, import_log_to_file, is_trace

EXAMPLE = "example"
EXAMPLE_SEED = 1
_LIKE = re.compile(r"(\w+)(?: at (\S+%))?")
"""A log with published figures, or a part of it: `nyse`, `nyse at 2%`."""


def is_made(log: str) -> bool:
    """Whether this names a log that is made, not a file."""
    match = _LIKE.fullmatch(log)
    return log == EXAMPLE or (match is not None and match[1] in _native.log_shapes())


def log_file(log: str, work: Path) -> Path:
    """The log's path; one that is made is written below `work` first.

    Raises:
        CouldNotRun: there is no such file, or no log is like this.
    """
    if not is_made(log):
        if not Path(log).is_file():
            known = ", ".join(sorted(_native.log_shapes()))
            raise CouldNotRun(
                f"there is no file {log}", f"give an access log with --log, or a part of {known}: 'nyse at 2%'"
            )
        return Path(log).resolve()
    made = work / f"{log.replace(' ', '-')}.log"
    if made.is_file():
        return made
    unfinished = made.with_suffix(".unfinished")
    if log == EXAMPLE:
        _native.synthesise_log(str(unfinished), EXAMPLE_SEED)
    else:
        match = _LIKE.fullmatch(log)
        assert match is not None, "it is made"
        share = quantity.fraction(match[2]) if match[2] else 1.0
        try:
            _native.synthesise_shape(str(unfinished), EXAMPLE_SEED, json.dumps(_native.log_shapes()[match[1]]), share)
        except ValueError as error:
            raise CouldNotRun(f"no log can be {log!r}: {error}", "take a larger share") from error
    return unfinished.rename(made)


def trace_file(log: str, work: Path) -> Path:
    """The log as a trace, imported once."""
    source = log_file(log, work)
    if is_trace(str(source)):
        return source
    made = work / f"log-{hashlib.sha256(str(source).encode()).hexdigest()[:16]}.trace"
    if not made.is_file():
        import_log_to_file(str(source), made, LogOptions(), EXAMPLE_SEED, lambda done, total: None)
    return made
