"""Locates the knee: the load of the log's mix that separates passed steps from failed ones."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sojourn.applications.climb import log_mix
from sojourn.applications.steps import Step
from sojourn.applications.summary import Knee, StepFigures
from sojourn.results.records import Interval

SHORT_STEPS = 0.9
"""The lower bound is this share of the highest load that passed: in a short step a queue may grow without a failure."""
TOP = 0.99
"""Steps within this share of the highest load count as the same load."""


def locate(steps: Sequence[tuple[Step, StepFigures]], explored: float, why: str) -> Knee:
    """Locates the knee from all steps with the log's mix.

    Args:
        steps: with whatever mix.
        explored: a first figure, for where no step passed.
        why: what ended the rise.
    """
    mixed = [figures for _, figures in log_mix(steps)]
    tried = [each for each in mixed if not each.failed_by_generator]
    limited = [each for each in mixed if each.failed_by_generator]
    passed = [each.offered_requests_per_second for each in tried if each.failed_because is None]
    failed = [each.offered_requests_per_second for each in tried if each.failed_because is not None]
    if not passed:
        return Knee(
            requests_per_second=Interval(estimate=explored, low=0.0, high=explored),
            is_lower_bound=False,
            stopped_because=why,
        )
    highest = max([*passed, *failed])
    if limited and not failed:
        at_least = Interval(estimate=highest, low=highest, high=highest)
        because = f"the generator was the limit: {limited[-1].generator_limited}"
        return Knee(requests_per_second=at_least, is_lower_bound=True, stopped_because=because)
    top = [each for each in tried if each.offered_requests_per_second >= TOP * highest]
    if sum(each.failed_because is None for each in top) * 2 > len(top):
        at_least = Interval(estimate=highest, low=highest, high=highest)
        return Knee(requests_per_second=at_least, is_lower_bound=True, stopped_because=why)
    # The load with the fewest misclassified steps; where passed and failed steps overlap, the overlap is the interval.
    edges = sorted(passed)
    wrong = {edge: sum(each > edge for each in passed) + sum(each <= edge for each in failed) for edge in edges}
    knee = max(edges, key=lambda edge: (-wrong[edge], edge))
    above = min((each for each in failed if each > knee), default=knee)
    middle = (knee + above) / 2
    # Between the two, what steps beyond the knee sustain is a better estimate than the midpoint of distant steps.
    saturated = [each for each in tried if each.failed_because is not None]
    beyond = [each for each in saturated if each.offered_requests_per_second > knee]
    delivered = statistics.median(sustained(each) for each in beyond or saturated)
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
    """The equivalent load of the log's mix that a step beyond the knee sustained, as the median over endpoints."""
    shares = [
        each.requests_per_second / each.offered_requests_per_second
        for each in step.endpoints
        if each.offered_requests_per_second > 0
    ]
    return step.offered_requests_per_second * statistics.median(shares) if shares else step.requests_per_second
