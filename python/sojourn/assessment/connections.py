"""The number of open connections of a load, and how to stay within the machine's limit.

By Little's law the sessions of a load hold rate / (requests per session) x (duration of a session) connections.
"""

from __future__ import annotations

import resource

from sojourn import _native

CONNECTIONS_MAX = 10_000
"""The limit on any machine: mostly idle connections cost memory and cache, and a fixed limit keeps runs comparable."""
DESCRIPTORS_SHARE = 0.5
"""The share of a process's file descriptors for connections; the server needs others for files."""


def think_scale_within_limits(trace: _native.Trace, requests_per_second: float) -> tuple[float, str | None]:
    """The factor on think times that keeps open connections within the limit, with the reason if it is not 1."""
    wanted = requests_per_second / trace.mean_requests_per_session * trace.mean_session_duration_seconds
    allowed = connections_allowed()
    if wanted <= allowed:
        return 1.0, None
    scale = allowed / wanted
    # The message gives no rate, because the highest rate is a guess before any measurement.
    return scale, (
        f"Think times were shortened to {scale:.3f} of the log's: with its own, the highest loads that were planned "
        f"would hold more than the {allowed:,} open connections that this run allows itself. "
        "Requests, their order and their connections are the log's; fewer connections are idle at a time."
    )


def connections_allowed() -> int:
    """The smaller limit: ours, or the process's file descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(100, min(CONNECTIONS_MAX, int(hard * DESCRIPTORS_SHARE)))
