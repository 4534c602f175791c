"""The definition of a load: the flows, the users who make them, and the part of the log that they stand for.

A log gives flows of its own requests, a scenario its own flows; a log beside a scenario says how busy the system was,
alone.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sojourn.applications import flows, requests, scenario, sessions
from sojourn.applications.coverage import Coverage, coverage
from sojourn.applications.endpoints import OTHER, Endpoint, endpoints
from sojourn.applications.flows import Flow
from sojourn.applications.request import ApplicationRequest
from sojourn.applications.requests import LogRequests
from sojourn.applications.scenario import Scenario, Table
from sojourn.applications.users import Users
from sojourn.failure import CouldNotRun

ENDPOINTS_MAX = 9
"""That are loaded apart: more could not be told apart within the time."""
USERS = 50
"""Users that log in by default; fewer if the feeder file has fewer."""


@dataclass(frozen=True)
class LoadDefinition:
    """The load of an assessment, before its rate."""

    flows: Sequence[Flow]
    users: Users
    covered: Coverage
    """Results, demands and objectives are by its endpoints."""
    log: LogRequests | None
    warnings: Sequence[str]
    sessions: Sequence[Flow] = ()
    """Sessions of the log, if they make its mix."""
    requests_per_logged: float = 1.0
    """How many requests are made for one of the log's: those that fetch what a write needs come before it."""

    @property
    def peak_requests_per_second(self) -> float | None:
        """The load's rate that stands for the log's busiest minute."""
        if self.log is None:
            return None
        return self.log.peak_requests_per_second * self.covered.fraction * self.requests_per_logged

    @property
    def thinks(self) -> bool:
        """True if users pause anywhere: without, their number says nothing of the load that they make."""
        return any(flow.cycle_seconds(self.users.scenario.think, {}) > 0 for flow in self.flows)

    @property
    def shares(self) -> dict[str, float]:
        """By flow, of all requests of the load."""
        counts = {flow.name: flow.count * flow.requests_per_iteration for flow in self.flows}
        whole = sum(counts.values())
        return {name: count / whole for name, count in counts.items()}


def of_request(request: ApplicationRequest, folder: Path) -> LoadDefinition:
    """The load that a person asked for; lists of targets are written into the folder.

    Raises:
        CouldNotRun: a file is missing or wrong, or nothing of the log may be asked for.
    """
    log = None if request.log is None else requests.read(request.log, request.log_options)
    if request.scenario is not None:
        return _of_scenario(request, log)
    if log is None:
        raise CouldNotRun("there is nothing to load with", "give an access log, or --scenario FILE")
    return _of_log(request, log, folder)


def _of_scenario(request: ApplicationRequest, log: LogRequests | None) -> LoadDefinition:
    assert request.scenario is not None
    if request.login is not None:
        raise CouldNotRun("--login and --scenario exclude each other", "write the [[login]] into the scenario")
    read = scenario.read(request.scenario, request.target)
    made = flows.of_scenario(read.scenario, request.headers)
    known = flows.endpoints_of(made)
    whole = sum(each.count for each in known)
    covered = Coverage(endpoints=known, requests=whole, covered_requests=whole, left_out=())
    return LoadDefinition(made, _users(request, read.scenario), covered, log, read.warnings)


def _of_log(request: ApplicationRequest, log: LogRequests, folder: Path) -> LoadDefinition:
    known = endpoints(log.rows, request.endpoints)
    warnings = list[str]()
    login = Scenario()
    if request.login is not None:
        read = scenario.read(request.login, request.target)
        warnings += read.warnings
        login = read.scenario
        if login.flows:
            raise CouldNotRun(
                f"{request.login} has more than a login", "give it as --scenario, or leave [[request]] and [[flow]] out"
            )
    users = _users(request, login)
    writes: Mapping[str, Sequence[Table]] = {}
    if request.bodies is not None:
        read = scenario.read(request.bodies, request.target)
        warnings += read.warnings
        allowed = [each for each in known if each.method in request.methods]
        writes = flows.writes_of(read.scenario, allowed)
        if not writes:
            raise CouldNotRun(
                f"nothing in {request.bodies} stands for a request of the log",
                "its requests need the method and the path of an endpoint (sojourn endpoints LOG), and --allow-methods",
            )
    covered = coverage(log, known, request.methods, writes, logged_in=users.are_logged_in)
    covered = replace(covered, endpoints=_few(covered.endpoints, writes))
    if not covered.endpoints:
        raise CouldNotRun("the log has no request that may be made", "see sojourn endpoints LOG, --allow-methods")
    made = flows.of_log(covered, writes, folder / "targets", request.headers, logged_in=users.are_logged_in)
    visits: Sequence[Flow] = ()
    if request.in_sessions and request.log is not None:
        visits = sessions.of_log(
            request.log,
            request.log_options,
            covered,
            writes,
            request.headers,
            request.seed,
            logged_in=users.are_logged_in,
        )
    per_logged = sum(flow.count * flow.requests_per_iteration for flow in made) / sum(flow.count for flow in made)
    return LoadDefinition(made, users, covered, log, warnings, visits, per_logged)


def _users(request: ApplicationRequest, read: Scenario) -> Users:
    rows = _rows(read)
    count = request.users or min(USERS, rows or USERS)
    return Users(read, count, request.connecting)


def _rows(read: Scenario) -> int | None:
    """How many users the feeder file has."""
    file = read.users.get("file")
    if not isinstance(file, str):
        return None
    with Path(file).open(newline="", encoding="utf-8-sig") as lines:
        return max(1, sum(1 for row in csv.reader(lines) if row) - 1)


def _few(known: Sequence[Endpoint], writes: Mapping[str, object]) -> list[Endpoint]:
    """Endpoints few enough to be told apart: of each method the rarest are one, but for those that have bodies."""
    if len(known) <= ENDPOINTS_MAX:
        return list(known)
    apart = [each for each in known if each.name in writes]
    # What was combined before goes with what is combined now.
    combined = [each for each in known if each.name not in writes and each.name == f"{each.method} {OTHER}"]
    others = [each for each in known if each not in (*apart, *combined)]
    room = max(1, ENDPOINTS_MAX - 1 - len(apart))
    kept, rare = [*apart, *others[:room]], [*others[room:], *combined]
    for method in dict.fromkeys(each.method for each in rare):
        rest = [each for each in rare if each.method == method]
        rows = sorted((row for each in rest for row in each.requests), key=lambda row: (-row.count, row.target))
        kept.append(Endpoint(f"{method} {OTHER}" if len(rest) > 1 else rest[0].name, method, tuple(rows)))
    return kept
