"""Where the knee is: the largest offered load at which the server still keeps up within the target.

A step is beyond the knee when its p95 time to first byte passes the target, when more than one request in a thousand
fails, or when throughput stops following the offered load (`rising_load.limit_of`). Between the last step within and
the first beyond, the crossing is interpolated for a response-time limit; for a throughput limit the knee is the
throughput that the overloaded server delivers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, Literal

from sojourn.assessment.rising_load import Limit, generator_limited, limit_of, server_saturated
from sojourn.assessment.summary import Knee

Reason = Limit | Literal["server stopped", "not reached"]
Repetition = Sequence[dict[str, Any]]


def locate(repetitions: Sequence[Repetition], target_p95_seconds: float) -> Knee | None:
    """The median knee over repetitions with its extremes; None where no step says anything of the server."""
    found = list(filter(None, (_locate_one(steps, target_p95_seconds) for steps in repetitions if steps)))
    if not found:
        return None
    rates = [rate for rate, _ in found]
    reasons = [reason for _, reason in found]
    # The usual reason names the knee; one repetition cut short by the generator does not make it a lower bound.
    reason = statistics.mode(reasons)
    return Knee(
        requests_per_second=statistics.median(rates),
        low=min(rates),
        high=max(rates),
        per_repetition=rates,
        reason=reason,
        is_lower_bound=reason in ("generator", "not reached"),
    )


def _locate_one(steps: Repetition, target: float) -> tuple[float, Reason] | None:
    # A step that fails below one that passes was disturbed, not overloaded: the backlog it left has gone again.
    passed = [index for index, step in enumerate(steps) if limit_of(step, target) is None]
    last = passed[-1] if passed else -1
    within = steps[last]["offered_requests_per_second"] if passed else 0.0
    beyond = steps[last + 1 :]
    if not beyond:
        # Where the generator was already at its limit, more load would not have told more.
        return within, "generator" if generator_limited(steps[last]) else "not reached"
    limit = limit_of(beyond[0], target)
    assert limit is not None
    if limit == "generator":
        # What was answered beyond was answered late, if by the generator's doing: of the server it says no more.
        return (within, limit) if passed else None
    reached = statistics.median(
        min(step["requests_per_second"], step["offered_requests_per_second"]) for step in beyond
    )
    if limit == "throughput" and server_saturated(beyond[0]):
        # It may be less than a step within carried; once disturbed, that step would not have: overload is slower.
        return reached, limit
    if limit == "time to first byte" and passed:
        return max(within, min(reached, _crossing(steps[last], beyond[0], target))), limit
    return max(within, reached), limit


def _crossing(within: dict[str, Any], beyond: dict[str, Any], target: float) -> float:
    # Response time grows by factors near the knee: interpolate its logarithm.
    low, high = (math.log(step["time_to_first_byte_intended_seconds"]["p95"]) for step in (within, beyond))
    share = (math.log(target) - low) / (high - low)
    start, end = (float(step["offered_requests_per_second"]) for step in (within, beyond))
    return start + share * (end - start)
