"""Makes each planned change, measures the knee again, and compares it with the prediction.

All predictions are written before the first change. The traffic is that of the assessment; the tiers' processes are
looked up again, because a command may have restarted them.
"""

from __future__ import annotations

import http.client
import ssl
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sojourn.applications import demands, fitting
from sojourn.applications.changes import Starting
from sojourn.applications.climb import CLIMB_FRACTIONS, Climb, Interrupted, Stopped
from sojourn.applications.knee import locate
from sojourn.applications.prices import Prices
from sojourn.applications.schedule import Schedule
from sojourn.applications.summary import TierDescription, VerifiedChange
from sojourn.applications.verification.planned import Planned
from sojourn.applications.verification.processor_quota import ProcessorQuota
from sojourn.failure import CouldNotRun
from sojourn.text import format
from sojourn.tiers import processes
from sojourn.tiers.declaration import Tier
from sojourn.tiers.watch import Sources, Watch

COMMAND_SECONDS_MAX = 300.0
ANSWER_SECONDS_MAX = 60.0
FIRST_FRACTION = 0.4
"""The rise starts at this share of the knee or of the predicted capacity, whichever is smaller."""
SETTLED_SECONDS = 1.0
OTHERS_DIFFERENT = 0.15
"""A difference of other programs' usage, in cores, from which on it is reported."""


@dataclass(frozen=True)
class Carrying:
    """The context for making changes."""

    climb: Climb
    """The assessment's traffic and limits."""
    knee: float
    """The knee of the unchanged system in requests/s."""
    starting: Starting | None
    described: Sequence[TierDescription]
    tiers: Sequence[Tier]
    sources: Sources
    target: str
    restore: str | None
    """The command that restores the system."""


def predicted(starting: Starting | None, planned: Sequence[Planned], prices: Prices | None) -> list[VerifiedChange]:
    """The predicted effect of each change, before any is made."""
    found = []
    for each in planned:
        made = VerifiedChange(setting=str(each.modification), what=str(each.modification), command=each.command)
        if starting is None:
            made.not_predicted_because = "the model does not explain the knee that was measured"
        else:
            try:
                change = starting.change(each.modification, prices)
            except CouldNotRun as failure:
                made.not_predicted_because = failure.said
            else:
                made.what, made.predicted, made.limited_by = change.what, change.capacity, change.limited_by
        found.append(made)
    return found


def measure(carrying: Carrying, planned: Planned, change: VerifiedChange) -> None:
    """Makes one change, measures, and restores the system; problems are recorded in the change.

    Raises:
        Interrupted: by the person.
    """
    try:
        with _changed(carrying, planned, change):
            _wait_for(carrying.target)
            time.sleep(SETTLED_SECONDS)
            _climb(carrying, change)
            _beside_others(carrying, planned, change)
    except CouldNotRun as failure:
        change.not_measured_because = failure.said
    except Interrupted as interrupted:
        change.not_measured_because = str(interrupted)
        raise
    except Stopped as stopped:
        change.not_measured_because = str(stopped)


def in_words(change: VerifiedChange) -> str:
    """The prediction beside the measurement."""
    said, because = _compared(change), change.not_restored_because
    return said if because is None else f"{said}; {not_restored(because)}"


def not_restored(because: str) -> str:
    """That the system is not as it was."""
    return f"the system is not as it was before: {because}"


def _compared(change: VerifiedChange) -> str:
    told = f"predicted {format.rate(change.predicted.estimate)}" if change.predicted is not None else "not predicted"
    if change.not_predicted_because is not None:
        told += f" ({change.not_predicted_because})"
    if change.measured is None:
        return f"{told}, not measured: {change.not_measured_because or 'not begun'}"
    bound = "at least " if change.is_lower_bound else ""
    error = "" if change.error is None else f" ({change.error:+.0%})"
    said = f"{told}, measured {bound}{format.rate(change.measured.estimate)}{error}"
    if change.predicted_beside_others is None or change.others_cores is None:
        return said
    rest = f"; other programs took {change.others_cores:.2f} cores meanwhile, with which the model says "
    error = "" if change.error_beside_others is None else f" ({change.error_beside_others:+.0%})"
    return f"{said}{rest}{format.rate(change.predicted_beside_others.estimate)}{error}"


@contextmanager
def _changed(carrying: Carrying, planned: Planned, change: VerifiedChange) -> Iterator[None]:
    if planned.command is None:
        tier = next(each for each in carrying.tiers if each.name == planned.modification.tier)
        pids = processes.members(processes.roots(tier))
        with ProcessorQuota(tier.name, pids, planned.modification.after):
            yield
        return
    carrying.climb.told(planned.command, None, None)
    try:
        _run(planned.command)
        yield
    finally:
        # A command that failed may have changed a part, and an interruption is not to be lost to what fails here.
        try:
            if carrying.restore is not None:
                _run(carrying.restore)
                _wait_for(carrying.target)
        except CouldNotRun as failure:
            change.not_restored_because = failure.said


def _climb(carrying: Carrying, change: VerifiedChange) -> None:
    about = min(carrying.knee, change.predicted.estimate) if change.predicted is not None else carrying.knee
    with Watch(carrying.tiers, carrying.sources) as watch:
        effort = replace(carrying.climb.effort, climbs=1)
        climb = replace(
            carrying.climb,
            watch=watch,
            steps=[],
            quickest={},
            latest=None,
            effort=effort,
            schedule=Schedule.of_change(effort, len(CLIMB_FRACTIONS)),
        )
        try:
            explored, why = climb.explore(FIRST_FRACTION * about)
            climb.climb(explored)
        finally:
            change.steps = [figures for _, figures in climb.steps]
    found = locate(climb.steps, explored, why)
    change.measured, change.is_lower_bound = found.requests_per_second, found.is_lower_bound
    if change.predicted is not None and not found.is_lower_bound:
        change.error = change.predicted.estimate / found.requests_per_second.estimate - 1


def _beside_others(carrying: Carrying, planned: Planned, change: VerifiedChange) -> None:
    """Adds the model's prediction with the cores that other programs used during the measurement."""
    taken = [each for step in change.steps if (each := fitting.others(step, carrying.described)) is not None]
    if carrying.starting is None or change.predicted is None or change.measured is None or not taken:
        return
    idle = demands.idle(carrying.described)
    now, before = statistics.median(taken), carrying.starting.network.background.fixed - idle
    if abs(now - before) < OTHERS_DIFFERENT:
        return
    change.others_cores = now
    change.predicted_beside_others = carrying.starting.beside(planned.modification, now + idle)
    if not change.is_lower_bound:
        change.error_beside_others = change.predicted_beside_others.estimate / change.measured.estimate - 1


def _run(command: str) -> None:
    try:
        # Processes it starts remain: only the command's own end matters, even if they keep its output open.
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CouldNotRun(f"{command!r} did not end in {COMMAND_SECONDS_MAX:.0f} s") from None
    if done.returncode != 0:
        raise CouldNotRun(f"{command!r} failed with code {done.returncode}", "try it in a shell")


def _wait_for(target: str) -> None:
    # Like the load, without the proxies of the environment; whether the certificate is good, the load finds out.
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified)
    )
    until = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            with opener.open(target, timeout=5):
                return
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return
            said = str(error)
        except (OSError, http.client.HTTPException) as error:
            said = str(error)
        if time.monotonic() > until:
            raise CouldNotRun(f"after the change {target} does not answer: {said}", "does the command start all of it?")
        time.sleep(0.2)
