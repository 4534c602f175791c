"""Flows: what one user does in an iteration of the load, as tables of a scenario.

A log's endpoint is a flow of one request, which draws among the log's targets; a write is the flow that a file of
bodies has for it. A scenario's flows are its own. The load varies how often each flow is made, and its results are by
the names of requests.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from pydantic import JsonValue

from sojourn.applications.coverage import Coverage, expected_statuses
from sojourn.applications.endpoints import Endpoint
from sojourn.applications.requests import Asked
from sojourn.applications.scenario import FlowTable, Scenario, Table
from sojourn.failure import CouldNotRun
from sojourn.text import quantity

SAFE_BYTES = "/?&=%:@!$'()*+,;~-._[]|"
"""Characters of a logged target that go as they are; others are escaped."""
NOT_LOGGED_IN = frozenset((301, 302, 303, 307, 401, 403))
"""The statuses for clients that are not logged in: failures for users, if the log has successes, too."""
_NO_TIME = re.compile(r"0+(\.0*)?[a-z]*")
SHARE_SCALE = 10_000
"""A scenario has no number of requests: its shares are told as if it had been iterated so often."""


@dataclass(frozen=True)
class Flow:
    """Requests one after another."""

    name: str
    count: float
    """How often it is made, in proportion to the others'."""
    requests: Sequence[Table]

    @property
    def visits(self) -> Mapping[str, float]:
        """How often each name is asked for in an iteration, on average."""
        counted: defaultdict[str, float] = defaultdict(float)
        for table in self.requests:
            counted[str(table["name"])] += float(str(table.get("share", 1.0))) * float(str(table.get("repeat", 1)))
        return counted

    @property
    def requests_per_iteration(self) -> float:
        """On average."""
        return sum(self.visits.values())

    def think_seconds(self, default: str | None) -> float:
        """How long its user thinks within an iteration, on average."""
        return sum(_thinks(self.requests[:-1], default))

    def cycle_seconds(self, default: str | None, response_seconds: Mapping[str, float]) -> float:
        """From one iteration of a user to the next, on average, where responses take so long."""
        responses = sum(visits * response_seconds.get(name, 0.0) for name, visits in self.visits.items())
        return sum(_thinks(self.requests, default)) + responses

    def table(self, weight: float) -> JsonValue:
        """As the engine's scenario has it, with this weight."""
        return {"weight": weight, "request": [dict(request) for request in self.requests]}


Iterations = Sequence[tuple[Flow, float]]
"""Flows with how often each is made, per second."""


def visits_per_second(iterations: Iterations) -> dict[str, float]:
    """How often each name is asked for, where flows are made so often."""
    counted: defaultdict[str, float] = defaultdict(float)
    for flow, rate in iterations:
        for name, visits in flow.visits.items():
            counted[name] += visits * rate
    return counted


