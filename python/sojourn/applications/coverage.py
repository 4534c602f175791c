"""The share of a log's requests that a generated load of its endpoints can represent, and the reasons for the rest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass

from sojourn.applications.endpoints import Endpoint
from sojourn.applications.requests import Asked, LogRequests

SERVER_ERROR = 500
CLIENT_CLOSED = 499
"""nginx's status for a client that closed the connection before the response."""
WITH_BODIES = ("POST", "PUT", "PATCH")
"""Methods whose requests have bodies, which no log has."""
LOGOUT = re.compile(r"(?:^|[/._-])(?:log|sign)[-_]?(?:out|off)\b", re.IGNORECASE)
"""Paths that end a session."""
COMMON_STATUS = 0.02
"""A status with at least this share of a target's responses counts as expected."""


@dataclass(frozen=True)
class LeftOut:
    """Requests that are left out."""

    why: str
    count: int
    fraction: float
    """Their share of the log's requests."""


@dataclass(frozen=True)
class Coverage:
    """The endpoints to request, and the requests left out."""

    endpoints: Sequence[Endpoint]
    """The endpoints with only the requests that are sent."""
    requests: int
    covered_requests: int
    left_out: Sequence[LeftOut]

    @property
    def fraction(self) -> float:
        """The share of the log's requests that are sent."""
        return self.covered_requests / self.requests if self.requests else 0.0


def coverage(
    log: LogRequests,
    known: Sequence[Endpoint],
    methods: Collection[str],
    writes: Container[str] = (),
    *,
    logged_in: bool = False,
) -> Coverage:
    """Selects the endpoints and requests that may be sent.

    Args:
        log: what was read.
        known: its endpoints.
        methods: those that are allowed.
        writes: names of endpoints whose requests are known with their bodies.
        logged_in: requests are made by users whose sessions must not end.
    """
    kept, missing = list[Endpoint](), defaultdict[str, int](int)
    for endpoint in known:
        if endpoint.method not in methods:
            missing[f"{endpoint.method} is not allowed (--allow-methods)"] += endpoint.count
            continue
        if endpoint.method in WITH_BODIES and endpoint.name not in writes:
            missing[f"{endpoint.name}: its body is not known (--bodies)"] += endpoint.count
            continue
        asked = []
        for row in endpoint.requests:
            because = _not_asked(row)
            if because is None and logged_in and endpoint.name not in writes and LOGOUT.search(row.path):
                because = f"{row.path} would end the users' sessions"
            if because is None:
                asked.append(row)
            else:
                missing[because] += row.count
        if asked:
            kept.append(Endpoint(endpoint.name, endpoint.method, tuple(asked)))
    if log.beyond:
        missing["too many different requests"] += log.beyond
    left_out = [LeftOut(why, count, count / log.requests) for why, count in missing.items()]
    return Coverage(
        endpoints=kept,
        requests=log.requests,
        covered_requests=sum(each.count for each in kept),
        left_out=sorted(left_out, key=lambda each: -each.count),
    )


def expected_statuses(endpoint: Endpoint) -> dict[str, list[int]]:
    """The expected statuses by target: those in the log except rare ones; 304 also means 200."""
    by_target: defaultdict[str, list[Asked]] = defaultdict(list)
    for row in endpoint.requests:
        by_target[row.target].append(row)
    return {target: _expected(rows) for target, rows in by_target.items()}


def _expected(rows: Sequence[Asked]) -> list[int]:
    total = sum(row.count for row in rows)
    statuses = {row.status for row in rows if row.count >= COMMON_STATUS * total}
    # The load generator has no cached copy to revalidate.
    return sorted({200 if status == 304 else status for status in statuses})


def _not_asked(row: Asked) -> str | None:
    if row.status == CLIENT_CLOSED:
        return "the client closed before the answer (499)"
    if row.status >= SERVER_ERROR:
        return "the server failed (5xx)"
    return "a part of a document (206)" if row.status == 206 else None
