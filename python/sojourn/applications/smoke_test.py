"""The smoke test before the load: every request is made once, and what does not work is said or left out."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sojourn import interrupts
from sojourn.applications import sessions
from sojourn.applications.failures import SHOWN_MAX, cure, in_words
from sojourn.applications.flows import Flow
from sojourn.applications.load_generator import LoadGenerator
from sojourn.applications.scenario import Table
from sojourn.applications.traffic import Traffic
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord

SECONDS_MAX = 60.0
"""In that time a target that hangs has shown it."""
TARGETS_MAX = 2000
"""How many targets of all lists are tried, the most frequent of each."""
ANSWERED_OTHERWISE = frozenset(("status_3xx", "status_4xx", "wrong_status"))
"""Causes of failures that come again, unlike a time-out or a server's own failure."""


@dataclass(frozen=True)
class TriedOnce:
    """What came of asking for everything once."""

    wrong: Sequence[str]
    """What was not as it should be, in words."""
    left_out: Mapping[str, int]
    """By flow, how many of the log's requests are for targets that answered otherwise, and are no longer made."""


def smoke_test(traffic: Traffic) -> TriedOnce:
    """Makes every request once, one after another, and of a list the most frequent targets.

    Targets that answer otherwise than the log says are no longer asked for, unless all of a list do. A list that a
    scenario names is a person's own, and stays as it is.

    Raises:
        CouldNotRun: nothing was as it should be.
        KeyboardInterrupt: the person interrupted.
    """
    requests, lists = _each_once(traffic.flows)
    record = _answers(traffic, requests)
    failed = {each.name: each for each in record.by_name if each.errors or each.abandoned}
    said = [f"{each.name}: {each.first_failure or in_words(each.errors_by_cause)}" for each in failed.values()]
    if record.requests == 0:
        causes = Counter[str]()
        for each in failed.values():
            causes.update(each.errors_by_cause)
        shown = "".join(f"\n  {one}" for one in said[:SHOWN_MAX])
        raise CouldNotRun(
            f"the target answers no request as it should: {in_words(causes) or record.stopped_because}{shown}",
            cure(causes) or "does it answer what the log asks?",
        )
    answered = {each.name for each in record.by_name if each.requests}
    otherwise = {name for name, each in failed.items() if each.errors_by_cause.keys() <= ANSWERED_OTHERWISE}
    left_out = Counter[str]()
    for listed in lists:
        if listed.path.parent == traffic.folder.absolute() and answered & listed.tried.keys():
            wrong = {listed.tried[name] for name in listed.tried.keys() & otherwise}
            left_out[listed.flow] += listed.leave_out(wrong)
            traffic.sessions = sessions.without(traffic.sessions, listed.flow, wrong)
    return TriedOnce(said, {name: count for name, count in left_out.items() if count})


@dataclass
class _TargetList:
    """A flow's list of targets, each with how often the log has it."""

    flow: str
    path: Path
    tried: dict[str, str] = field(default_factory=dict)
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


def _each_once(flows: Sequence[Flow]) -> tuple[list[Table], list[_TargetList]]:
    """One request of each kind and of each target that is tried, and the lists that have the targets."""
    requests, lists = list[Table](), list[_TargetList]()
    listing = sum("targets" in table for flow in flows for table in flow.requests)
    for flow in flows:
        for table in flow.requests:
            once = {**table, "optional": True, "think": "0s", "share": 1, "repeat": 1}
            path = once.pop("targets", None)
            if path is None:
                requests.append(once)
                continue
            listed = _TargetList(flow.name, Path(str(path)))
            lists.append(listed)
            for target in listed.most_frequent(max(1, TARGETS_MAX // listing)):
                name = f"{table['name']} {target}"
                requests.append({**once, "url": target, "name": name})
                listed.tried[name] = target
    return requests, lists


def _answers(traffic: Traffic, requests: Sequence[Table]) -> RequestsRecord:
    """What came of the requests, made by one user one after another.

    Raises:
        CouldNotRun: they cannot be made.
        KeyboardInterrupt: the person interrupted.
    """
    options = traffic.options(traffic.url_of_users, {**traffic.users.tables(), "request": requests})
    options += ["--clients", "1", "--sessions", "1", "--warm-up", "0s", "--ramp", "0s"]
    with interrupts.handed_on() as handed, LoadGenerator(options) as generator:
        generator.wait_ready()
        handed.to(generator.stop)
        generator.go(time.time())
        enough = threading.Timer(SECONDS_MAX, generator.stop)
        enough.start()
        try:
            record = generator.result(SECONDS_MAX).of_requests
        finally:
            enough.cancel()
    if handed.asked:
        raise KeyboardInterrupt
    return record