def of_log(
    covered: Coverage,
    writes: Mapping[str, Sequence[Table]],
    folder: Path,
    headers: Sequence[str] = (),
    *,
    logged_in: bool = False,
) -> list[Flow]:
    """A flow for each endpoint of a log.

    Args:
        covered: the endpoints that are asked for.
        writes: by endpoint what stands for it, where a log's line is not enough.
        folder: here the lists of targets are written.
        headers: fields that all requests have.
        logged_in: users are, so that answers to others are wrong.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for place, endpoint in enumerate(covered.endpoints):
        requests = writes.get(endpoint.name)
        if requests is None:
            path = folder / f"{place}.list"
            path.write_text(target_list(endpoint))
            statuses = sorted(expected(endpoint, logged_in=logged_in))
            requests = [
                {
                    "name": endpoint.name,
                    "method": endpoint.method,
                    "targets": str(path.absolute()),
                    "status": list(statuses),
                    # The log has what a redirection led to as a line of its own.
                    "redirects": 0,
                    **compressed(headers),
                }
            ]
        made.append(Flow(endpoint.name, endpoint.count, requests))
    return made


def of_scenario(scenario: Scenario, headers: Sequence[str] = ()) -> list[Flow]:
    """The flows of a scenario; where every iteration is a new user, each begins with the login.

    Args:
        scenario: as the engine reads it.
        headers: fields that all requests have.

    Raises:
        CouldNotRun: it has none.
    """
    tables = scenario.flows
    if not tables:
        raise CouldNotRun("the scenario has a login alone", "write [[request]], or give it as --login beside a log")
    names = _names_of(tables)
    login = scenario.login if scenario.is_user_new else []
    fields = [*headers, *(f"{name}:" for name in _mapping(scenario.defaults.get("headers")))]

    def request(table: Table) -> Table:
        # What is looked at has to come as it is.
        if table.get("check") or table.get("take"):
            return table
        own = _mapping(table.get("headers"))
        more = _mapping(compressed([*fields, *(f"{name}:" for name in own)]).get("headers"))
        return {**table, "headers": {**own, **more}} if more else table

    return [
        Flow(name, table.weight, [*login, *map(request, table.request)])
        for name, table in zip(names, tables, strict=True)
    ]


def endpoints_of(flows: Sequence[Flow]) -> list[Endpoint]:
    """The requests of a scenario as endpoints: what results, demands and objectives are by."""
    whole = sum(flow.count for flow in flows)
    counts: defaultdict[str, float] = defaultdict(float)
    example: dict[str, Table] = {}
    for flow in flows:
        for table in flow.requests:
            example.setdefault(str(table["name"]), table)
        for name, visits in flow.visits.items():
            counts[name] += visits * flow.count / whole
    made = []
    for name, table in example.items():
        method, target = str(table["method"]), str(table.get("url") or table.get("targets"))
        count = max(1, round(counts[name] * SHARE_SCALE))
        made.append(Endpoint(name, method, (Asked(method, target, 200, count, 0),)))
    return made


def writes_of(scenario: Scenario, endpoints: Sequence[Endpoint]) -> dict[str, Sequence[Table]]:
    """Maps endpoints to the part of a scenario or recording that stands for them: the flow up to the request that fits.

    Requests before it in its flow fetch what it needs, as a token; without [[flow]] each request stands for itself.
    """
    flows = scenario.flow or [FlowTable(request=[table]) for table in scenario.request]
    found: dict[str, Sequence[Table]] = {}
    for endpoint in endpoints:
        for flow in flows:
            place = next((at for at, table in enumerate(flow.request) if _stands_for(table, endpoint)), None)
            if place is not None:
                own = {**flow.request[place], "name": endpoint.name}
                # As the log has it, unless it is said: what a redirection leads to is a line of its own.
                if "status" not in own and "redirects" not in own:
                    own |= {"status": list(sorted(expected(endpoint, logged_in=False))), "redirects": 0}
                found[endpoint.name] = [*flow.request[:place], own]
                break
    return found


def _stands_for(table: Table, endpoint: Endpoint) -> bool:
    if table["method"] != endpoint.method:
        return False
    path = urlsplit(str(table.get("url", ""))).path
    # Values stand for anything within a segment.
    pattern = "".join(
        "[^/?]+" if part.startswith("${") else re.escape(part) for part in re.split(r"(\$\{[^}]*\})", path)
    )
    return any(re.fullmatch(pattern, row.path) for row in endpoint.requests)


def target_list(endpoint: Endpoint) -> str:
    """The endpoint's targets with how often the log has them, as the engine reads it.

    Raises:
        CouldNotRun: none of them can be asked for.
    """
    counts = dict[str, int]()
    for row in endpoint.requests:
        target = quote(row.target.partition("#")[0], safe=SAFE_BYTES)
        if target.startswith("/"):
            counts[target] = counts.get(target, 0) + row.count
    if not counts:
        raise CouldNotRun(f"{endpoint.name} has no target that can be asked for")
    return "".join(f"{target} {min(count, 1 << 31)}\n" for target, count in counts.items())


def expected(endpoint: Endpoint, *, logged_in: bool) -> set[int]:
    """The statuses that are good answers of an endpoint."""
    found = {status for target in expected_statuses(endpoint).values() for status in target}
    if logged_in and any(status < 300 for status in found):
        found -= NOT_LOGGED_IN
    return found


def compressed(headers: Sequence[str]) -> Table:
    """Returns the field by which browsers ask for compression, whose cost then counts, unless `headers` have one."""
    given = {header.partition(":")[0].strip().lower() for header in headers}
    return {} if "accept-encoding" in given else {"headers": {"Accept-Encoding": "gzip"}}


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _names_of(tables: Sequence[FlowTable]) -> list[str]:
    """Names flows by their first request, with a number where several begin alike."""
    first = [str(table.request[0]["name"]) for table in tables]
    return [name if first.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(first, 1)]


def _thinks(requests: Sequence[Table], default: str | None) -> list[float]:
    """The think times after requests, each as often as its request is made."""
    return [
        mean_seconds(str(table.get("think", default or "0s")))
        * float(str(table.get("share", 1.0)))
        * float(str(table.get("repeat", 1)))
        for table in requests
    ]


def mean_seconds(think: str) -> float:
    """Returns the mean of a think time as scenarios write it: a mean, or a range."""
    # The quantities of options are above zero; a pause may be none.
    ends = [0.0 if _NO_TIME.fullmatch(part.strip()) else quantity.seconds(part) for part in think.split("-")]
    return sum(ends) / len(ends)
