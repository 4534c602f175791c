"""Demands and r of one station by maximum likelihood on the response times of all its requests.

Under limited processor sharing the times determine the demands: requests are admitted in order while fewer than r are
in service, and those in service share the servers equally, so the work each received until its end is its demand. With
the demands x_i found for a candidate r, and f the law fitted to them, the likelihood of the end times d_i is

    sum_i log f(x_i) + sum_i log s(d_i),     s(d) = min(c, n) / n, each one's share when n were in service,

the second sum being the Jacobian of the map from ends to demands: in order of ends it is triangular, with the share
just before an end on its diagonal. FIFO is r = c, processor sharing an r that was never reached. Recorded starts of
service are better than any likelihood: r is then seen, and no candidate has to be tried.

The table must contain every request of the span, because a missing one delayed others all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn import _native, queueing
from sojourn.calibration.estimate import (
    BOOTSTRAP_SAMPLES,
    BoolArray,
    FloatArray,
    HeldOut,
    held_out,
    percentile_interval,
)
from sojourn.calibration.stages import UNSEEN, Stages, followed
from sojourn.failure import CouldNotRun
from sojourn.results.records import Interval
from sojourn.text.toml import Table

REQUESTS_MIN = 200
REQUESTS_MAX = 200_000
HELD_OUT_FRACTION = 0.2
REPLAYS = 10
"""Simulations of the held-out requests, each with newly drawn demands."""
CONSTANT_DEVIATION = 1e-3
"""Demands that deviate by less than this share of their mean count as constant."""
FITTED_SUPPORT = ("shifted-log-normal", "bounded-pareto")
UNDECIDED = 5.41
"""Candidates whose log likelihoods differ by less are equivalent: half the 99.9 % point of chi-squared (1 d.f.)."""
JITTERED_MAX = 0.05
"""The largest share of requests whose contradiction of a limit may be jitter."""
JITTERED_BELOW_MIN = 20
"""The fewest requests that must contradict the next smaller limit to confirm one."""
JITTERED_DROP = 5.0
"""A real limit is contradicted by this factor fewer requests than the next smaller one."""
JITTERED_BEND = 2.5
"""The next smaller limit must also be contradicted by this factor more requests than the one before."""
JITTERED_TRIED = 3
"""The number of limits tried, from the first that few requests contradict."""
JITTERED_LOWEST = 0.2
"""The share of requests that contradicts the true limit under jitter as large as the demands."""
EARLY_FRACTION_MAX = 0.01
"""If a larger share of requests starts before earlier ones, admission is not first come, first served."""


@dataclass(frozen=True)
class Requests:
    """Every request of a span, in order of acceptance; seconds, shape (requests,)."""

    accepted: FloatArray
    ended: FloatArray
    started: FloatArray | None
    classes: Sequence[str]
    """The class of each request; shape (requests,)."""


@dataclass(frozen=True)
class ResponseTimesFit:
    """The station and the distribution of its demand by class."""

    r: int | None
    """The most requests in service at once; None if no limit was reached: plain processor sharing."""
    r_log_likelihoods: dict[str, float]
    """By candidate, relative to the best; empty if starts were recorded."""
    demands_seconds: dict[str, Interval]
    """Mean demand by class."""
    laws: dict[str, Table]
    """By class: the best of `queueing.fit_laws`, or `deterministic`."""
    demands: FloatArray
    """The work each request received, in seconds; shape (requests,)."""
    held_out: tuple[HeldOut, ...]
    warnings: tuple[str, ...]


def fit(requests: Requests, servers: int, seed: int, stages: Stages = UNSEEN) -> ResponseTimesFit:
    """Fits r and the demands; intervals are percentile bootstrap over requests (`BOOTSTRAP_SAMPLES` draws)."""
    count = len(requests.accepted)
    if not REQUESTS_MIN <= count <= REQUESTS_MAX:
        raise CouldNotRun(
            f"{count:,} requests: between {REQUESTS_MIN:,} and {REQUESTS_MAX:,} can be fitted",
            "give the records of one steady period",
        )
    backwards = np.flatnonzero(requests.ended <= requests.accepted)
    if len(backwards):
        place = backwards[0]
        raise CouldNotRun(
            f"a request ended at {requests.ended[place]:.9g} s, accepted at {requests.accepted[place]:.9g} s",
            "the times must come from one clock",
        )
    warnings: list[str] = []
    unknown = np.zeros(count, dtype=bool)
    if requests.started is not None:
        limit, likelihoods, received = _observed_limit(requests, servers, warnings)
    else:
        limit, likelihoods, received = _likeliest_limit(requests, servers, stages)
        stages.begin("jitter")
        contradictions = _Contradictions(requests, servers)
        jittered = _jittered_limit(contradictions, limit, warnings)
        if jittered is None and limit is not None:
            _doubt_limit(contradictions, limit, warnings)
        if jittered is not None:
            limit = jittered
            starts, gone = _starts(requests.accepted, requests.ended, limit)
            received = _shared(starts, requests.ended, servers, requests.accepted)[0]
            # Their work is included in that of earlier requests.
            received[gone] = 0.0
            unknown = gone
    if np.any(received[~unknown] <= 0):
        raise CouldNotRun(
            "some requests ended without any service",
            "the times must come from one clock and one station, and no request may be missing",
        )
    names = np.array(requests.classes)
    random = np.random.default_rng(seed)
    own = {name: received[names == name] for name in sorted(set(requests.classes))}
    samples: dict[str, list[float]] = {name: [] for name in own}
    draws = [name for name in own for _ in range(BOOTSTRAP_SAMPLES)]
    for name in followed(stages, "bootstrap", draws, len(draws)):
        samples[name].append(float(random.choice(own[name], len(own[name])).mean()))
    stages.begin("laws")
    demands = {name: percentile_interval(float(each.mean()), np.array(samples[name])) for name, each in own.items()}
    laws = {name: _law(received[(names == name) & ~unknown], name) for name in own}
    return ResponseTimesFit(
        r=limit,
        r_log_likelihoods=likelihoods,
        demands_seconds=demands,
        laws=laws,
        demands=received,
        held_out=_held_out(requests, received, limit, servers, random, stages),
        warnings=tuple(warnings),
    )


def _observed_limit(
    requests: Requests, servers: int, warnings: list[str]
) -> tuple[int | None, dict[str, float], FloatArray]:
    assert requests.started is not None
    received, in_service, waiting = _shared(requests.started, requests.ended, servers, requests.accepted)
    late = np.diff(requests.started) < 0
    if late.mean() > EARLY_FRACTION_MAX:
        warnings.append(
            f"{late.mean():.1%} of the requests started before one accepted earlier: the queue is not FIFO, and "
            "r means less than it says."
        )
    # While requests wait, all places are taken, so r is the number in service.
    held = in_service[waiting > 0]
    if len(held) == 0:
        return None, {}, received
    values, times = np.unique(held, return_counts=True)
    limit = int(values[times.argmax()])
    others = 1.0 - times.max() / times.sum()
    if others > 0.05:
        warnings.append(
            f"Requests waited while other than {limit} were in service in {others:.0%} of the observations: r was "
            "not constant, or the start of service was noted late."
        )
    return limit, {}, received


def _likeliest_limit(
    requests: Requests, servers: int, stages: Stages
) -> tuple[int | None, dict[str, float], FloatArray]:
    most = _most_present(requests)
    tried: dict[int, tuple[float, FloatArray]] = {}
    stages.begin("r")

    def likelihood(limit: int) -> float:
        if limit not in tried:
            tried[limit] = _log_likelihood(requests, servers, limit)
            stages.update(len(tried), max(expected, len(tried)))
        return tried[limit][0]

    # Doubling finds the neighbourhood, bisection on the integers the place: the likelihood has one hill in r.
    candidates = [servers]
    while candidates[-1] < most:
        candidates.append(min(2 * candidates[-1], most))
    expected = len(candidates) + _narrowing(most // 2)
    best = max(candidates, key=likelihood)
    place = candidates.index(best)
    low, high = candidates[max(0, place - 1)], candidates[min(place + 1, len(candidates) - 1)]
    expected = len(tried) + _narrowing(high - low)
    while high - low > 2:
        first, second = low + (high - low) // 3, high - (high - low) // 3
        low, high = (low, second) if likelihood(first) >= likelihood(second) else (first, high)
    best = max([*tried, *range(low, high + 1)], key=likelihood)
    highest, received = tried[best]
    if not np.isfinite(highest):
        raise CouldNotRun(
            "no limit r explains the order in which the requests ended",
            "the times must come from one clock and one station, and no request may be missing",
        )
    relative = {str(limit): value - highest for limit, (value, _) in sorted(tried.items()) if np.isfinite(value)}
    # Processor sharing is the simplest candidate that is equivalent to the best.
    if highest - likelihood(most) < UNDECIDED:
        return None, relative, tried[most][1]
    return best, relative, received


def _narrowing(width: int) -> int:
    """About how many further limits are tried to find the best one within a range."""
    thirds = np.log(max(1.0, width / 2)) / np.log(1.5)
    return 3 + 2 * int(np.ceil(thirds))


def _most_present(requests: Requests) -> int:
    times = np.concatenate([requests.accepted, requests.ended])
    steps = np.concatenate([np.ones(len(requests.accepted)), -np.ones(len(requests.ended))])
    return int(np.cumsum(steps[np.lexsort((steps, times))]).max())


def _log_likelihood(requests: Requests, servers: int, limit: int) -> tuple[float, FloatArray]:
    starts, gone = _starts(requests.accepted, requests.ended, limit)
    if gone.any():
        return -np.inf, np.empty(0)
    received, in_service, _ = _shared(starts, requests.ended, servers, requests.accepted)
    if np.any(received <= 0):
        return -np.inf, received
    names = np.array(requests.classes)
    laws = sum(_law(received[names == name], name)["log_likelihood"] for name in set(requests.classes))
    return float(laws + np.sum(np.log(np.minimum(servers, in_service) / in_service))), received


class _Contradictions:
    """The share of the requests that ended before a limit would have let them start; it falls with the limit."""

    def __init__(self, requests: Requests, servers: int) -> None:
        self.requests = requests
        self.servers = servers
        self._shares: dict[int, float] = {}

    def share(self, limit: int) -> float:
        if limit < self.servers:
            return 1.0
        if limit not in self._shares:
            gone = _starts(self.requests.accepted, self.requests.ended, limit)[1]
            self._shares[limit] = float(np.mean(gone))
        return self._shares[limit]

    def first_below(self, share: float, most: int) -> int:
        """The smallest limit up to `most` that no larger share contradicts."""
        low, high = self.servers - 1, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.share(middle) > share else (low, middle)
        return high


def _jittered_limit(contradictions: _Contradictions, limit: int | None, warnings: list[str]) -> int | None:
    """The limit that jittered times hide, if there is one below that which the times say to the letter.

    A single request that seems to end before it could start rules a limit out. Contradictions of the true limit come
    from jitter and are few; just below it they are suddenly many, whereas without a limit they vanish slowly.
    """
    requests, servers, share = contradictions.requests, contradictions.servers, contradictions.share
    count = len(requests.accepted)
    most = _most_present(requests) if limit is None else limit
    first = contradictions.first_below(JITTERED_MAX, most)
    # FIFO is the smallest limit, so nothing below can confirm it.
    for candidate in range(max(first, servers + 1), min(first + JITTERED_TRIED, most)):
        here, below = share(candidate), share(candidate - 1)
        if below * count < JITTERED_BELOW_MIN:
            break
        drop = below / max(here, 1.0 / count)
        if drop >= JITTERED_DROP and drop >= JITTERED_BEND * share(candidate - 2) / below:
            said = "no limit" if limit is None else f"r = {limit}"
            warnings.append(
                f"{here:.1%} of the requests ended before r = {candidate} would have let them start, {below:.0%} with "
                f"r = {candidate - 1}: the times are taken as jittered, as by a network; to the letter they say {said}."
            )
            return candidate
    return None


def _doubt_limit(contradictions: _Contradictions, limit: int, warnings: list[str]) -> None:
    """Says so where few requests rule the next smaller limit out: jitter alone does that."""
    below = contradictions.share(limit - 1)
    lowest = contradictions.first_below(JITTERED_LOWEST, limit)
    if below <= JITTERED_MAX and lowest < limit:
        warnings.append(
            f"r = {limit} rests on {below:.1%} of the requests, which rule r = {limit - 1} out. If a network or a busy "
            f"clock jittered the times, r may be as small as {lowest}: record started_at_seconds at the server."
        )


def _starts(accepted: FloatArray, ended: FloatArray, limit: int) -> tuple[FloatArray, BoolArray]:
    """The start of each request under a limit, and the requests that ended before: those start at their end."""
    starts = np.full(len(accepted), np.nan)
    gone = np.zeros(len(accepted), dtype=bool)
    waiting: deque[int] = deque()
    serving, arrival = 0, 0
    for leaving in np.argsort(ended, kind="stable"):
        now = ended[leaving]
        while arrival < len(accepted) and accepted[arrival] <= now:
            if serving < limit:
                starts[arrival], serving = accepted[arrival], serving + 1
            else:
                waiting.append(arrival)
            arrival += 1
        if np.isnan(starts[leaving]):
            starts[leaving], gone[leaving] = now, True
            continue
        serving -= 1
        while waiting and serving < limit:
            first = waiting.popleft()
            if not gone[first]:
                starts[first], serving = now, serving + 1
    return starts, gone


def _shared(
    starts: FloatArray, ended: FloatArray, servers: int, accepted: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The work received by each request, and the numbers in service and waiting just before its end."""
    count = len(starts)
    times = np.concatenate([accepted, starts, ended])
    kinds = np.repeat([0, 1, 2], count)
    # Events at the same instant: acceptances, then ends, then the starts they allow.
    order = np.lexsort((np.array([0, 2, 1])[kinds], times))
    present = np.cumsum(np.where(kinds[order] == 1, 1, np.where(kinds[order] == 2, -1, 0)))
    queued = np.cumsum(np.where(kinds[order] == 0, 1, np.where(kinds[order] == 1, -1, 0)))
    before = np.concatenate([[0], present[:-1]])
    share = np.where(before > 0, np.minimum(servers, before) / np.maximum(before, 1), 0.0)
    virtual = np.empty(3 * count)
    virtual[order] = np.cumsum(share * np.diff(times[order], prepend=times[order][0]))
    serving, waiting = np.empty(3 * count), np.empty(3 * count)
    serving[order], waiting[order] = before, np.concatenate([[0], queued[:-1]])
    return virtual[2 * count :] - virtual[count : 2 * count], serving[2 * count :], waiting[2 * count :]


