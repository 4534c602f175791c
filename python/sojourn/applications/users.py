"""The users of a load: who they are, how they log in, and that they stay logged in from step to step.

They log in before the first step, so that no step has the load of logins; a step that has more requests under way
than users opens further tabs of theirs. What they have, cookies and tokens, lies in a file that only its owner may
read, and that ends with the assessment.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from pydantic import JsonValue, ValidationError

from sojourn import engine
from sojourn.applications.failures import cure
from sojourn.applications.scenario import Scenario, Table
from sojourn.applications.summary import EndpointFigures, Login
from sojourn.engine.results import NamedFigures
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord

AT_ONCE = 8
"""Users who log in at the same time."""
LOGIN_SECONDS_MAX = 300.0
TIMEOUT_SECONDS = 30.0
FAILED_MAX = 0.1
"""The largest share of failed logins; beyond it, too few users are left."""


@dataclass
class Users:
    """The users that make the requests; a context manager."""

    scenario: Scenario
    """Its users, values, defaults and login; its flows are another's matter."""
    count: int
    """How many log in."""
    connecting: Sequence[str] = ()
    """The engine's options of connections."""
    _folder: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False)

    def __enter__(self) -> Users:
        self._folder = tempfile.TemporaryDirectory(prefix="sojourn-users-")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def log_in(self) -> bool:
        """True if they log in once, before the load; a user of each iteration's own does it in the load."""
        return bool(self.scenario.login) and not self.scenario.is_user_new

    @property
    def are_logged_in(self) -> bool:
        """True if answers to strangers would be wrong."""
        named = [self.scenario.defaults, *self.scenario.login]
        return bool(self.scenario.login) or any(key in table for key in ("basic", "bearer") for table in named)

    @property
    def options(self) -> list[str]:
        """The engine's, for users who go on."""
        return ["--users-file", str(self._file)] if self.log_in else []

    def tables(self, *, under_way: bool = False) -> dict[str, JsonValue]:
        """All of a scenario but its flows; `under_way`: the load begins with iterations that began before it."""
        scenario = self.scenario
        users = dict(scenario.users)
        if self.log_in:
            # They are all there are, however many come before any comes again.
            users.pop("count", None)
            users["tabs"] = True
        if under_way:
            users["under_way"] = True
        # Of a user of each iteration's own, the login is a part of the flows, to have its figures.
        login = [] if scenario.is_user_new else list[JsonValue](scenario.login)
        return {"users": users, "values": scenario.values, "defaults": scenario.defaults, "login": login}

    def logged_in(self, url: str) -> Login:
        """Logs all of them in, first one, who shows whether it can be done.

        Raises:
            CouldNotRun: they cannot, and why.
        """
        self._file.unlink(missing_ok=True)
        self._once(url, 1)
        found = self._once(url, self.count)
        logins = [each for each in found.by_name if each.name in {str(table["name"]) for table in self.scenario.login}]
        return Login(
            users=self.count - sum(each.errors for each in logins),
            requests=[_figures(each) for each in logins],
        )

    def _once(self, url: str, count: int) -> RequestsRecord:
        file = self._file.with_name("login.json")
        never: Table = {"name": "none", "url": "/", "share": 0}
        users = {**self.scenario.users, "count": count}
        file.write_text(json.dumps({**self.tables(), "users": users, "request": [never]}))
        words = [str(engine.path()), "load", url, "--scenario", str(file), "--users-file", str(self._file)]
        words += ["--clients", str(min(AT_ONCE, count)), "--sessions", str(count), "--ramp", "0s", "--warm-up", "0s"]
        words += [
            "--duration",
            f"{LOGIN_SECONDS_MAX:g}s",
            "--timeout",
            f"{TIMEOUT_SECONDS:g}s",
            "--abandoned-limit",
            "100%",
        ]
        words += [*self.connecting, "--format", "json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        try:
            record = RequestsRecord.model_validate_json(done.stdout)
        except ValidationError:
            what, _, hint = done.stderr.strip().removeprefix("error: ").partition("\nhint: ")
            raise CouldNotRun(f"the login cannot be made: {what}", hint or None) from None
        failed = sum(each.errors + each.unfinished for each in record.by_name)
        if failed > FAILED_MAX * count or not record.complete:
            raise _failure(record, count)
        return record

    @property
    def _file(self) -> Path:
        assert self._folder is not None, "it is a context manager"
        return Path(self._folder.name) / "users.json"


def _failure(record: RequestsRecord, count: int) -> CouldNotRun:
    worst = max(record.by_name, key=lambda each: each.errors)
    causes = ", ".join(sorted(worst.errors_by_cause)) or record.stopped_because or "no answer in time"
    what = f"the login fails for {worst.errors or count} of {count} users: {worst.name!r}: {causes}"
    if worst.first_failure is not None:
        what += f"\n  {worst.first_failure}"
    return CouldNotRun(what, _hint(worst.errors_by_cause))


def _hint(causes: Mapping[str, int]) -> str:
    if "value_missing" in causes:
        return "the page has changed: look at its form, and take what it has now (docs/scenarios.md, take)"
    if causes.keys() & {"check_failed", "status_4xx", "status_3xx"}:
        return "are the names and passwords right, and is the form still as it was? The answer above says what came"
    return cure(causes) or "does the target answer at all?"


def _figures(named: NamedFigures) -> EndpointFigures:
    times = named.response_time_seconds
    return EndpointFigures(
        name=named.name,
        offered_requests_per_second=0.0,
        requests_per_second=named.requests_per_second or 0.0,
        failures=named.errors,
        unfinished=named.unfinished,
        response_time_mean_seconds=times.mean,
        response_time_p50_seconds=times.p50,
        response_time_p95_seconds=times.p95,
        response_time_p99_seconds=times.p99,
        failed_by=named.errors_by_cause,
        first_failure=named.first_failure,
    )
