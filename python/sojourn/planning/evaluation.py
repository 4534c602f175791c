"""Evaluates a system's metric: by an analytic solver that computes it, otherwise by simulation.

Simulations of one plan share a seed and a number of jobs, so that two systems which differ in one parameter see the
same jobs (common random numbers) and noise does not mislead a search. What no solver knows exactly is confirmed by a
longer simulation with other random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

from sojourn import queueing
from sojourn.failure import CouldNotRun
from sojourn.planning.system_document import SystemDocument
from sojourn.planning.target import Metric
from sojourn.queueing import Prediction, ResponseTime, Simulation, SolverAnswer, System, Target

SEARCH_JOBS = 200_000
"""The number of jobs of each simulation in a search."""
CONFIRMATION_JOBS = 1_000_000
"""The number of jobs of a confirmation: the 95 % half-width of a p95 is then about 1 %, unless the load is near 1."""

Using = Literal["auto", "simulation"]
HalfWidth = Literal[
    "mean_half_width", "p50_half_width", "p90_half_width", "p95_half_width", "p99_half_width", "p999_half_width"
]
PREFERENCE = ("exact-lps", "open", "load-dependent-mva", "mva", "amva", "fixed-point")
"""Analytic solvers, the most exact first."""

_HALF_WIDTHS: dict[Target, HalfWidth] = {
    "mean": "mean_half_width",
    "p50": "p50_half_width",
    "p90": "p90_half_width",
    "p95": "p95_half_width",
    "p99": "p99_half_width",
    "p999": "p999_half_width",
}


@dataclass(frozen=True)
class Evaluation:
    """A metric's value; infinite if a station is unstable or the loss is above its limit."""

    seconds: float
    by: str
    """The solver's name, or `simulation`."""
    mean_seconds: float
    """Mean response time of all classes together."""
    throughput_per_second: float
    half_width_seconds: float | None = None
    unstable_station: str | None = None
    loss_probability: float = 0.0
    """The share of refused jobs; times are of the others."""
    loss_half_width: float | None = None
    exact: bool = False
    """Whether the solver says that nothing of it is approximate."""
    accepted_seconds: float = math.inf
    """The metric's value for accepted jobs, whatever the loss."""

    def judged(self, loss_max: float | None, slack: float = 0.0) -> Evaluation:
        """The evaluation, with an infinite value if the loss exceeds the limit by more than the slack."""
        excess = loss_max is not None and self.loss_probability > loss_max + slack
        return replace(self, accepted_seconds=self.seconds, seconds=math.inf if excess else self.seconds)


class Evaluator:
    """Evaluates variants of a system."""

    def __init__(self, metric: Metric, *, seed: int = 1, using: Using = "auto", loss_max: float | None = None) -> None:
        self.metric = metric
        self.loss_max = loss_max
        self.loss_searched = loss_max
        """The limit on losses in a search: below `loss_max` if a confirmation found more losses than the search."""
        self.seed = seed
        self.using = using
        self.simulations = 0
        """How many were run."""
        self._analytic = using == "auto"

    def fresh(self) -> Evaluator:
        """An evaluator of the same metric that has evaluated nothing: a task's answer depends on no other task."""
        return Evaluator(self.metric, seed=self.seed, using=self.using, loss_max=self.loss_max)

    def evaluate(self, document: SystemDocument) -> Evaluation:
        """The metric of a system."""
        if self._analytic and document.system.unstable_station() is None:
            if self.loss_searched is not None:
                lossy = _too_lossy(queueing.predict(document.system, percentiles=False), self.loss_searched)
                if lossy is not None:
                    return lossy
            known = self._known(document.system)
            if known is not None:
                return known.judged(self.loss_searched)
            # A solver that refuses one variant refuses all, so it is not asked again.
            self._analytic = False
        return self._simulate(document.system, SEARCH_JOBS, self.seed).judged(self.loss_searched)

    def confirm(self, document: SystemDocument) -> Evaluation:
        """Evaluates by a solver that is exact, else by a longer simulation with other random numbers.

        A simulated loss may exceed its limit within its interval.
        """
        if self._analytic and document.system.unstable_station() is None:
            known = self._known(document.system)
            if known is not None and known.exact:
                return known.judged(self.loss_max)
        found = self._simulate(document.system, CONFIRMATION_JOBS, self.seed + 1)
        return found.judged(self.loss_max, found.loss_half_width or 0.0)

    def _known(self, system: System) -> Evaluation | None:
        percentiles = self.metric.statistic not in ("mean", "residence")
        return _analytic(queueing.predict(system, percentiles=percentiles), self.metric)

    def _simulate(self, system: System, jobs: int, seed: int) -> Evaluation:
        unstable = system.unstable_station()
        if unstable is not None:
            return Evaluation(math.inf, "utilisation law", math.inf, math.nan, unstable_station=unstable)
        self.simulations += 1
        result = queueing.simulate(system, jobs_min=jobs, jobs_max=jobs, seed=seed)
        if not result["complete"]:
            raise KeyboardInterrupt
        return _simulated(result, self.metric)


