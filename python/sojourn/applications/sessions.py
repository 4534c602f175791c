"""Sessions of a log as flows: what one client requested, in its order and with its pauses.

In steps of the log's mix, sessions arrive at random in place of single requests. Their requests are those that the
coverage allows; what stands for a write is made beside them, at its own rate.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from urllib.parse import quote

import numpy as np

from sojourn.applications.coverage import Coverage
from sojourn.applications.endpoints import Endpoint
from sojourn.applications.flows import SAFE_BYTES, Flow, compressed, expected, mean_seconds
from sojourn.applications.scenario import Table
from sojourn.failure import CouldNotRun
from sojourn.workload.log import LogOptions, import_log

SESSIONS_MAX = 400
"""The most that are repeated, drawn at random."""
SESSIONS_MIN = 10
REQUESTS_MAX = 200
"""The most requests of a session; a longer one ends there."""
REQUESTS_IN_ALL_MAX = 5000
"""The most requests of all sessions together; the engine takes twice as many."""


def of_log(
    log: str,
    options: LogOptions,
    covered: Coverage,
    writes: Container[str],
    headers: Sequence[str],
    seed: int,
    *,
    logged_in: bool,
) -> list[Flow]:
    """Sessions of a log, drawn at random, each a flow.

    Raises:
        CouldNotRun: the log has too few.
    """
    # A trace tells HEAD from GET by nothing but its target: where both are asked for, it is GET, which comes last.
    by_target = {
        row.target: endpoint
        for endpoint in sorted(covered.endpoints, key=lambda each: each.method == "GET")
        if endpoint.method in ("GET", "HEAD") and endpoint.name not in writes
        for row in endpoint.requests
        if row.target.startswith("/")
    }
    options = replace(options, keep_failed=True, keep_queries=True, keep_methods=False)
    trace, _ = import_log(log, options, seed, lambda *_: None)
    of_document = [by_target.get(name) for name in trace.names()]
    documents, offsets = trace.requests()
    begins = np.flatnonzero(trace.first_in_session())
    sessions = [
        [
            (float(offsets[at]), document, endpoint)
            for at in range(begin, min(end, begin + REQUESTS_MAX))
            if (endpoint := of_document[document := int(documents[at])]) is not None
        ]
        for begin, end in zip(begins, [*begins[1:], len(documents)], strict=True)
    ]
    sessions = [session for session in sessions if session]
    if len(sessions) < SESSIONS_MIN:
        raise CouldNotRun(
            f"the log has {len(sessions)} sessions whose requests may be made, and {SESSIONS_MIN} are needed",
            "leave --sessions out; or do its lines have the address of a proxy in place of the clients'?",
        )
    drawn = np.random.default_rng(seed).permutation(len(sessions))[:SESSIONS_MAX]
    within = np.cumsum([len(sessions[number]) for number in drawn]) <= REQUESTS_IN_ALL_MAX
    chosen = drawn[within]
    names = trace.names()
    statuses = {each.name: sorted(expected(each, logged_in=logged_in)) for each in covered.endpoints}
    return [
        Flow(
            f"session {number}",
            1,
            [
                _request(endpoint, names[document], statuses[endpoint.name], pause, headers)
                for (_, document, endpoint), pause in zip(sessions[number], _pauses(sessions[number]), strict=True)
            ],
        )
        for number in map(int, chosen)
    ]


def without(sessions: Sequence[Flow], name: str, targets: Container[str]) -> list[Flow]:
    """The sessions without requests of this name for these targets; the pauses after them are kept."""
    left = []
    for session in sessions:
        requests = list[Table]()
        for table in session.requests:
            if table["name"] != name or str(table["url"]) not in targets:
                requests.append(table)
            elif requests:
                before = requests.pop()
                pause = mean_seconds(str(before["think"])) + mean_seconds(str(table["think"]))
                requests.append({**before, "think": _think(pause)})
        if requests:
            left.append(replace(session, requests=requests))
    return left


def _pauses(session: Sequence[tuple[float, int, Endpoint]]) -> list[float]:
    """How long it takes after each request until the next one."""
    times = [at for at, _, _ in session]
    return [later - at for at, later in zip(times, [*times[1:], times[-1]], strict=True)]


def _request(endpoint: Endpoint, target: str, statuses: Sequence[int], pause: float, headers: Sequence[str]) -> Table:
    return {
        "name": endpoint.name,
        "method": endpoint.method,
        "url": quote(target.partition("#")[0], safe=SAFE_BYTES),
        "status": list(statuses),
        "redirects": 0,
        "think": _think(pause),
        # What follows in the log did so whatever the answer was.
        "optional": True,
        **compressed(headers),
    }


def _think(seconds: float) -> str:
    """As a range, because a single time would be the mean of random ones."""
    return f"{seconds:.3f}s-{seconds:.3f}s"
