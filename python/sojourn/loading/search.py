"""Capacity search: decides which load to try next, and when to stop. It has no clock and no server.

A run at a load passes or fails, and near the capacity chance decides. The search therefore keeps a probability
distribution over the capacity and over the sharpness of the transition, updates it after every run (Bayes' rule with a
logistic curve), tries next the load with the largest expected information (L. Kontsevich, C. Tyler, Vision Research
39, 1999), and ends when the 95 % interval is narrow enough. It starts by doubling until a run fails, and ends by
confirming the interval's ends, as far as there are such loads. Runs in which the generator was the limit are void: they
say nothing about the server, and no higher load is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
GROWTH = 2.0
"""The default growth factor of the load until a run fails."""
LAPSE = 0.02
"""The probability that a run's outcome is unrelated to the load."""
SHARPNESS = np.geomspace(0.003, 0.2, 9)
"""Possible widths of the transition, as shares of the load."""
VOIDS_FOR_CEILING = 3
"""One void run may be a disturbance; this many at a load mean the generator's limit."""
CEILING_RATIO = 1.15
"""The search tries loads up to this factor below the generator's limit before it gives up."""
_CAPACITIES = 200
_CANDIDATES = 30

Phase = Literal["bracket", "search", "confirm"]
Ending = Literal["precise enough", "out of time", "interrupted", "generator", "not reached", "never passed"]


@dataclass(frozen=True)
class Plan:
    start: float
    """The first load."""
    precision: float = 0.05
    """The search ends when the interval's width over the capacity is at most this."""
    confirmations: int = 3
    """Confirming runs at each end of the final interval."""
    runs_max: int = 60
    load_min: float = 1.0
    load_max: float = 1e7
    whole: bool = False
    """Set if loads are whole numbers, such as clients."""
    growth: float = GROWTH
    """The growth factor until a run fails; smaller if the start is thought to be near."""


@dataclass(frozen=True)
class Trial:
    """One run at one load."""

    load: float
    passed: bool
    void_because: str | None = None
    """The reason why the run is void; None if it is not."""
    values: dict[str, float] = field(default_factory=dict)
    """The measured values by metric."""
    phase: Phase = "bracket"

    def as_json(self) -> dict[str, object]:
        """The JSON object of files and `--format json`."""
        values = {name: None if math.isnan(value) else value for name, value in self.values.items()}
        verdict = {"passed": self.passed, "void_because": self.void_because, "phase": self.phase}
        return {"load": self.load, **verdict, "values": values}


@dataclass(frozen=True)
class Found:
    """The result of a search; loads are in the unit of the plan."""

    ending: Ending
    capacity: float | None
    """The load at which half of the runs pass; None if the server's limit was not reached."""
    low: float | None
    """The capacity's 95 % interval. Without a capacity, `low` is the largest load that passed: a lower bound."""
    high: float | None
    trials: Sequence[Trial]

    @property
    def pass_fractions(self) -> list[tuple[float, int, int, float]]:
        """By load: the number of runs, the number that passed, and the monotone regression of the pass rate.

        The regression assumes only that more load is never better: a check on the search's own law.
        """
        from scipy.optimize import isotonic_regression

        by_load: dict[float, list[bool]] = {}
        for trial in self.trials:
            if trial.void_because is None:
                by_load.setdefault(trial.load, []).append(trial.passed)
        loads = sorted(by_load)
        if not loads:
            return []
        shares = [sum(by_load[load]) / len(by_load[load]) for load in loads]
        weights = [len(by_load[load]) for load in loads]
        fitted = isotonic_regression(shares, weights=weights, increasing=False).x
        return [
            (load, len(by_load[load]), sum(by_load[load]), float(share))
            for load, share in zip(loads, fitted, strict=True)
        ]

    def as_json(self) -> dict[str, object]:
        """The JSON object of files and `--format json`."""
        fractions = [
            {"load": load, "runs": runs, "passed": passed, "pass_fraction_monotone": share}
            for load, runs, passed, share in self.pass_fractions
        ]
        figures = {"capacity": self.capacity, "low": self.low, "high": self.high, "confidence_level": LEVEL}
        return {
            "ending": self.ending,
            **figures,
            "loads": fractions,
            "trials": [each.as_json() for each in self.trials],
        }


class OutOfTime(Exception):
    """Raised by `measure` if no time is left for another run."""


