"""The log's own mix at rising load: sessions drawn at random from the trace, step by step up to the knee.

A first staircase explores: it starts low and rises until a step fails. The repetitions then all climb the same
staircase, laid around the knee that was found, so that every step is measured once per repetition and a drift of
the machine touches all steps alike. Which step is beyond what the server takes, and why, the engine says (`limit`).
A repetition whose highest step passes climbs on: the server says where it ends,
not the estimate. The steps whose mean response time is not known well enough by then are measured again, alone, until
it is, or the limit is reached.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from scipy.stats import t as student_t

from sojourn import engine, interrupts
from sojourn.assessment.measurement import Bench, Interrupted, ServerStopped, observed
from sojourn.engine.results import Unavailable
from sojourn.loading.record import RequestsRecord, Step

# Fractions of the estimated capacity, then of the explored knee. Steps above 1 show the overload.
EXPLORED_FRACTIONS = (0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
EXPLORATION_GROWTH = 1.5
EXPLORATIONS_MAX = 6
REPEATED_FRACTIONS = (0.2, 0.35, 0.5, 0.62, 0.74, 0.84, 0.92, 1.06, 1.15)
HIGHER_FRACTIONS = (1.12, 1.26, 1.4)
"""Of the highest step that passed, where a repetition climbs on."""
HIGHER_MAX = 6
"""Times that a repetition may climb on: to seven times the load that the exploration found."""
HALF_WIDTH_MAX = 0.1
"""Of a mean response time's 95 % confidence interval, over the mean: what steps are measured again for."""
STEPS_GROWTH_MAX = 2
"""Times as many steps as the repetitions have, at the most."""

HIGHER = "-higher-"
"""Between the name of a repetition and how often it has climbed on."""
AGAIN = "again-"
"""Before the number of a climb of steps that are measured again."""
CUT_SHORT = "-cut-short"
"""Added to the name of a climb that did not come to its end: it says nothing of the load it would have ended at."""

WHOLE_FRACTION = 0.9
"""A step that was measured for less of its time did not come to its end."""


T = TypeVar("T", bound=Step)


STEP_REQUESTS = 4000
"""A step lasts for so many requests at half the capacity, if that does not take too long: sizes are spread widely."""
LENGTHENED_MAX = 4
"""Times as long as the effort says, at the most."""


@dataclass(frozen=True)
class Effort:
    """The length of the rising load."""

    repetitions: int
    step_seconds: float
    settle_seconds: float

    def for_capacity(self, requests_per_second: float) -> Effort:
        """The same with longer steps for a slow system: a few hundred requests tell neither a rate nor a p95."""
        needed = self.settle_seconds + STEP_REQUESTS / (requests_per_second / 2)
        seconds = max(self.step_seconds, min(needed, LENGTHENED_MAX * self.step_seconds))
        return replace(self, step_seconds=round(seconds, 3))


@dataclass(frozen=True)
class Climb:
    """What every climb of one assessment shares."""

    bench: Bench
    trace: Path
    effort: Effort
    think_scale: float
    target_p95_seconds: float
    keep: Callable[[RequestsRecord, str], None]
    """Takes each engine result and the climb's name as soon as it is there."""
    progress: engine.Progress

    def explore(self, estimate: float) -> float:
        """Climbs until a step fails; returns a first figure for the knee, in requests/s."""
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
        """Climbs the staircase around the knee, once per repetition, and what is not known well enough then again."""
        climbed = [self._repetition(number + 1, knee) for number in range(self.effort.repetitions)]
        by_rate: dict[float, list[Step]] = {}
        for step in (step for steps in climbed for step in steps):
            by_rate.setdefault(offered(step), []).append(step)
        left = (STEPS_GROWTH_MAX - 1) * sum(map(len, climbed))
        number = 0
        while (rates := unsettled(by_rate)) and len(rates) <= left:
            number += 1
            left -= len(rates)
            draw = self.effort.repetitions + number
            for step in self._climb(f"{AGAIN}{number}", rates, stop_when_failing=False, draw=draw):
                by_rate[offered(step)].append(step)

    def at(self, name: str, rates: Sequence[float]) -> list[Step]:
        """One climb of these rates, in requests/s."""
        return self._climb(name, rates, stop_when_failing=False)

    def _repetition(self, number: int, knee: float) -> list[Step]:
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
        """Repetitions draw sessions of their own: the spread of what is measured has to know that of what came."""
        options = ["--step", f"{self.effort.step_seconds:g}s", "--settle", f"{self.effort.settle_seconds:g}s"]
        options += [
            "--think-scale",
            f"{self.think_scale:.6g}",
            "--target-p95",
            f"{self.target_p95_seconds:g}s",
        ]
        # What it records comes with its result: only our own writing outlives a full disk.
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
    """The rates within the target whose mean response time is not known to `HALF_WIDTH_MAX`, rising.

    One repetition says nothing of its spread; asking for one asks for a rough answer.
    """
    found = []
    for rate, level in sorted(by_rate.items()):
        means = [mean for step in level if (mean := _mean_for_model(step)) is not None]
        if len(means) < 2 or any(step.limit is not None for step in level):
            continue
        half_width = student_t.ppf(0.975, len(means) - 1) * statistics.stdev(means) / math.sqrt(len(means))
        if half_width > HALF_WIDTH_MAX * statistics.mean(means):
            found.append(rate)
    return found


def _mean_for_model(step: Step) -> float | None:
    """The mean response time over undisturbed windows, where windows are judged."""
    if isinstance(step.undisturbed, Unavailable):
        return step.response_time_seconds.mean
    return step.undisturbed.response_time_seconds.mean


def repetition_of(name: str) -> str | None:
    """The repetition that a climb of this name belongs to; None: it explored, or did not come to its end."""
    is_whole = name.startswith("repetition") and not name.endswith(CUT_SHORT)
    return name.partition(HIGHER)[0] if is_whole else None


def whole(steps: Sequence[T], effort: Effort) -> list[T]:
    """Of a climb that was cut short, the steps that came to their end."""
    measured = effort.step_seconds - effort.settle_seconds
    return [step for step in steps if step.duration_seconds >= WHOLE_FRACTION * measured]


def offered(step: Step) -> float:
    """The rate that was offered; every step of a rising load has one."""
    assert step.offered_requests_per_second is not None
    return step.offered_requests_per_second


def error_fraction(step: Step) -> float:
    """Failed requests over all; those still unanswered at the end count as throughput that is missing."""
    return step.errors / max(1, step.requests + step.errors + step.unfinished)


def generator_limited(step: Step) -> bool:
    """True if the generator was the limit and the server was not: both may be at their end at once."""
    return step.generator.limited and not step.server_saturated


def others_fraction(step: Step) -> float | None:
    """The share of the server's core that the server's processes did not have: other work, and some interrupts."""
    busy, own = observed(step, "core_busy_fraction"), observed(step, "cpu_fraction")
    return None if busy is None or own is None else max(0.0, busy - own)


def _capacity(step: Step, passed: float) -> float:
    return max(passed, min(step.requests_per_second or 0.0, offered(step)))
