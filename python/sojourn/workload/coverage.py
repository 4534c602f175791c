"""Which share of a log's requests a static copy of its site can stand for.

A request is covered if it is in the trace and its answer is a file's. The others are *dynamic*, by class, or
*left out*: static, but not a whole document (failed, in part). Shares are of all requests of the log, not of those
kept; a connection on which nothing was asked is no request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DYNAMIC_SKIPPED = {"with_query": "query", "other_method": "method"}
"""The reasons to leave a request out that say it is dynamic, in imports that counted no coverage, and their classes."""


@dataclass(frozen=True)
class PathCount:
    """A path without its query, and its requests of one class."""

    path: str
    count: int


@dataclass(frozen=True)
class RequestClass:
    """The requests of one class."""

    name: str
    """`query`, `method`, `varying_size`, `user_dependent` and `after_post` are dynamic; `failed`, `redirected`,
    `partial`, `without_size` and `of_unknown_size` are left out."""
    count: int
    share: float
    """Of all requests of the log."""
    bytes: int | None
    """What was sent; `None` where the import did not count it."""
    top_paths: tuple[PathCount, ...]
    """The paths with the most requests, the most first."""


@dataclass(frozen=True)
class Coverage:
    """What share of a log an answer about its static copy stands for."""

    requests_all: int
    requests_fraction: float
    bytes_fraction: float | None
    """`None` where the log has no bytes, or the import did not count them."""
    peak_requests_per_second_all: float | None
    """The rate of all requests in the busiest minute; `None` where the import did not count it."""
    peak_requests_fraction: float | None
    """The share of that minute's requests that is covered."""
    dynamic: tuple[RequestClass, ...]
    """The most frequent class first."""
    left_out: tuple[RequestClass, ...]

    @property
    def dynamic_fraction(self) -> float:
        """The share of all requests that is dynamic."""
        return sum(each.share for each in self.dynamic)


Counted = Mapping[str, Any]
"""What an import reports, or a part of it; imports of every version are read, whose keys differ."""


def coverage(log_import: Counted) -> Coverage | None:
    """The coverage of an import, from what it reported; `None` where it reported nothing.

    Imports of earlier versions counted no bytes and no paths of what they left out.
    """
    if not log_import:
        return None
    counted = log_import.get("coverage")
    return _of_skipped(log_import) if counted is None else _of_counted(counted)


def _of_counted(counted: Counted) -> Coverage:
    requests, minute = counted["requests"], counted["busiest_minute"]
    return Coverage(
        requests_all=requests,
        requests_fraction=_share(counted["covered_requests"], requests),
        bytes_fraction=counted["covered_bytes"] / counted["bytes"] if counted["bytes"] else None,
        peak_requests_per_second_all=counted["peak_requests_per_second"],
        peak_requests_fraction=_share(minute["covered_requests"], minute["requests"]),
        dynamic=_classes(counted["dynamic"], requests),
        left_out=_classes(counted["left_out"], requests),
    )


def _classes(rows: list[Counted], requests: int) -> tuple[RequestClass, ...]:
    def paths(row: Counted) -> tuple[PathCount, ...]:
        return tuple(PathCount(path["path"], path["requests"]) for path in row["top_paths"])

    return tuple(
        RequestClass(row["class"], row["requests"], _share(row["requests"], requests), row["bytes"], paths(row))
        for row in rows
    )


def _of_skipped(log_import: Counted) -> Coverage:
    skipped = {reason: count for reason, count in log_import["skipped"].items() if reason != "without_target"}
    covered = log_import["requests"] - log_import.get("failed_requests", 0)
    requests = log_import["requests"] + sum(skipped.values())

    def classes(names: Mapping[str, str]) -> tuple[RequestClass, ...]:
        counts = {name: skipped.get(reason, 0) for reason, name in names.items()}
        ordered = sorted(counts.items(), key=lambda row: -row[1])
        return tuple(RequestClass(name, count, _share(count, requests), None, ()) for name, count in ordered if count)

    return Coverage(
        requests_all=requests,
        requests_fraction=_share(covered, requests),
        bytes_fraction=None,
        peak_requests_per_second_all=None,
        peak_requests_fraction=None,
        dynamic=classes(DYNAMIC_SKIPPED),
        left_out=classes({reason: reason for reason in skipped if reason not in DYNAMIC_SKIPPED}),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