class _Lost(TypedDict):
    loss_probability: float
    loss_half_width: float | None


def _analytic(prediction: Prediction, metric: Metric) -> Evaluation | None:
    for name in PREFERENCE:
        outcome = prediction["solvers"].get(name)
        answer = outcome["answer"] if outcome else None
        seconds = None if answer is None else _answered(answer, metric)
        if answer is not None and seconds is not None:
            throughput = sum(each["throughput_per_second"] for each in answer["classes"].values())
            lost = _lost(answer, throughput)
            # Percentiles are answered only where they are exact; what is rejected is one of the means.
            exact = answer["means"] == "exact"
            return Evaluation(seconds, name, _mean(answer), throughput, loss_probability=lost, exact=exact)
    return None


def _too_lossy(prediction: Prediction, loss_max: float) -> Evaluation | None:
    """An infinite evaluation if the loss is above its limit; None if it is not, or if no solver knows it."""
    for name in PREFERENCE:
        outcome = prediction["solvers"].get(name)
        answer = outcome["answer"] if outcome else None
        if answer is not None:
            throughput = sum(each["throughput_per_second"] for each in answer["classes"].values())
            lost = _lost(answer, throughput)
            known = Evaluation(math.inf, name, _mean(answer), throughput, loss_probability=lost)
            return known if lost > loss_max else None
    return None


def _lost(answer: SolverAnswer, throughput: float) -> float:
    offered = sum(each["loss"]["offered_per_second"] for each in answer["classes"].values())
    return max(0.0, 1 - throughput / offered) if offered > 0 else 0.0


def _mean(answer: SolverAnswer) -> float:
    """The mean over all classes, weighted by throughput."""
    classes = answer["classes"].values()
    total = sum(each["throughput_per_second"] for each in classes)
    return sum(each["throughput_per_second"] * each["response_time_seconds"]["mean"] for each in classes) / total


def _answered(answer: SolverAnswer, metric: Metric) -> float | None:
    if metric.statistic == "residence":
        return answer["stations"][metric.subject or ""]["residence_time_seconds"]
    if metric.subject is None and len(answer["classes"]) > 1:
        # Means combine linearly; the percentile of a mixture needs the distributions.
        return _mean(answer) if metric.statistic == "mean" else None
    (times,) = (
        each["response_time_seconds"] for name, each in answer["classes"].items() if metric.subject in (None, name)
    )
    # Approximate percentiles take longer than a simulation, which is exact.
    return times.get(metric.statistic) if metric.statistic == "mean" or answer["percentiles"] == "exact" else None


def _simulated(result: Simulation, metric: Metric) -> Evaluation:
    mean, throughput = result["response_time_seconds"]["mean"], result["throughput_per_second"]
    loss = result["loss"]
    lost = _Lost(loss_probability=loss["probability"], loss_half_width=loss["probability_half_width"])
    if metric.statistic == "residence":
        seconds = result["stations"][metric.subject or ""]["residence_time_seconds"]
        return Evaluation(seconds, "simulation", mean, throughput, **lost)
    times: ResponseTime = (
        result["classes"][metric.subject]["response_time_seconds"]
        if metric.subject
        else result["response_time_seconds"]
    )
    value, half_width = times[metric.statistic], times[_HALF_WIDTHS[metric.statistic]]
    if value is None:
        raise CouldNotRun(
            f"no job of the simulation ended: there is no {metric.statistic}",
            "check for times that are longer than the whole simulation",
        )
    return Evaluation(value, "simulation", mean, throughput, half_width, **lost)
