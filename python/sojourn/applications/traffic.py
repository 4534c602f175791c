"""The load of one step: flows at rates of their own, together Poisson arrivals of iterations.

One open loop of the engine makes all of them as a scenario whose weights are the rates, here or on each machine of a
fleet. So the mix can be varied at will, and each name of requests has its own figures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sojourn import engine, interrupts
from sojourn.applications import load_generator
from sojourn.applications.flows import Flow, Iterations
from sojourn.applications.load_generator import LoadGenerator
from sojourn.applications.steps import Step
from sojourn.applications.summary import Login
from sojourn.applications.users import Users
from sojourn.cluster.target import is_loopback
from sojourn.failure import CouldNotRun
from sojourn.loading.fleet import Fleet
from sojourn.loading.result import LoadResult

START_LEAD_SECONDS = 0.1
"""How far ahead the start is set, so that its time is known."""
THINK_FACTOR = 1.5
THINK_SECONDS_MAX = 60.0
"""The longest time that is waited for users in the middle of their iterations."""


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
        url = self.url_of_users
        try:
            return self.users.logged_in(url)
        except CouldNotRun as failure:
            if url == self.url:
                raise
            raise CouldNotRun(
                failure.what, f"users and machines reach the target at {url}: {failure.hint or 'does it listen there?'}"
            ) from failure

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
        asked, users = sum(each for _, each in iterations), None
        arriving = ["--rate", f"{asked:.9g}"]
        if self.is_of_users:
            cycle = self.cycle_seconds(iterations, response_seconds or {})
            users = max(1, int(asked * cycle))
            iterations = [(flow, each / asked * users / cycle) for flow, each in iterations]
            # They begin within a cycle, so that they are in all parts of it.
            arriving = ["--clients", str(users), "--ramp", f"{min(settle, cycle):.6f}s"]
        flows = [flow.table(each) for flow, each in iterations]
        options = self.options(self._url_of_machines, {**self.users.tables(under_way=is_by_sessions), "flow": flows})
        options += [*arriving, "--duration", f"{seconds:g}s", "--warm-up", f"{settle:g}s"]
        start, result, interrupted = self._made(options, settle + seconds, progress)
        begin = start + settle
        return Step.of(result, iterations, begin, begin + seconds, users, interrupted=interrupted)

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
        think, whole = self.users.scenario.think, sum(each for _, each in iterations)
        return sum(each / whole * flow.cycle_seconds(think, response_seconds) for flow, each in iterations)

    def _think_seconds(self) -> float:
        """How long it takes until users are in all parts of their iterations."""
        think = self.users.scenario.think
        if self.is_of_users:
            longest = max(flow.cycle_seconds(think, {}) for flow in self.flows)
        else:
            longest = max(flow.think_seconds(think) for flow in self.flows)
        return min(THINK_SECONDS_MAX, THINK_FACTOR * longest)

    @property
    def _url_of_machines(self) -> str:
        """The target as whoever makes the load reaches it."""
        is_here = is_loopback(urlsplit(self.url).hostname or "")
        return self.fleet.url(self.url) if self.fleet is not None and is_here else self.url

    @property
    def url_of_users(self) -> str:
        """The target as its users know it from their cookies, which are those of a host."""
        return self._url_of_machines if self.users.log_in else self.url

    def options(self, url: str, tables: Mapping[str, object]) -> list[str]:
        """The engine's, for a load with this scenario, which is left in the folder; but for how often and how long."""
        self.folder.mkdir(parents=True, exist_ok=True)
        scenario = self.folder / "scenario.json"
        scenario.write_text(json.dumps(tables, indent=1))
        words = [url, "--scenario", str(scenario), *self.users.options, *self.users.connecting]
        return [*words, *load_generator.OPTIONS, "--seed", str(self.seed)]

    def _made(
        self, options: Sequence[str], seconds: float, progress: engine.Progress | None
    ) -> tuple[float, LoadResult, bool]:
        """The start of a load, in seconds since 1970, its result, and whether a person interrupted it."""
        if self.fleet is not None:
            result = self.fleet.run(options, progress)
            if result.lost_machines:
                raise CouldNotRun(
                    f"a machine that generates the load was lost: {result.record.stopped_because}",
                    "start its worker again; the steps before are kept",
                )
            return result.started_at, result, result.record.interrupted
        # It shares the core with what watches the tiers: it sleeps, and does not poll.
        with interrupts.handed_on() as handed, LoadGenerator(options, self.core, progress) as generator:
            generator.wait_ready()
            start = time.time() + START_LEAD_SECONDS
            handed.to(generator.stop)
            generator.go(start)
            result = generator.result(seconds)
        return start, result, handed.asked
