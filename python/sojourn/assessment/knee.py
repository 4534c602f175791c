"""Locates the knee: the largest offered load that the server sustains within the target.

A step is beyond the knee when its p95 time to first byte passes the target, when more than one request in a thousand
fails, or when throughput stops following the offered load. The engine judges each step and says why (`limit`). Between
the last step within and the first beyond, the crossing is interpolated for a response-time limit. For a throughput
limit the knee is the highest throughput: what the overloaded server delivers or, where overload slows it down, what it
carried before; what it still delivers then is the lower end. Where another limit left no step within, the knee is 0. A
generator that reaches its limit first leaves a lower bound, unless the server's core was nearly full too: what was left
of it is then the upper end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sojourn.assessment.measurement import observed
from sojourn.assessment.rising_load import generator_limited, offered, others_fraction
from sojourn.assessment.summary import Knee
from sojourn.loading.record import Step

Reason = Literal["throughput", "time to first byte", "errors", "generator", "server stopped", "not reached"]
Repetition = Sequence[Step]


@dataclass(frozen=True)
class _Found:
    """The knee of one repetition, requests/s."""

    rate: float
    low: float
    high: float
    reason: Reason
    others_fraction: float | None = None
    is_lower_bound: bool = False


NEARLY_BUSY = 0.85
"""The share of the server's core above which the rest bounds its possible gain."""


def locate(repetitions: Sequence[Repetition], target_p95_seconds: float) -> Knee | None:
    """The median knee over repetitions with its interval; None where no step describes the server."""
    found = list(filter(None, (_locate_one(steps, target_p95_seconds) for steps in repetitions if steps)))
    if not found:
        return None
    # The most frequent reason names the knee; a single repetition limited by the generator does not make it a lower
    # bound.
    reason = statistics.mode(each.reason for each in found)
    others = [each.others_fraction for each in found if each.others_fraction is not None]
    return Knee(
        requests_per_second=statistics.median(each.rate for each in found),
        low=min(each.low for each in found),
        high=max(each.high for each in found),
        per_repetition=[each.rate for each in found],
        others_fraction=statistics.median(others) if others else None,
        reason=reason,
        is_lower_bound=statistics.mode(each.is_lower_bound for each in found if each.reason == reason),
    )


def _locate_one(steps: Repetition, target: float) -> _Found | None:
    # A failed step below a passed one was disturbed rather than overloaded, since its backlog vanished.
    passed = [index for index, step in enumerate(steps) if step.limit is None]
    last = passed[-1] if passed else -1
    within = offered(steps[last]) if passed else 0.0
    beyond = steps[last + 1 :]
    if not beyond:
        if generator_limited(steps[last]):
            # A higher load would not have shown more.
            return _until_generator(steps[last])
        return _Found(within, within, within, "not reached", others_fraction(steps[last]), is_lower_bound=True)
    limit = beyond[0].limit
    assert limit is not None, "the steps within the target are below"
    if limit == "generator":
        # Responses beyond may be late because of the generator, so they say no more about the server.
        return _until_generator(steps[last]) if passed else None
    if not passed and limit in ("time to first byte", "errors"):
        # What such a server answers is no rate within the target.
        return _Found(0.0, 0.0, offered(beyond[0]), limit, others_fraction(beyond[0]))
    reached = statistics.median(min(step.requests_per_second or 0.0, offered(step)) for step in beyond)
    low = rate = high = max(within, reached)
    if limit == "throughput":
        carried = min(steps[last].requests_per_second or 0.0, within) if passed else 0.0
        if beyond[0].server_saturated:
            low, rate = reached, max(reached, carried)
        if reached < carried:
            # Overload slows the server down, so its peak lies between the two steps.
            high = offered(beyond[0])
    elif limit == "time to first byte":
        rate = max(within, min(reached, _crossing(steps[last], beyond[0], target)))
        low, high = within, offered(beyond[0])
    return _Found(rate, low, max(rate, high), limit, others_fraction(beyond[0]))


def _until_generator(step: Step) -> _Found:
    """The knee's bounds if the generator ended the climb, from the last step within the target."""
    rate, busy = offered(step), observed(step, "core_busy_fraction") or 0.0
    if busy < NEARLY_BUSY:
        return _Found(rate, rate, rate, "generator", others_fraction(step), is_lower_bound=True)
    return _Found(rate, rate, rate / min(1.0, busy), "generator", others_fraction(step))


def _crossing(within: Step, beyond: Step, target: float) -> float:
    start, end = (offered(step) for step in (within, beyond))
    low, high = (step.time_to_first_byte_intended_seconds.p95 for step in (within, beyond))
    if low is None or high is None or high <= target:
        # The p95 covers responses only; the step exceeds the target because of missing ones.
        return start
    # Response time grows exponentially near the knee, so its logarithm is interpolated.
    return start + (math.log(target / low) / math.log(high / low)) * (end - start)
