"""Counts a log's distinct methods, targets and statuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.workload.log import LogOptions, Progress, log_paths, native_options

SAFE_METHODS = ("GET", "HEAD")
"""Safe methods (RFC 9110, 9.2.1), as far as applications answer them with pages."""


@dataclass(frozen=True)
class Asked:
    """A distinct request of a log."""

    method: str
    target: str
    """Path and query, as sent."""
    status: int
    count: int
    bytes: int
    """Total bytes of its responses."""
    request_seconds: float | None = None
    """The sum of its logged durations; None if the log has none."""
    upstream_seconds: float | None = None

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The part after the question mark."""
        return self.target.partition("?")[2]


@dataclass(frozen=True)
class LogRequests:
    """All distinct requests of a log."""

    rows: Sequence[Asked]
    requests: int
    beyond: int
    """The number of requests without a row, because the log has too many distinct ones."""
    malformed: int
    duration_seconds: float
    peak_requests_per_second: float
    """The rate of the busiest minute."""


def read(log: str, options: LogOptions, progress: Progress = lambda done, total: None) -> LogRequests:
    """Reads a log of any format; `progress` is called with what was read and the whole.

    Raises:
        CouldNotRun: there is no such file, or no request in it.
    """
    try:
        found = _native.requests_of_log(
            log_paths(log, options.also), native_options(options), lambda done, total: progress(done, total or None)
        )
    except (OSError, ValueError) as error:
        what, _, hint = str(error).partition("\nhint: ")
        raise CouldNotRun(f"cannot read {log}: {what}", hint or None) from error
    rows = [Asked(**row) for row in found.pop("rows")]
    return LogRequests(rows=rows, **found)
