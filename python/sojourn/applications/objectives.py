"""Objectives: conditions on response times and errors, for some endpoints or all, and the load up to which they hold.

`GET /api/*: p95 < 300ms`, `errors < 0.1%`, `p99 < 1s`, `checkout: mean < 200ms`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sojourn.applications.endpoints import Endpoint, matching
from sojourn.applications.steps import Step
from sojourn.applications.summary import Knee, ObjectiveAnswer, StepFigures
from sojourn.failure import CouldNotRun
from sojourn.loading import metrics
from sojourn.results.records import Interval
from sojourn.text import quantity

_FORM = re.compile(
    r"(?:(?P<pattern>.+?)\s*:\s+)?(?P<metric>p\d+(?:\.\d+)?|mean|errors)\s*(?P<operator><=?)\s*(?P<limit>\S+)"
)
CHANCE = 0.975
EXAMPLE = "as in 'GET /api/*: p95 < 300ms' or 'errors < 0.1%'"


@dataclass(frozen=True)
class Objective:
    """A condition on the endpoints of a pattern, or on all."""

    text: str
    metric: str
    limit: float
    names: tuple[str, ...] | None
    """The endpoints; None for all together."""

    @classmethod
    def parse(cls, text: str, endpoints: Sequence[Endpoint]) -> Self:
        """Parses an objective.

        Raises:
            CouldNotRun: it is malformed, or matches no endpoint.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise CouldNotRun(f"--slo {text!r} is none", EXAMPLE)
        names = None
        if found["pattern"]:
            names = tuple(each.name for each in matching(found["pattern"], endpoints))
            if not names:
                known = ", ".join(each.name for each in endpoints)
                raise CouldNotRun(f"--slo {text!r} names no endpoint that is loaded", f"they are: {known}")
        return cls(text.strip(), found["metric"], _limit(found["metric"], found["limit"], text), names)

    def value(self, step: Step) -> float | None:
        """The objective's figure in a step; None without a response."""
        chosen = [each for each in step.endpoints if self.names is None or each.name in self.names]
        if self.metric == "errors":
            due, failed = self._counted(step)
            return failed / due if due else None
        if self.metric == "mean":
            known = [each for each in chosen if each.mean_seconds is not None]
            rate = sum(each.responses_per_second for each in known)
            total = sum((each.mean_seconds or 0.0) * each.responses_per_second for each in known)
            return total / rate if rate else None
        return step.quantile(metrics.percentile(self.metric[1:]), [each.name for each in chosen])

    def is_met(self, step: Step) -> bool:
        """Returns true if the step meets it."""
        if self.metric == "errors":
            due, failed = self._counted(step)
            # As many may fail by chance exactly at the limit.
            return due > 0 and (failed == 0 or _poisson_below(failed, self.limit * due) < CHANCE)
        value = self.value(step)
        return value is not None and value < self.limit

    def _counted(self, step: Step) -> tuple[int, int]:
        chosen = [each for each in step.endpoints if self.names is None or each.name in self.names]
        return sum(each.requests for each in chosen), sum(each.failures + each.unfinished for each in chosen)


@dataclass(frozen=True)
class Tried:
    """A step with the log's mix, with its measurements."""

    step: Step
    figures: StepFigures


def answer(
    objective: Objective, tried: Sequence[Tried], required: float, *, is_complete: bool, knee: Knee | None = None
) -> ObjectiveAnswer:
    """The load up to which the objective holds, and whether it holds at the required one.

    If steps that meet it overlap with steps that miss it, the interval reaches from the lowest load that missed it to
    the highest that met it; otherwise from the highest that met it to the lowest that missed it.

    What ended early shows that an objective is missed, but not that it holds: who knows why the system was not measured
    further. Nor does a load that never came near the required one show anything, unless it is beyond the knee.
    """
    found = _measured(objective, tried, required)
    is_beyond = knee is not None and not knee.is_lower_bound and required > knee.requests_per_second.high
    is_unknown = not tried or (found.is_lower_bound and not found.holds and not is_beyond)
    if is_unknown or (found.holds and not is_complete):
        return found.model_copy(update={"holds": None})
    return found


def _measured(objective: Objective, tried: Sequence[Tried], required: float) -> ObjectiveAnswer:
    met = [each.step.offered_per_second for each in tried if objective.is_met(each.step)]
    missed = [each.step.offered_per_second for each in tried if not objective.is_met(each.step)]
    if not met:
        return ObjectiveAnswer(objective=objective.text, capacity=None, is_lower_bound=False, holds=False)
    highest = max(met)
    if not missed:
        capacity = Interval(estimate=highest, low=highest, high=highest)
        return ObjectiveAnswer(
            objective=objective.text, capacity=capacity, is_lower_bound=True, holds=highest >= required
        )
    # The load with the fewest misclassified steps.
    edges = sorted({*met, *missed})
    wrong = [(sum(each > edge for each in met) + sum(each <= edge for each in missed), edge) for edge in (0.0, *edges)]
    best = min(count for count, _ in wrong)
    passing = max(edge for count, edge in wrong if count == best)
    failing = min((each for each in missed if each > passing), default=passing)
    low, high = sorted((min(min(missed), highest), max(highest, failing)))
    low = min(low, passing) if passing else low
    return ObjectiveAnswer(
        objective=objective.text,
        capacity=Interval(estimate=passing or low, low=low, high=max(high, passing)),
        is_lower_bound=False,
        holds=passing >= required,
    )


def _limit(metric: str, text: str, whole: str) -> float:
    """The limit of a metric, which must be one."""
    try:
        if metric.startswith("p"):
            metrics.percentile(metric[1:])
        return quantity.fraction(text) if metric == "errors" else quantity.seconds(text)
    except CouldNotRun as failure:
        raise CouldNotRun(f"--slo {whole!r}: {failure.what}", failure.hint) from None


def _poisson_below(count: float, mean: float) -> float:
    """The probability of fewer than `count` events where `mean` are expected."""
    from scipy.special import pdtr

    return float(pdtr(count - 1, mean))
