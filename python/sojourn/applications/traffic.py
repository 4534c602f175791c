"""The load of one step: flows at rates of their own, together Poisson arrivals of iterations.

One open loop of the engine makes all of them as a scenario whose weights are the rates, here or on each machine of a
fleet. So the mix can be varied at will, and each name of requests has its own figures.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue, ValidationError

from sojourn import _native, engine, interrupts
from sojourn.applications.failures import cure, in_words
from sojourn.applications.flows import Flow
from sojourn.applications.scenario import Table
from sojourn.applications.summary import Login
from sojourn.applications.users import Users
from sojourn.cluster.target import is_loopback
from sojourn.engine.progress import parse
from sojourn.engine.results import NamedFigures, Summary
from sojourn.failure import CouldNotRun
from sojourn.loading import named
from sojourn.loading.fleet import Fleet
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult
from sojourn.machine.cores import pinned_command

START_LEAD_SECONDS = 0.1
"""How far ahead the start is set, so that its time is known."""
TIMEOUT_SECONDS = 10.0
"""A response that takes longer has failed."""
DRAIN_SECONDS = 5.0
"""How long the answers of a step are waited for when it is over."""
TRY_OUT_SECONDS_MAX = 60.0
"""How long each request is tried once: in that time a target that hangs has shown it."""
TARGETS_TRIED_MAX = 2000
"""How many targets of all lists are tried once, the most frequent of each."""
ANSWERED_OTHERWISE = frozenset(("status_3xx", "status_4xx", "wrong_status"))
"""Causes of failures that come again, unlike a time-out or a server's own failure."""
GRACE_SECONDS = 30.0
"""Beyond its time-outs, an engine that does not end has broken."""
SHOWN_MAX = 3
"""Failures that are shown in words."""
THINK_FACTOR = 1.5
THINK_SECONDS_MAX = 60.0
"""The longest time that is waited for users in the middle of their iterations."""


@dataclass(frozen=True)
class EndpointStep:
    """The requests and response times of one endpoint in a step, as its clients saw them."""

    name: str
    offered_per_second: float
    responses_per_second: float
    """As they should be, whenever they were due: beyond the knee the others come later."""
    requests: int
    """Due in the step's time: answered as expected, failed, unanswered or abandoned."""
    failures: int
    """Answered otherwise, not at all, or not in time."""
    unfinished: int
    mean_seconds: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    histogram: _native.Histogram | None
    failed_by: Mapping[str, int]
    abandoned: int = 0
    """Never sent, because a request before them in their iteration had failed."""
    first_failure: str | None = None
    server_timing: Mapping[str, Summary] = field(default_factory=dict)
    """What the answers' `Server-Timing` fields say, by metric."""
    each_request: Sequence[tuple[float, float | None]] = ()
    """When its requests were due, from the begin of the measured time, negative before, and their response times, None
    for one that failed or was not answered; empty where it is not known.
    """


@dataclass(frozen=True)
class Step:
    """All endpoints in one step."""

    begin: float
    """The start of the measured time, in seconds since 1970."""
    end: float
    endpoints: Sequence[EndpointStep]
    interrupted: bool = False
    generator_cpu: float = 0.0
    generator_limited: str | None = None
    """Why the generator, not the system, was the limit."""
    users: int | None = None
    """The number of users in a closed loop; None where iterations arrived at a rate."""

    @property
    def offered_per_second(self) -> float:
        """The offered rate of all endpoints together."""
        return sum(each.offered_per_second for each in self.endpoints)

    @property
    def due_per_second(self) -> float:
        """Requests that were due, as they were drawn."""
        return sum(each.requests for each in self.endpoints) / (self.end - self.begin)

    @property
    def responses_per_second(self) -> float:
        """The throughput of all endpoints together."""
        return sum(each.responses_per_second for each in self.endpoints)

    @property
    def failed_fraction(self) -> float:
        """The share of due requests that failed, were abandoned, or were unanswered at the end."""
        due = sum(each.requests for each in self.endpoints)
        missed = sum(each.failures + each.unfinished + each.abandoned for each in self.endpoints)
        return missed / due if due else 0.0

    @property
    def failed_by(self) -> dict[str, int]:
        """Failures of all endpoints by their causes; what was still unanswered at the end is one."""
        counted: defaultdict[str, int] = defaultdict(int)
        for each in self.endpoints:
            if each.unfinished:
                counted["unanswered"] += each.unfinished
            for cause, count in each.failed_by.items():
                counted[cause] += count
        return counted

    @property
    def mean_seconds(self) -> float | None:
        """Response time over all endpoints."""
        known = [each for each in self.endpoints if each.mean_seconds is not None]
        rate = sum(each.responses_per_second for each in known)
        return sum((each.mean_seconds or 0.0) * each.responses_per_second for each in known) / rate if rate else None

    @property
    def in_system(self) -> float:
        """Requests under way on average, by Little's law."""
        return sum((each.mean_seconds or 0.0) * each.responses_per_second for each in self.endpoints)

    def quantile(self, fraction: float, names: Sequence[str] | None = None) -> float | None:
        """A quantile of the response times, in seconds, of these endpoints or of all."""
        merged = _native.Histogram()
        for each in self.endpoints:
            if each.histogram is not None and (names is None or each.name in names):
                merged.merge(each.histogram)
        return merged.quantile(fraction) if len(merged) else None


