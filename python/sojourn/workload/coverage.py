"""Coverage: the share of a log's requests that a static copy of its site can answer.

A request is covered if it is in the trace and a file answers it. The others are *dynamic*, by class, or *left out*:
static, but without a complete response (failed, partial). Shares refer to all requests of the log, not only to those
kept; a connection without a request does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DYNAMIC_SKIPPED = {"with_query": "query", "other_method": "method"}
"""For imports without coverage: the skip reasons that mean dynamic, with their classes."""


@dataclass(frozen=True)
class PathCount:
    """A path without its query, with its requests of one class."""

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
    """The share of all requests of the log."""
    bytes: int | None
    """The bytes sent; `None` if the import did not count them."""
    top_paths: tuple[PathCount, ...]
    """The paths with the most requests, in descending order."""


@dataclass(frozen=True)
class Coverage:
    """The share of a log that an answer about its static copy covers."""

    requests_all: int
    requests_fraction: float
    bytes_fraction: float | None
    """The share of bytes; `None` if the log has none, or the import did not count them."""
    peak_requests_per_second_all: float | None
    """The rate of all requests in the busiest minute; `None` if the import did not count it."""
    peak_requests_fraction: float | None
    """The covered share of that minute's requests."""
    dynamic: tuple[RequestClass, ...]
    """Dynamic classes, most frequent first."""
    left_out: tuple[RequestClass, ...]

    @property
    def dynamic_fraction(self) -> float:
        """The share of all requests that is dynamic."""
        return sum(each.share for each in self.dynamic)


Counted = Mapping[str, Any]
"""An import's report or a part of it, untyped because keys differ between versions."""


def coverage(log_import: Counted) -> Coverage | None:
    """The coverage in an import's report; `None` if it has none.

    Earlier versions counted neither bytes nor paths of left-out requests.
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
