"""Loads an application step by step: up to the knee, around it, and each endpoint alone below it.

A rise stops for safety on too many failures, responses that fall behind the offered load, disproportionate response
times, a tier that has ended, or the maximum permitted rate. After a step beyond the knee the system gets time to
finish its queued requests.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sojourn import engine
from sojourn.applications.diagnosis import unhindered_seconds
from sojourn.applications.failures import SHOWN_MAX, cure, in_words
from sojourn.applications.request import Effort
from sojourn.applications.schedule import Schedule
from sojourn.applications.steps import EndpointStep, Step
from sojourn.applications.summary import (
    CLIMB,
    RECOVERY,
    CpuWindows,
    EndpointFigures,
    IdleUse,
    StepFigures,
    TierDescription,
)
from sojourn.applications.traffic import Traffic
from sojourn.calibration.utilisation_law import points_min
from sojourn.engine.progress import ProgressLine
from sojourn.failure import CouldNotRun
from sojourn.loading.confidence import student_t
from sojourn.results.records import Interval
from sojourn.text import format
from sojourn.tiers.watch import SystemUse, TierUse, Watch

IDLE_LENGTH = 2.0
"""How long the tiers are watched without a load, in multiples of the effort's step."""
IDLE_PARTS = 6
"""The parts of that time whose spread gives the interval."""
FIRST_RATE = 2.0
"""Requests/s of the first step."""
GROWTH = 1.8
CLIMB_FRACTIONS = (0.35, 0.55, 0.7, 0.8, 0.88, 0.96, 1.06)
"""Loads of the climb's steps, as fractions of the first estimate of the knee."""
BEYOND_GROWTH, BEYOND_MAX = 1.15, 8
"""If all of them pass, the estimate was too low, as beside other work that has ended: so much more a step, so often."""
OVERLOAD_FRACTION = 1.35
OVERLOAD_LENGTH = 2.0
"""The overload step is longer by this factor, because it identifies the bottleneck."""
MIX_FRACTIONS = (0.55, 0.4, 0.25)
"""Loads of the steps with one endpoint alone, as fractions of the work at the knee, round after round. The highest is
the first, because more requests tell more of the demand.
"""
FURTHER_FRACTIONS = (0.8, 0.6, 0.7, 0.5, 0.75, 0.65)
"""Loads of further steps, as fractions of the knee: a climb that begins too high has few below it."""
FURTHER_MAX = 40
"""The most further steps: those after the first ones have one endpoint alone, of which there are at most nine."""
STEP_RESPONSES, SETTLE_RESPONSES = 200, 60
"""The least length of a step and of its settle time, in multiples of the mean response time of the step before in the
same climb, or of the fastest of the same mix: the longer the queue, the longer it takes until it is another one.
"""
LENGTH_MAX = 2.5
"""The longest step, in multiples of the effort's step."""
SHORTFALL_MAX = 0.07
UNDER_WAY_DEVIATIONS = 3.0
"""By so many standard deviations the number of requests under way at the end of a step may exceed that at its begin."""
FAILURES_CHANCE = 0.01
"""Failures are too many if so many came by chance less often than this."""
SLOW_FACTOR = 15.0
"""A mean response time above this multiple of the least of the same mix counts as disproportionate: the queue grows
during the step.
"""
SLOW_SECONDS_MIN = 0.3
COOL_SECONDS_MAX = 20.0
COOL_SECONDS = 1.0
RECOVERY_FRACTION = 0.3
"""While the system recovers, it is loaded with this fraction of a rate that it has sustained."""
RECOVERY_TRIES = 3
SHOWN_SECONDS = 1.0
"""The time over which a line of progress has the usage of the tiers."""
WINDOW_SECONDS = 0.1
"""The windows of a step by which its CPU time is kept: about as long as what a hypervisor takes at a time."""
DIGITS = 5
"""Of the times of each request, in seconds."""


class Stopped(Exception):
    """The load stopped early; the message gives the reason."""


class Interrupted(Stopped):
    """A person ended the load."""