def search(measure: Callable[[float], Trial], plan: Plan, keep: Callable[[Found], None] = lambda found: None) -> Found:
    """Searches for the capacity.

    Args:
        measure: runs at a load; may raise `OutOfTime`, or `KeyboardInterrupt`, which ends the search with its result.
        plan: the parameters of the search.
        keep: is called with the result so far after every run.
    """
    state = _Search(measure, plan, keep)
    try:
        ending = state.run()
    except OutOfTime:
        ending = "out of time"
    except KeyboardInterrupt:
        ending = "interrupted"
    return state.found(ending)


class _Search:
    def __init__(self, measure: Callable[[float], Trial], plan: Plan, keep: Callable[[Found], None]) -> None:
        self.measure, self.plan, self.keep = measure, plan, keep
        self.trials: list[Trial] = []
        self._believed: tuple[int, Belief] | None = None
        """The number of trials, and what they tell: it is asked for several times after each."""

    def run(self) -> Ending:
        ending = self._bracket()
        if ending is not None:
            return ending
        while len(self.trials) < self.plan.runs_max:
            belief = self._belief()
            low, high = belief.interval()
            if high / low <= 1 + self.plan.precision or (self.plan.whole and high - low <= 1):
                if self._confirm(belief):
                    return "precise enough"
                continue
            ceiling = self._ceiling()
            if ceiling is not None and belief.quantile(0.5) > ceiling:
                return "generator"
            load = belief.most_telling(self._candidates(low, high))
            self._try(load if ceiling is None else min(load, self._rounded(ceiling / CEILING_RATIO)), "search")
        return "out of time"

    def _bracket(self) -> Ending | None:
        """Doubles the load until a run fails, or halves it until one passes."""
        load = self._rounded(self.plan.start)
        while len(self.trials) < self.plan.runs_max:
            trial = self._try(load, "bracket")
            if trial.void_because is not None:
                if self._ceiling() is None:
                    continue
                return self._below_ceiling()
            passed, failed = self._loads(passed=True), self._loads(passed=False)
            if passed and failed:
                return None
            following = self._rounded(load * self.plan.growth if trial.passed else load / self.plan.growth)
            if following == load:
                return "not reached" if trial.passed else "never passed"
            load = following
        return "out of time"

    def _below_ceiling(self) -> Ending | None:
        """Tries loads closer below the generator's limit, which was reached first."""
        while len(self.trials) < self.plan.runs_max:
            ceiling = self._ceiling()
            low = max(self._loads(passed=True), default=0.0)
            if self._loads(passed=False):
                return None if low else "never passed"
            if ceiling is None or (low and ceiling / low <= CEILING_RATIO) or ceiling <= self.plan.load_min:
                return "generator"
            following = self._rounded(math.sqrt(ceiling * low) if low else ceiling / GROWTH)
            if following in (low, ceiling):
                return "generator"
            self._try(following, "bracket")
        return "generator"

    def _candidates(self, low: float, high: float) -> list[float]:
        """Candidate loads over the interval, no finer than the plan allows."""
        spaced = np.geomspace(low, high, _CANDIDATES)
        rounded = {self._rounded(float(load), up=up) for load in spaced for up in (False, True)}
        return sorted(rounded)

    def _confirm(self, belief: Belief) -> bool:
        """Runs at both ends; returns whether most outcomes were as expected.

        If it returns false it has made a run: without one, the search would come back to the same ends forever.
        """
        for load, expected in self._ends(belief):
            outcomes = [trial.passed == expected for trial in self._confirming(load)]
            before = len(self.trials)
            while len(self.trials) < self.plan.runs_max:
                # The interval follows from earlier outcomes, too: that most of them contradict it says nothing new.
                is_new = len(self.trials) > before
                if len(outcomes) >= self.plan.confirmations and (is_new or not _contradict(outcomes)):
                    break
                trial = self._try(load, "confirm")
                if trial.void_because is not None:
                    if self._ceiling() is not None:
                        # Above the generator's limit nothing can be confirmed.
                        break
                    continue
                outcomes.append(trial.passed == expected)
            if _contradict(outcomes):
                return False
        return True

    def _ends(self, belief: Belief) -> Iterator[tuple[float, bool]]:
        """The loads at the interval's ends, with whether they should pass.

        The plan may have no load so low: of a capacity of 0.9 clients, it cannot be shown that fewer pass.
        """
        low, high = belief.interval()
        capacity = belief.quantile(0.5)
        below, above = self._rounded(low), self._rounded(high, up=True)
        if below <= capacity:
            yield below, True
        if above >= capacity:
            yield above, False

    def _confirming(self, load: float) -> list[Trial]:
        return [
            trial
            for trial in self.trials
            if trial.phase == "confirm" and trial.load == load and trial.void_because is None
        ]

    def _try(self, load: float, phase: Phase) -> Trial:
        trial = replace(self.measure(load), phase=phase)
        self.trials.append(trial)
        self.keep(self.found("interrupted"))
        return trial

    def _loads(self, *, passed: bool) -> list[float]:
        return [trial.load for trial in self.trials if trial.void_because is None and trial.passed is passed]

    def _ceiling(self) -> float | None:
        """The generator's limit: a load that was void repeatedly, with no valid run at or above it."""
        good = max((trial.load for trial in self.trials if trial.void_because is None), default=0.0)
        void = [trial.load for trial in self.trials if trial.void_because is not None and trial.load > good]
        return min((load for load in void if void.count(load) >= VOIDS_FOR_CEILING), default=None)

    def _rounded(self, load: float, *, up: bool = False) -> float:
        if self.plan.whole:
            load = math.ceil(load - 1e-9) if up else math.floor(load + 1e-9)
        else:
            # Four digits, so that loads are easy to type.
            digits = 3 - math.floor(math.log10(load))
            load = round(load, digits)
        return float(min(self.plan.load_max, max(self.plan.load_min, load)))

    def _belief(self) -> Belief:
        if self._believed is None or self._believed[0] != len(self.trials):
            belief = Belief.of([trial for trial in self.trials if trial.void_because is None])
            self._believed = len(self.trials), belief
        return self._believed[1]

    def found(self, ending: Ending) -> Found:
        passed, failed = self._loads(passed=True), self._loads(passed=False)
        if not passed or not failed or ending == "generator":
            # A bound is not an estimate: only the largest load that passed is known.
            return Found(ending, None, max(passed, default=None), min(failed, default=None), tuple(self.trials))
        belief = self._belief()
        low, high = belief.interval()
        return Found(ending, belief.quantile(0.5), low, high, tuple(self.trials))


