"""The rising load: sessions drawn from the trace at increasing rates up to the knee.

A first staircase explores: it starts low and rises until a step fails. The repetitions then all climb the same
staircase around the estimated knee, so that every step is measured once per repetition and drift of the machine
affects all steps alike. The engine decides which step exceeds the server's capacity, and why (`limit`). A repetition
whose highest step passes climbs further. Steps whose mean response time is still imprecise are then measured again,
alone, until it is precise or a limit is reached.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sojourn import _native, engine, interrupts
from sojourn.assessment import averages
from sojourn.assessment.measurement import Bench, Interrupted, ServerStopped, observed
from sojourn.engine.results import Unavailable
from sojourn.loading.record import RequestsRecord, Step

# Fractions of the estimated capacity, then of the explored knee. Steps above 1 show the overload.
EXPLORED_FRACTIONS = (0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
EXPLORATION_GROWTH = 1.5
EXPLORATIONS_MAX = 6
REPEATED_FRACTIONS = (0.2, 0.35, 0.5, 0.62, 0.74, 0.84, 0.92, 1.06, 1.15)
HIGHER_FRACTIONS = (1.12, 1.26, 1.4)
"""Further steps of a repetition, relative to its highest passed step."""
HIGHER_MAX = 6
"""The most extensions of a repetition: up to seven times the load found by exploration."""
HALF_WIDTH_MAX = 0.1
"""Steps are measured again until half the width of the mean response time's 95 % interval is below this, relative to
the mean.
"""
STEPS_GROWTH_MAX = 2
"""The most steps in total, as a multiple of those of the repetitions."""
OTHERS_FRACTION_MAX = 0.15
"""The load's own interrupts and kernel threads take at most this share of the server's core; more is other work, which
then contributed to the limit.
"""
DISTURBED_REPETITIONS_MIN = 3
"""Beside other work at least this many repetitions are made: one that coincides with it says too little."""

HIGHER = "-higher-"
"""Separates a repetition's name from the number of its extension."""
AGAIN = "again-"
"""The prefix of climbs that measure steps again."""
CUT_SHORT = "-cut-short"
"""The suffix of an interrupted climb, which says nothing about the loads it did not reach."""

WHOLE_FRACTION = 0.9
"""A step measured for a smaller share of its time counts as interrupted."""


T = TypeVar("T", bound=Step)


STEP_REQUESTS = 4000
"""A step lasts for this many requests at half the capacity, if that is not too long, because sizes vary widely."""
LENGTHENED_MAX = 4
"""The longest step, as a multiple of the effort's length."""
CONNECTIONS_MAX = 10_000
"""The limit on any machine: mostly idle connections cost memory and cache, and a fixed limit keeps runs comparable."""
DESCRIPTORS_SHARE = 0.5
"""The share of a process's file descriptors for connections; the server needs others for files."""


@dataclass(frozen=True)
class Effort:
    """The length of the rising load."""

    repetitions: int
    step_seconds: float
    settle_seconds: float

    def for_capacity(self, requests_per_second: float) -> Effort:
        """The same with longer steps for a slow system, whose requests would be too few for a rate or a p95."""
        needed = self.settle_seconds + STEP_REQUESTS / (requests_per_second / 2)
        seconds = max(self.step_seconds, min(needed, LENGTHENED_MAX * self.step_seconds))
        return replace(self, step_seconds=round(seconds, 3))


def expected_seconds(effort: Effort, *, is_quiet: bool) -> tuple[float, float]:
    """About how long all climbs take, without and with steps that are measured again, unless steps are lengthened."""
    repetitions = effort.repetitions if is_quiet else max(effort.repetitions, DISTURBED_REPETITIONS_MIN)
    explored = len(EXPLORED_FRACTIONS) * effort.step_seconds
    repeated = repetitions * len(REPEATED_FRACTIONS) * effort.step_seconds
    return explored + repeated, explored + STEPS_GROWTH_MAX * repeated