@dataclass
class Climb:
    """The steps of one assessment."""

    traffic: Traffic
    watch: Watch
    shares: Mapping[str, float]
    """Each flow's share of the requests."""
    effort: Effort
    errors_max: float
    rate_max: float | None
    told: Callable[[str, float | None, float | None], None]
    """Called with what comes next and what was found so far, the share of the stage that is done, and the seconds that
    all the rest will take.
    """
    schedule: Schedule
    progress: engine.Progress | None = None
    """Receives a line of progress per second, with the usage of each tier."""
    steps: list[tuple[Step, StepFigures]] = field(default_factory=list)
    quickest: dict[frozenset[str], float] = field(default_factory=dict)
    """The smallest mean response time of a step so far, by the flows of its mix."""
    latest: float | None = None
    """The mean response time of the last step that passed in this climb."""

    def idle(self) -> dict[str, IdleUse]:
        """Watches the tiers without a load: what they use then is no request's."""
        self._require_tiers()
        self.told("no load", None, self.schedule.left_seconds())
        self._cool()
        begin, seconds = time.time(), IDLE_LENGTH * self.effort.step_seconds
        time.sleep(seconds)
        used = self.watch.cpu_cores(begin, begin + seconds, IDLE_PARTS)
        return {name: idle_use(parts, seconds) for name, parts in used.items() if parts}

    def explore(self, first: float | None = None) -> tuple[float, str]:
        """Raises the load until a step fails; returns a first estimate of the knee (requests/s) and the reason."""
        found = self._explore(first or self._lowest())
        self.schedule.ended("explore")
        return found

    def _explore(self, rate: float) -> tuple[float, str]:
        passed = 0.0
        while True:
            limited = self.rate_max is not None and rate >= self.rate_max
            rate = min(rate, self.rate_max) if self.rate_max is not None else rate
            step, figures = self._step("explore", self._log_mix(rate))
            if figures.failed_because is not None:
                # A single failure may be a disturbance, or the end of sessions.
                self._renew_sessions()
                step, figures = self._step("explore", self._log_mix(rate))
            if figures.failed_because is not None:
                if passed == 0.0:
                    raise _refused(step, rate, figures.failed_because)
                self._require_recovery(passed)
                return max(passed, min(step.responses_per_second, rate)), figures.failed_because
            passed = rate
            if limited:
                return passed, "--max-rate was reached"
            rate *= GROWTH

    def climb(self, knee: float) -> None:
        """Measures the log's mix around the knee."""
        beyond = [CLIMB_FRACTIONS[-1] * BEYOND_GROWTH**step for step in range(1, BEYOND_MAX + 1)]
        for _ in range(self.effort.climbs):
            failures, self.latest = 0, None
            for fraction in (*CLIMB_FRACTIONS, *beyond):
                rate = self._allowed(knee * fraction)
                if fraction > CLIMB_FRACTIONS[-1] and (failures or rate < knee * fraction):
                    break
                _, figures = self._step(CLIMB, self._log_mix(rate))
                failures += figures.failed_because is not None
                if figures.failed_because is not None and fraction == CLIMB_FRACTIONS[0]:
                    self._require_recovery(knee)
                if failures == 2:
                    break
        self.schedule.ended("climb")

    def users_at(self, rate: float) -> float:
        """How many users make the log's mix at this rate if they wait for nobody (interactive response time law)."""
        iterations = self.traffic.iterations_at(self._log_mix(rate))
        return sum(each for _, each in iterations) * self.traffic.cycle_seconds(iterations, self._unhindered())

    def mixes(self, knee: float) -> None:
        """Measures each endpoint alone, so that the endpoints' demands can be separated.

        That is the D-optimal design beside the log's mix: with half of the requests of others, one of them that takes
        a hundred times as long hides the emphasised one, and even three such steps tell less than one without others.
        """
        work, self.latest = self._work(), None
        for number in range(self.effort.mixes * len(self.shares)):
            self._alone(number, knee, work)

    def _alone(self, number: int, knee: float, work: Mapping[str, float]) -> None:
        """One endpoint alone: each in turn, round after round."""
        turn, place = divmod(number, len(self.shares))
        name, fraction = list(self.shares)[place], MIX_FRACTIONS[turn % len(MIX_FRACTIONS)]
        at_the_knee = knee * sum(share * work[each] for each, share in self.shares.items())
        _, figures = self._step("mix", {name: self._allowed(fraction * at_the_knee / work[name])})
        if figures.failed_because is not None:
            self._require_recovery(knee)

    def complete(self, knee: float) -> None:
        """Further steps if too few were below the knee to tell the endpoints' demands."""
        work = self._work()
        for number in range(FURTHER_MAX):
            missing = points_min(len(self.shares)) - sum(each.failed_because is None for _, each in self.steps)
            if missing <= 0:
                return
            self.schedule.expects("mix", missing)
            if number < len(FURTHER_FRACTIONS):
                self._step(CLIMB, self._log_mix(self._allowed(FURTHER_FRACTIONS[number] * knee)))
            else:
                self._alone(self.effort.mixes * len(self.shares) + number - len(FURTHER_FRACTIONS), knee, work)

    def _work(self) -> dict[str, float]:
        """The approximate work of a request of each flow: its mean response time in an idle system."""
        found = self._unhindered()
        typical = sum(found.values()) / max(1, len(found))
        flows = {flow.name: flow for flow in self.traffic.flows}
        return {
            name: sum(visits * found.get(each, typical) for each, visits in flows[name].visits.items())
            / flows[name].requests_per_iteration
            for name in self.shares
        }

    def _unhindered(self) -> dict[str, float]:
        """Each endpoint's response time in an idle system, as far as it was seen."""
        return unhindered_seconds([figures for _, figures in self.steps if figures.failed_because is None])

    def overload(self, knee: float) -> StepFigures:
        """One step beyond the knee, to identify the saturated resource."""
        longer = OVERLOAD_LENGTH * self.effort.step_seconds
        return self._step("overload", self._log_mix(self._allowed(knee * OVERLOAD_FRACTION)), longer)[1]

    def _require_recovery(self, taken: float) -> None:
        """Goes on only if a low load is taken again: what does not recover is broken, and no load says anything of it.

        Raises:
            Stopped: it is not.
        """
        rate = min(self._lowest(), RECOVERY_FRACTION * taken)
        for _ in range(RECOVERY_TRIES):
            step, figures = self._step(RECOVERY, self._log_mix(rate))
            if figures.failed_because is None:
                return
            self._renew_sessions()
        said = f"the target took {taken:,.4g} requests/s, and then no longer even {rate:,.3g}: {figures.failed_because}"
        shown = next((each.first_failure for each in step.endpoints if each.first_failure is not None), None)
        raise Stopped("; ".join(part for part in (said, shown, cure(step.failed_by)) if part))

    def _renew_sessions(self) -> None:
        """Logs the users in again: their sessions may have ended.

        Raises:
            Stopped: they cannot, or a tier has ended.
        """
        self._require_tiers()
        try:
            self.traffic.logged_in()
        except CouldNotRun as failure:
            raise Stopped(f"users can no longer log in: {failure.said}") from failure

    def _require_tiers(self) -> None:
        ended = [because for tier in self.watch.tiers if (because := self.watch.ended_because(tier)) is not None]
        if ended:
            raise Stopped("; ".join(ended))

    def _lowest(self) -> float:
        return FIRST_RATE * max(1.0, len(self.shares) / 4)

    def _allowed(self, rate: float) -> float:
        return rate if self.rate_max is None else min(rate, self.rate_max)

    def _log_mix(self, rate: float) -> dict[str, float]:
        return {name: rate * share for name, share in self.shares.items()}

    def _step(self, kind: str, rates: Mapping[str, float], seconds: float | None = None) -> tuple[Step, StepFigures]:
        self._require_tiers()
        asked = f"{kind}: {sum(rates.values()):,.1f} requests/s"
        self.told(f"{asked}{self._found()}", self.schedule.share(kind), self.schedule.left_seconds())
        began = time.monotonic()
        mix = frozenset(rates)
        lengths = self._lengths(seconds or self.effort.step_seconds, mix)
        step = self.traffic.step(rates, *lengths, self._unhindered(), in_sessions=kind != "mix", progress=self._shown)
        figures = described(kind, step, self.watch.used(step.begin, step.end))
        windows = self.watch.cpu_windows(step.begin, step.end, WINDOW_SECONDS)
        figures.cpu_windows = CpuWindows(seconds=WINDOW_SECONDS, cores=windows)
        figures.failed_because = self._beyond(step, mix)
        self.steps.append((step, figures))
        if step.interrupted:
            raise Interrupted("interrupted")
        if figures.failed_because is not None:
            self._cool()
        self.schedule.did(kind, time.monotonic() - began)
        return step, figures

    def _found(self) -> str:
        """The highest load of the log's mix that was sustained so far, in words."""
        passed = [figures for _, figures in log_mix(self.steps) if figures.failed_because is None]
        if not passed:
            return ""
        best = max(passed, key=lambda each: each.requests_per_second)
        used = {name: each.cpu_cores for name, each in best.tiers.items() if each.cpu_cores is not None}
        busiest = max(used, key=lambda name: used[name]) if used else None
        p95 = best.response_time_p95_seconds
        said = f"; so far {best.requests_per_second:,.4g}"
        said += "" if p95 is None else f" with a p95 of {format.seconds(p95)}"
        return said if busiest is None else f"{said}, {busiest} {used[busiest]:.2f} cores"

    @property
    def _shown(self) -> engine.Progress | None:
        """Passes lines of progress on with the usage of the tiers."""
        progress = self.progress
        if progress is None:
            return None

        def with_tiers(line: ProgressLine) -> None:
            now = time.time()
            used = self.watch.used(now - SHOWN_SECONDS, now).tiers
            progress(line.model_copy(update={"tiers": {name: _counters(each) for name, each in used.items()}}))

        return with_tiers

    def _lengths(self, seconds: float, mix: frozenset[str]) -> tuple[float, float]:
        """The lengths of a step and its settle time; in a slow system queues take longer to become stationary."""
        response = max(self.quickest.get(mix, 0.0), self.latest or 0.0)
        longest = LENGTH_MAX * self.effort.step_seconds
        settle = max(self.effort.settle_seconds, min(longest / 2, SETTLE_RESPONSES * response))
        return max(seconds, min(longest, STEP_RESPONSES * response)), settle

    def _beyond(self, step: Step, mix: frozenset[str]) -> str | None:
        if step.failed_fraction > self.errors_max and not is_by_chance(step, self.errors_max):
            causes = in_words(step.failed_by)
            named = f" ({causes})" if causes else ""
            return f"{step.failed_fraction:.1%} of the requests failed or were not answered{named}"
        # Of what was due, whatever its mean rate is, only what was under way at either end may be missing by chance.
        due = step.due_per_second
        before, now = self.quickest.get(mix), step.mean_seconds
        under_way = max(1.0, due * (before or 0.0))
        chance = UNDER_WAY_DEVIATIONS * under_way**0.5 / (step.end - step.begin)
        if due - step.responses_per_second > max(SHORTFALL_MAX * due, chance):
            return f"{step.responses_per_second:,.1f} of {due:,.1f} requests/s were answered"
        if now is not None:
            self.quickest[mix] = now if before is None else min(before, now)
        if before is not None and now is not None and now > max(SLOW_FACTOR * before, SLOW_SECONDS_MIN):
            return f"the mean response time rose from {before * 1e3:.1f} to {now * 1e3:.0f} ms"
        self.latest = now
        return None

    def _cool(self) -> None:
        """Waits until the system has finished its queued requests and its tiers are idle again."""
        until = time.monotonic() + COOL_SECONDS_MAX
        time.sleep(COOL_SECONDS)
        while time.monotonic() < until:
            now = time.time()
            used = self.watch.used(now - COOL_SECONDS, now)
            busy = sum(each.cpu_cores or 0.0 for each in used.tiers.values())
            working = used.database.active if used.database is not None else 0.0
            if busy < 0.1 and working < 0.5:
                return
            time.sleep(COOL_SECONDS / 2)