@dataclass(frozen=True)
class TriedOnce:
    """What came of asking for everything once."""

    wrong: Sequence[str]
    """What was not as it should be, in words."""
    left_out: Mapping[str, int]
    """By flow, how many of the log's requests are for targets that answered otherwise, and are no longer made."""


@dataclass
class _Listed:
    """A list of targets, each with how often the log has it."""

    path: Path
    names: dict[str, str] = field(default_factory=dict)
    """The targets that are tried, by the name of the trial."""

    def most_frequent(self, count: int) -> list[str]:
        rows = sorted(self._rows(), key=lambda row: -row[1])
        return [target for target, _ in rows[:count]]

    def leave_out(self, targets: Container[str]) -> int:
        """Takes targets out of the list; returns how often the log has them."""
        rows = self._rows()
        if not any(target in targets for target, _ in rows):
            return 0
        self.path.write_text("".join(f"{target} {count}\n" for target, count in rows if target not in targets))
        return sum(count for target, count in rows if target in targets)

    def _rows(self) -> list[tuple[str, int]]:
        rows = (line.split() for line in self.path.read_text().splitlines())
        return [(row[0], int(row[1])) for row in rows if row and not row[0].startswith("#")]


Iterations = Sequence[tuple[Flow, float]]
"""Flows with how often each is made, per second."""