def _law(demands: FloatArray, name: str) -> Table:
    """The best law according to `fit_laws`, or the constant, which that function does not include."""
    mean, deviation = float(demands.mean()), float(demands.std())
    if deviation < CONSTANT_DEVIATION * mean:
        # The density of a narrow normal law around the constant, for the comparison with other limits.
        density = -0.5 - np.log(max(deviation, CONSTANT_DEVIATION**2 * mean) * np.sqrt(2 * np.pi))
        likelihood = len(demands) * float(density)
        return {"family": "deterministic", "parameters": {"mean": mean}, "scv": 0.0, "log_likelihood": likelihood}
    try:
        fits = queueing.fit_laws(demands)
    except ValueError as error:
        raise CouldNotRun(f"class {name}: {error}", "leave the class out, or record more of it") from error
    # A law with a fitted support has a likelihood that would make the smallest demand choose r.
    free = max(each["log_likelihood"] for each in fits if each["family"] not in FITTED_SUPPORT)
    return {**fits[0], "log_likelihood": free}


def _held_out(
    requests: Requests,
    received: FloatArray,
    limit: int | None,
    servers: int,
    random: np.random.Generator,
    stages: Stages,
) -> tuple[HeldOut, ...]:
    # Predicts the last part from the rest: its requests arrive as recorded, with demands drawn from those of their
    # class in the first part.
    cut = int(len(received) * (1.0 - HELD_OUT_FRACTION))
    names = np.array(requests.classes)
    measured = (requests.ended - requests.accepted)[cut:]
    known = {name: received[:cut][names[:cut] == name] for name in set(requests.classes)}
    if any(len(demands) == 0 for demands in known.values()):
        return ()
    means, tails = [], []
    for _ in followed(stages, "held out", range(REPLAYS), REPLAYS):
        drawn = np.empty(len(measured))
        for name, demands in known.items():
            own = names[cut:] == name
            drawn[own] = random.choice(demands, int(own.sum()))
        times = _native.simulate_station(requests.accepted[cut:], drawn, limit, servers)
        means.append(float(times.mean()))
        tails.append(float(np.quantile(times, 0.95)))
    method = f"the last {HELD_OUT_FRACTION:.0%} of the requests, simulated {REPLAYS} times"
    return (
        held_out("response_time_mean", method, np.array([abs(np.mean(means) / measured.mean() - 1.0)])),
        held_out("response_time_p95", method, np.array([abs(np.mean(tails) / np.quantile(measured, 0.95) - 1.0)])),
    )