def is_by_chance(step: Step, fraction: float) -> bool:
    """True if so many failures, or more, are no surprise where this fraction fails: one of six requests says little.

    Failures are taken as independent, by Poisson's law. Where most fail, it is not chance: a server may hang.
    """
    due = sum(each.requests for each in step.endpoints)
    failed, mean = round(step.failed_fraction * due), fraction * due
    if mean <= 0 or 2 * failed > due:
        return False
    fewer = math.fsum(math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) for count in range(failed))
    return 1 - fewer > FAILURES_CHANCE


def _counters(used: TierUse) -> dict[str, float]:
    """What is known of a tier's usage, but for its connections by destination."""
    return used.model_dump(exclude={"outgoing_connections"}, exclude_none=True)


def _refused(step: Step, rate: float, because: str) -> CouldNotRun:
    """Not even the lowest load is taken: what was answered in its place, and the cure."""
    shown = [f"  {each.name}: {each.first_failure}" for each in step.endpoints if each.first_failure is not None]
    said = "\n".join([f"not even {rate:.1f} requests/s are taken: {because}", *shown[:SHOWN_MAX]])
    return CouldNotRun(said, cure(step.failed_by) or "does the target answer what the log asks?")


def idle_use(parts: Sequence[float], seconds: float) -> IdleUse:
    """CPU usage without a load, from that in successive parts of the time."""
    mean = float(np.mean(parts))
    half = float(student_t(0.95, len(parts) - 1) * np.std(parts, ddof=1) / len(parts) ** 0.5)
    interval = Interval(estimate=mean, low=max(0.0, mean - half), high=mean + half)
    return IdleUse(cpu_cores=interval, parts_cpu_cores=list(parts), seconds=seconds)