@dataclass(frozen=True)
class Climb:
    """The parameters common to all climbs of an assessment."""

    bench: Bench
    trace: Path
    effort: Effort
    think_scale: float
    target_p95_seconds: float
    keep: Callable[[RequestsRecord, str], None]
    """Called with each engine result and the climb's name."""
    progress: engine.Progress
    alternate: Callable[[int], None] | None = None
    """Called with a number before each climb of `repeat`, to measure something else in alternation."""

    def explore(self, estimate: float) -> float:
        """Climbs until a step fails; returns a first estimate of the knee in requests/s."""
        passed = 0.0
        for attempt in range(EXPLORATIONS_MAX):
            scale = estimate * EXPLORATION_GROWTH**attempt
            rates = [scale * fraction for fraction in EXPLORED_FRACTIONS if scale * fraction > passed]
            steps = self._climb(f"explore-{attempt + 1}", rates, stop_when_failing=True)
            for step in steps:
                if step.limit is not None:
                    return _capacity(step, passed)
                passed = offered(step)
        return passed

    def repeat(self, knee: float) -> None:
        """Climbs the staircase around the knee once per repetition, then repeats imprecise steps."""
        climbed: list[list[Step]] = []
        while len(climbed) < self.effort.repetitions or (
            len(climbed) < DISTURBED_REPETITIONS_MIN and any(map(disturbed, climbed))
        ):
            climbed.append(self._repetition(len(climbed) + 1, knee))
        by_rate: dict[float, list[Step]] = {}
        for step in (step for steps in climbed for step in steps):
            by_rate.setdefault(offered(step), []).append(step)
        left = (STEPS_GROWTH_MAX - 1) * sum(map(len, climbed))
        number = 0
        while (rates := unsettled(by_rate)) and len(rates) <= left:
            number += 1
            left -= len(rates)
            draw = len(climbed) + number
            self._alternate(draw)
            for step in self._climb(f"{AGAIN}{number}", rates, stop_when_failing=False, draw=draw):
                by_rate[offered(step)].append(step)

    def at(self, name: str, rates: Sequence[float], draw: int = 0) -> list[Step]:
        """Climbs these rates, in requests/s, with the sessions of one draw."""
        return self._climb(name, rates, stop_when_failing=False, draw=draw)

    def _alternate(self, number: int) -> None:
        if self.alternate is not None:
            self.alternate(number)

    def _repetition(self, number: int, knee: float) -> list[Step]:
        self._alternate(number)
        name, rates = f"repetition-{number}", [knee * fraction for fraction in REPEATED_FRACTIONS]
        steps = self._climb(name, rates, stop_when_failing=False, draw=number)
        for attempt in range(HIGHER_MAX):
            if steps[-1].limit is not None or generator_limited(steps[-1]):
                break
            highest = offered(steps[-1])
            rates = [highest * fraction for fraction in HIGHER_FRACTIONS]
            steps = steps + self._climb(f"{name}{HIGHER}{attempt + 1}", rates, stop_when_failing=True, draw=number)
        return steps

    def _climb(self, name: str, rates: Sequence[float], *, stop_when_failing: bool, draw: int = 0) -> list[Step]:
        """Each repetition draws its own sessions, so that the spread of results includes that of the load."""
        options = ["--step", f"{self.effort.step_seconds:g}s", "--settle", f"{self.effort.settle_seconds:g}s"]
        options += [
            "--think-scale",
            f"{self.think_scale:.6g}",
            "--target-p95",
            f"{self.target_p95_seconds:g}s",
        ]
        # Records are embedded in the result, because only our own writes handle a full disk.
        options.append("--embed")
        if stop_when_failing:
            options.append("--stop-when-failing")
        bench = replace(self.bench, seed=self.bench.seed + draw)
        with interrupts.held():
            try:
                result = bench.rising_load(self.trace, list(rates), options, self.progress)
            except (Interrupted, ServerStopped) as ending:
                if ending.result is not None:
                    self.keep(ending.result, name + CUT_SHORT)
                raise
            self.keep(result, name)
        return result.steps


