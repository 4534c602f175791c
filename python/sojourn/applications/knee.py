"""Where the knee is: the load of the log's mix that divides the steps that passed from those that failed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sojourn.applications.climb import log_mix
from sojourn.applications.summary import Knee, StepFigures
from sojourn.applications.traffic import Step
from sojourn.results.records import Interval

SHORT_STEPS = 0.9
"""Of the highest load that passed: in a short step a queue may grow without the step failing for it."""
TOP = 0.99
"""Of the highest load: steps there are at the same load."""


def locate(steps: Sequence[tuple[Step, StepFigures]], explored: float, why: str) -> Knee:
    """The knee, from all steps with the log's mix.

    Args:
        steps: with whatever mix.
        explored: a first figure, for where no step passed.
        why: what ended the rise.
    """
    tried = [figures for _, figures in log_mix(steps)]
    passed = [each.offered_requests_per_second for each in tried if each.failed_because is None]
    failed = [each.offered_requests_per_second for each in tried if each.failed_because is not None]
    if not passed:
        return Knee(
            requests_per_second=Interval(estimate=explored, low=0.0, high=explored),
            is_lower_bound=False,
            stopped_because=why,
        )
    highest = max([*passed, *failed])
    top = [each for each in tried if each.offered_requests_per_second >= TOP * highest]
    if sum(each.failed_because is None for each in top) * 2 > len(top):
        at_least = Interval(estimate=highest, low=highest, high=highest)
        return Knee(requests_per_second=at_least, is_lower_bound=True, stopped_because=why)
    # The load with the fewest steps on its wrong side; where they overlap, the overlap is the interval.
    edges = sorted(passed)
    wrong = {edge: sum(each > edge for each in passed) + sum(each <= edge for each in failed) for edge in edges}
    knee = max(edges, key=lambda edge: (-wrong[edge], edge))
    above = min((each for each in failed if each > knee), default=knee)
    middle = (knee + above) / 2
    # Between the two it is what a step beyond the knee delivered, not the middle of steps far apart.
    delivered = max(sustained(each) for each in tried if each.failed_because is not None)
    estimate = max(SHORT_STEPS * knee, min(middle, delivered))
    low, high = min(knee, *failed, estimate), max(above, *passed)
    if delivered < middle:
        high = max(*passed, estimate)
    return Knee(
        requests_per_second=Interval(estimate=estimate, low=low, high=high),
        is_lower_bound=False,
        stopped_because=why,
    )


def sustained(step: StepFigures) -> float:
    """The load of the same mix that a step beyond the knee was answered at, by the median of its endpoints."""
    shares = [
        each.requests_per_second / each.offered_requests_per_second
        for each in step.endpoints
        if each.offered_requests_per_second > 0
    ]
    return step.offered_requests_per_second * statistics.median(shares) if shares else step.requests_per_second