@dataclass
class Traffic:
    """Flows, ready to be made by users."""

    url: str
    flows: Sequence[Flow]
    users: Users
    folder: Path
    """Here the scenario of the last step is left, to see or to run by hand."""
    core: int | None
    seed: int
    sessions: Sequence[Flow] = ()
    """The log's sessions, which replace the flows with the same requests in the log's own mix."""
    is_of_users: bool = False
    """True if a number of users makes the load, each of which waits for its answers and thinks (a closed loop)."""
    fleet: Fleet | None = None
    """The machines that make the steps together; this one alone if none."""

    def logged_in(self) -> Login | None:
        """Logs the users in, again if they were; None where they do not.

        Raises:
            CouldNotRun: the login fails.
        """
        if not self.users.log_in:
            return None
        url = self._url_of_users
        try:
            return self.users.logged_in(url)
        except CouldNotRun as failure:
            if url == self.url:
                raise
            raise CouldNotRun(
                failure.what, f"users and machines reach the target at {url}: {failure.hint or 'does it listen there?'}"
            ) from failure

    def try_out(self) -> TriedOnce:
        """Makes every request once, one after another, and of a list the most frequent targets.

        Targets that answer otherwise than the log says are no longer asked for, unless all of a list do. A list that a
        scenario names is a person's own, and stays as it is.

        Raises:
            CouldNotRun: nothing was as it should be.
            KeyboardInterrupt: the person interrupted.
        """
        requests, lists = list[Table](), list[tuple[str, _Listed]]()
        listing = sum("targets" in table for flow in self.flows for table in flow.requests)
        for flow in self.flows:
            for table in flow.requests:
                once = {**table, "optional": True, "think": "0s", "share": 1, "repeat": 1}
                path = once.pop("targets", None)
                if path is None:
                    requests.append(once)
                    continue
                listed = _Listed(Path(str(path)))
                lists.append((flow.name, listed))
                for target in listed.most_frequent(max(1, TARGETS_TRIED_MAX // listing)):
                    requests.append({**once, "url": target, "name": f"{table['name']} {target}"})
                    listed.names[f"{table['name']} {target}"] = target
        tables = {**self.users.tables(), "request": requests}
        words = [*self._engine(tables), "--clients", "1", "--sessions", "1", "--warm-up", "0s", "--ramp", "0s"]
        with interrupts.handed_on() as handed, _Loop(words) as loop:
            loop.wait_ready()
            handed.to(loop.stop)
            loop.go(time.time())
            enough = threading.Timer(TRY_OUT_SECONDS_MAX, loop.stop)
            enough.start()
            try:
                record = loop.result(TRY_OUT_SECONDS_MAX).of_requests
            finally:
                enough.cancel()
        if handed.asked:
            raise KeyboardInterrupt
        failed = {each.name: each for each in record.by_name if each.errors or each.abandoned}
        causes: defaultdict[str, int] = defaultdict(int)
        for each in failed.values():
            for cause, count in each.errors_by_cause.items():
                causes[cause] += count
        said = [f"{each.name}: {each.first_failure or in_words(each.errors_by_cause)}" for each in failed.values()]
        if record.requests == 0:
            shown = "".join(f"\n  {one}" for one in said[:SHOWN_MAX])
            raise CouldNotRun(
                f"the target answers no request as it should: {in_words(causes) or record.stopped_because}{shown}",
                cure(causes) or "does it answer what the log asks?",
            )
        answered = {each.name for each in record.by_name if each.requests}
        otherwise = {name for name, each in failed.items() if each.errors_by_cause.keys() <= ANSWERED_OTHERWISE}
        left_out = Counter[str]()
        for name, listed in lists:
            if listed.path.parent == self.folder.absolute() and answered & listed.names.keys():
                wrong = [target for each, target in listed.names.items() if each in otherwise]
                left_out[name] += listed.leave_out(wrong)
        return TriedOnce(said, {name: count for name, count in left_out.items() if count})

    def step(
        self,
        rates: Mapping[str, float],
        seconds: float,
        settle_seconds: float,
        response_seconds: Mapping[str, float] | None = None,
        *,
        in_sessions: bool = False,
        progress: engine.Progress | None = None,
    ) -> Step:
        """Makes each flow so often that it has its rate of requests, and says what came of it after the settle time.

        Args:
            rates: of requests, by flow; where users make the load, as many of them as have these rates or less.
            seconds: how long it is measured.
            settle_seconds: how long before.
            response_seconds: by name, of an idle system: what users wait for who do not wait for each other.
            in_sessions: by sessions, if there are any: then the rates must be those of the log's mix.
            progress: receives a line per second.

        Raises:
            CouldNotRun: the engine refuses.
        """
        self.seed += 1
        settle = settle_seconds + self._think_seconds()
        is_by_sessions = in_sessions and bool(self.sessions)
        iterations = self._sessions_at(rates) if is_by_sessions else self.iterations_at(rates)
        users, cycle = None, 0.0
        if self.is_of_users:
            cycle = self.cycle_seconds(iterations, response_seconds or {})
            asked = sum(each for _, each in iterations)
            users = max(1, int(asked * cycle))
            iterations = [(flow, each / asked * users / cycle) for flow, each in iterations]
        arriving = ["--rate", f"{sum(each for _, each in iterations):.9g}"]
        if users is not None:
            # They begin within a cycle, so that they are in all parts of it.
            arriving = ["--clients", str(users), "--ramp", f"{min(settle, cycle):.6f}s"]
        tables = {**self.users.tables(), "flow": [_table(flow, each) for flow, each in iterations]}
        if is_by_sessions:
            tables["users"] = {**_mapping(tables["users"]), "under_way": True}
        lengths = ["--duration", f"{seconds:g}s", "--warm-up", f"{settle:g}s"]
        if self.fleet is not None:
            result = self.fleet.run([*self._load(self._url_for(self.fleet), tables), *arriving, *lengths], progress)
            if result.lost_machines:
                raise CouldNotRun(
                    f"a machine that generates the load was lost: {result.record.stopped_because}",
                    "start its worker again; the steps before are kept",
                )
            begin = result.started_at + settle
            interrupted = result.record.interrupted
            return self._step(iterations, result, (begin, begin + seconds), users, interrupted=interrupted)
        words = [*self._engine(tables), *arriving, *lengths]
        if progress is not None:
            words.append("--progress")
        # It shares the core with what watches the tiers: it sleeps, and does not poll.
        with interrupts.handed_on() as handed, _Loop(pinned_command(self.core, words), progress) as loop:
            loop.wait_ready()
            start = time.time() + START_LEAD_SECONDS
            handed.to(loop.stop)
            loop.go(start)
            result = loop.result(seconds + settle)
        begin = start + settle
        return self._step(iterations, result, (begin, begin + seconds), users, interrupted=handed.asked)

    def iterations_at(self, rates: Mapping[str, float]) -> Iterations:
        """How often each flow is made, where its requests have this rate."""
        return [
            (flow, rates[flow.name] / flow.requests_per_iteration)
            for flow in self.flows
            if rates.get(flow.name, 0.0) > 0
        ]

    def _sessions_at(self, rates: Mapping[str, float]) -> Iterations:
        """How often each session is made, all alike, and beside them the flows whose requests none of them has."""
        within = {name for session in self.sessions for name in session.visits}
        whole = sum(rate for name, rate in rates.items() if name in within)
        each = whole / sum(session.requests_per_iteration for session in self.sessions)
        beside = {name: rate for name, rate in rates.items() if name not in within}
        return [*((session, each) for session in self.sessions), *self.iterations_at(beside)]

    def cycle_seconds(self, iterations: Iterations, response_seconds: Mapping[str, float]) -> float:
        """From one iteration of a user to the next, on average over flows made so often, where responses take so long.

        By the interactive response time law, so many seconds' iterations are as many as there are users.
        """
        whole = sum(each for _, each in iterations)
        return sum(each / whole * flow.cycle_seconds(self._think, response_seconds) for flow, each in iterations)

    @property
    def _think(self) -> str | None:
        default = self.users.scenario.defaults.get("think")
        return None if default is None else str(default)

    def _think_seconds(self) -> float:
        """How long it takes until users are in all parts of their iterations."""
        if self.is_of_users:
            longest = max(flow.cycle_seconds(self._think, {}) for flow in self.flows)
        else:
            longest = max(flow.think_seconds(self._think) for flow in self.flows)
        return min(THINK_SECONDS_MAX, THINK_FACTOR * longest)

    def _url_for(self, fleet: Fleet) -> str:
        """The target as the machines reach it."""
        host = urlsplit(self.url).hostname or ""
        return fleet.url(self.url) if is_loopback(host) else self.url

    @property
    def _url_of_users(self) -> str:
        """The target as its users know it from their cookies, which are those of a host."""
        return self.url if self.fleet is None or not self.users.log_in else self._url_for(self.fleet)

    def _engine(self, tables: Mapping[str, object]) -> list[str]:
        """The engine of this machine with a scenario, but for who makes it."""
        words = [str(engine.path()), "load", *self._load(self._url_of_users, tables)]
        return [*words, "--embed", "--each-request", "--format", "json", "--start-on-stdin"]

    def _load(self, url: str, tables: Mapping[str, object]) -> list[str]:
        """The options of a load with a scenario, but for who makes it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        scenario = self.folder / "scenario.json"
        scenario.write_text(json.dumps(tables, indent=1))
        words = [url, "--scenario", str(scenario), *self.users.options, "--timeout", f"{TIMEOUT_SECONDS:g}s"]
        words += ["--drain", f"{DRAIN_SECONDS:g}s", "--abandoned-limit", "100%", *self.users.connecting]
        # On the application's cores, its answers would also wait for the generator.
        words += ["--wait", "sleep", "--real-time"]
        return [*words, "--seed", str(self.seed)]

    def _step(
        self,
        iterations: Iterations,
        result: LoadResult,
        span: tuple[float, float],
        users: int | None,
        *,
        interrupted: bool,
    ) -> Step:
        record = result.of_requests
        offered: defaultdict[str, float] = defaultdict(float)
        for flow, each in iterations:
            for name, visits in flow.visits.items():
                offered[name] += visits * each
        # Answers due before the step and complete in it stand for those due in it and complete behind it.
        completed = (record.requests_per_second or 0.0) / record.requests if record.requests else 0.0
        requests = _each_request(record)
        figures = [
            _figures(each, offered[each.name], completed, result, requests.get(each.name, ()))
            for each in record.by_name
            if offered[each.name] > 0
        ]
        return Step(
            *span,
            figures,
            interrupted=interrupted,
            generator_cpu=record.generator.cpu_fraction or 0.0,
            generator_limited=result.limited_because,
            users=users,
        )


def _table(flow: Flow, weight: float) -> JsonValue:
    """A flow as the engine's scenario has it."""
    return {"weight": weight, "request": [dict(request) for request in flow.requests]}


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _each_request(record: RequestsRecord) -> dict[str, list[tuple[float, float | None]]]:
    """When each name's requests were due, in seconds from the begin of the measured time, and their response times."""
    found: defaultdict[str, list[tuple[float, float | None]]] = defaultdict(list)
    if record.each_request is not None and record.steps:
        begin, rows = record.steps[0].start_seconds, record.each_request
        for place, due, response in zip(rows.name, rows.due_seconds, rows.response_seconds, strict=True):
            if place is not None:
                found[record.by_name[place].name].append((due - begin, response))
    return {name: sorted(each, key=lambda row: row[0]) for name, each in found.items()}


def _figures(
    found: NamedFigures,
    offered: float,
    completed: float,
    result: LoadResult,
    each_request: Sequence[tuple[float, float | None]],
) -> EndpointStep:
    times = found.response_time_seconds
    return EndpointStep(
        name=found.name,
        offered_per_second=offered,
        responses_per_second=found.requests * completed,
        requests=found.requests + found.errors + found.unfinished + found.abandoned,
        failures=found.errors,
        unfinished=found.unfinished,
        abandoned=found.abandoned,
        mean_seconds=times.mean,
        p50_seconds=times.p50,
        p95_seconds=times.p95,
        p99_seconds=times.p99,
        histogram=result.latencies.get(named.tag(named.TAGS[0], found.name)),
        failed_by=found.errors_by_cause,
        first_failure=found.first_failure,
        server_timing=found.server_timing_seconds,
        each_request=each_request,
    )


class _Loop:
    """An engine that makes a load."""

    def __init__(self, command: Sequence[str], progress: engine.Progress | None = None) -> None:
        told = None if progress is None else lambda line: progress(parse(line))
        with ExitStack() as stack:
            self._printed = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._engine = engine.Prepared(command, self._printed, told)
            stack.callback(self._engine.end)
            self._stack = stack.pop_all()

    def __enter__(self) -> _Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_ready(self) -> None:
        """Until it has prepared itself.

        Raises:
            CouldNotRun: it refuses.
        """
        try:
            self._engine.wait_ready()
        except CouldNotRun as failure:
            said = "\n".join(line for line in failure.what.splitlines() if not line.startswith("warning: "))
            what = said.removeprefix("error: ")
            raise CouldNotRun(f"the load cannot be made: {what}", failure.hint) from failure

    def go(self, start: float) -> None:
        """Begins at that time."""
        self._engine.say(f"go {start:.6f}")

    def stop(self) -> None:
        """Ends early; what was measured comes all the same."""
        self._engine.say("stop")

    def result(self, seconds: float) -> LoadResult:
        """Waits for the result, at most this long plus the timeouts of requests."""
        try:
            self._engine.wait(seconds + TIMEOUT_SECONDS + GRACE_SECONDS)
            self._printed.seek(0)
            return LoadResult.of(RequestsRecord.model_validate_json(self._printed.read()))
        except (ValidationError, TimeoutError) as error:
            raise CouldNotRun("the load ended without a result") from error
