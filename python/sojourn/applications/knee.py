"""Where the knee is: the load of the log's mix that divides the steps that passed from those that failed."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.applications.climb import log_mix
from sojourn.applications.summary import Knee, StepFigures
from sojourn.applications.traffic import Step
from sojourn.results.records import Interval

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
    low = min(knee, *failed)
    return Knee(
        requests_per_second=Interval(estimate=(knee + above) / 2, low=low, high=max(above, *passed)),
        is_lower_bound=False,
        stopped_because=why,
    )
