"""How many connections a load keeps open, and what to do where that is more than the machine allows.

By Little's law the sessions of a load hold rate / (requests per session) x (duration of a session) connections.
"""

from __future__ import annotations

import resource

from sojourn import _native

CONNECTIONS_MAX = 10_000
"""An assessment holds no more open at its highest step, on any machine: the price of a connection that is mostly idle
is memory and cache, and a fixed number of them keeps runs comparable."""
DESCRIPTORS_SHARE = 0.5
"""Of the descriptors a process may have; the server needs others for files."""


def think_scale_within_limits(trace: _native.Trace, requests_per_second: float) -> tuple[float, str | None]:
    """The factor on think times that keeps the open connections within the limit, and why it is not one."""
    wanted = requests_per_second / trace.mean_requests_per_session * trace.mean_session_duration_seconds
    allowed = connections_allowed()
    if wanted <= allowed:
        return 1.0, None
    scale = allowed / wanted
    # No rate is named: the highest is a guess, made before anything was measured.
    return scale, (
        f"Think times were shortened to {scale:.3f} of the log's: with its own, the highest loads that were planned "
        f"would hold more than the {allowed:,} open connections that this run allows itself. "
        "Requests, their order and their connections are the log's; fewer connections are idle at a time."
    )


def connections_allowed() -> int:
    """The limit that comes first: ours, or the descriptors a process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(100, min(CONNECTIONS_MAX, int(hard * DESCRIPTORS_SHARE)))