@dataclass(frozen=True)
class Belief:
    """The distribution over capacity (rows, by rising logarithm) and sharpness of the transition (columns)."""

    log_capacities: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Belief:
        """Computes the distribution from the runs that passed and failed."""
        loads = [trial.load for trial in trials]
        rough = cls._on(np.linspace(math.log(min(loads) / GROWTH), math.log(max(loads) * GROWTH), _CAPACITIES), trials)
        # Near the capacity the grid must be finer than the wanted interval.
        low, high = math.log(rough.quantile(0.0005)), math.log(rough.quantile(0.9995))
        return cls._on(np.linspace(low - 0.02, high + 0.02, _CAPACITIES), trials)

    @classmethod
    def _on(cls, grid: NDArray[np.float64], trials: Sequence[Trial]) -> Belief:
        logs = np.zeros((len(grid), len(SHARPNESS)))
        for trial in trials:
            passing = _passing(grid, math.log(trial.load))
            logs += np.log(passing if trial.passed else 1 - passing)
        weights = np.exp(logs - logs.max())
        return cls(grid, weights / weights.sum())

    def quantile(self, fraction: float) -> float:
        cumulative = np.cumsum(self.weights.sum(axis=1))
        return float(np.exp(np.interp(fraction, cumulative, self.log_capacities)))

    def interval(self) -> tuple[float, float]:
        """The capacity's 95 % interval."""
        return self.quantile((1 - LEVEL) / 2), self.quantile((1 + LEVEL) / 2)

    def most_telling(self, loads: Sequence[float]) -> float:
        """The load whose outcome leaves the least expected uncertainty of the capacity."""
        return min(loads, key=lambda load: self._uncertainty_after(math.log(load)))

    def _uncertainty_after(self, log_load: float) -> float:
        passing = _passing(self.log_capacities, log_load) * self.weights
        left = 0.0
        for outcome in (passing, self.weights - passing):
            chance = outcome.sum()
            capacity = outcome.sum(axis=1) / chance
            left -= chance * float(np.sum(capacity * np.log(np.maximum(capacity, 1e-300))))
        return float(left)


def _contradict(outcomes: Sequence[bool]) -> bool:
    """Whether no majority of the outcomes was as expected."""
    return bool(outcomes) and sum(outcomes) * 2 <= len(outcomes)


def _passing(log_capacities: NDArray[np.float64], log_load: float) -> NDArray[np.float64]:
    """The probability that a run at a load passes, by capacity and sharpness."""
    from scipy.special import expit

    edge = expit((log_capacities[:, None] - log_load) / SHARPNESS[None, :])
    return np.asarray(LAPSE + (1 - 2 * LAPSE) * edge)