def unsettled(by_rate: Mapping[float, Sequence[Step]]) -> list[float]:
    """The rates within the target whose mean response time is less precise than `HALF_WIDTH_MAX`, ascending.

    A rate at which a repetition failed still counts if most kept up: interruptions of the machine fail steps, too. A
    single repetition has no spread; asking for one means accepting a rough answer.
    """
    found = []
    for rate, level in sorted(by_rate.items()):
        means = [(mean, step.requests) for step in level if (mean := _mean_for_model(step)) is not None]
        if len(means) < 2 or 2 * sum(step.limit is not None for step in level) >= len(level):
            continue
        half_width, middle = averages.half_width([mean for mean, _ in means]), averages.middle(means)
        if half_width is not None and middle is not None and half_width > HALF_WIDTH_MAX * middle:
            found.append(rate)
    return found


def _mean_for_model(step: Step) -> float | None:
    """The mean response time over undisturbed windows, where available."""
    if isinstance(step.undisturbed, Unavailable):
        return step.response_time_seconds.mean
    return step.undisturbed.response_time_seconds.mean


def repetition_of(name: str) -> str | None:
    """The repetition to which a climb belongs, by its name; None if it explored or was interrupted."""
    is_whole = name.startswith("repetition") and not name.endswith(CUT_SHORT)
    return name.partition(HIGHER)[0] if is_whole else None


def whole(steps: Sequence[T], effort: Effort) -> list[T]:
    """The completed steps of an interrupted climb."""
    measured = effort.step_seconds - effort.settle_seconds
    return [step for step in steps if step.duration_seconds >= WHOLE_FRACTION * measured]


def offered(step: Step) -> float:
    """The offered rate, which every step of a rising load has."""
    assert step.offered_requests_per_second is not None
    return step.offered_requests_per_second


def error_fraction(step: Step) -> float:
    """The share of failed requests; those unanswered at the end count as missing throughput instead."""
    return step.errors / max(1, step.requests + step.errors + step.unfinished)


def generator_limited(step: Step) -> bool:
    """True if the generator was the limit and the server was not; both may saturate at once."""
    return step.generator.limited and not step.server_saturated


def others_fraction(step: Step) -> float | None:
    """The share of the server's core used outside the server's processes: other work, and some interrupts."""
    busy, own = observed(step, "core_busy_fraction"), observed(step, "cpu_fraction")
    return None if busy is None or own is None else max(0.0, busy - own)


def disturbed(steps: Sequence[Step]) -> bool:
    """True if other work had the server's core for more than its share, in half of the steps or more."""
    known = [fraction for step in steps if (fraction := others_fraction(step)) is not None]
    return bool(known) and statistics.median(known) > OTHERS_FRACTION_MAX


def _capacity(step: Step, passed: float) -> float:
    return max(passed, min(step.requests_per_second or 0.0, offered(step)))


def think_scale_within_limits(trace: _native.Trace, requests_per_second: float) -> tuple[float, str | None]:
    """The factor on think times that keeps open connections within the limit, with the reason if it is not 1.

    By Little's law the sessions of a load hold rate / (requests per session) x (duration of a session) connections.
    """
    wanted = requests_per_second / trace.mean_requests_per_session * trace.mean_session_duration_seconds
    allowed = connections_allowed()
    if wanted <= allowed:
        return 1.0, None
    scale = allowed / wanted
    # The message gives no rate, because the highest rate is a guess before any measurement.
    return scale, (
        f"Think times were shortened to {scale:.3f} of the log's: with its own, the highest loads that were planned "
        f"would hold more than the {allowed:,} open connections that this run allows itself. "
        "Requests, their order and their connections are the log's; fewer connections are idle at a time."
    )


def connections_allowed() -> int:
    """The smaller limit: ours, or the process's file descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(100, min(CONNECTIONS_MAX, int(hard * DESCRIPTORS_SHARE)))