def idle_in_words(tiers: Sequence[TierDescription]) -> str:
    """The usage of the tiers without a load, in words; empty if none was measured."""
    return ", ".join(
        f"{each.name} {used.estimate:.1%} ({used.low:.1%} to {used.high:.1%})"
        for each in tiers
        if each.idle is not None
        for used in (each.idle.cpu_cores,)
    )


def described(kind: str, step: Step, used: SystemUse) -> StepFigures:
    """Converts a step to its form in the summary."""
    return StepFigures(
        kind=kind,
        offered_requests_per_second=step.offered_per_second,
        requests_per_second=step.responses_per_second,
        failed_fraction=step.failed_fraction,
        response_time_mean_seconds=step.mean_seconds,
        response_time_p95_seconds=step.quantile(0.95),
        in_system=step.in_system,
        endpoints=[
            EndpointFigures(
                name=each.name,
                offered_requests_per_second=each.offered_per_second,
                requests_per_second=each.responses_per_second,
                failures=each.failures,
                unfinished=each.unfinished,
                response_time_mean_seconds=each.mean_seconds,
                response_time_p50_seconds=each.p50_seconds,
                response_time_p95_seconds=each.p95_seconds,
                response_time_p99_seconds=each.p99_seconds,
                response_time_quantiles_seconds=_quantiles(each),
                failed_by=dict(each.failed_by),
                requests=each.requests,
                abandoned=each.abandoned,
                first_failure=each.first_failure,
                server_timing_seconds=dict(each.server_timing),
                due_seconds=[round(due, DIGITS) for due, _ in each.each_request],
                response_seconds=[None if time is None else round(time, DIGITS) for _, time in each.each_request],
            )
            for each in step.endpoints
        ],
        tiers=used.tiers,
        database=used.database,
        levels=used.levels,
        machine_busy_cores=used.machine_busy_cores,
        busy_by_core=used.busy_by_core,
        generator_cpu_cores=step.generator_cpu,
        generator_limited=step.generator_limited,
        users=step.users,
        measured_seconds=step.end - step.begin,
    )


def _quantiles(endpoint: EndpointStep) -> list[float]:
    if endpoint.histogram is None or not len(endpoint.histogram):
        return []
    return [float(f"{endpoint.histogram.quantile(place / 20) or 0.0:.4g}") for place in range(1, 20)]


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Normalises counts to shares."""
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


def log_mix(steps: Sequence[tuple[Step, StepFigures]]) -> list[tuple[Step, StepFigures]]:
    """The steps with the log's own mix, but for those that show whether the system is still there."""
    return [each for each in steps if each[1].tells_the_knee]
