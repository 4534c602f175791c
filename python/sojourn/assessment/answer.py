"""The answer: the largest rate within the target, the bottleneck, the next one, and what doubling each resource gives.

Every resource alone would bound the system at some rate; the smallest bound is the bottleneck. The server's CPU is
bounded by the measured knee. The access line is computed, not measured: an M/G/1 processor-sharing station (thesis,
chapter 4) whose p95 transfer time, found by simulation, must stay within the target. Helpers are bounded by the rate
at which the busy time they reported would fill all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sojourn import _native
from sojourn.assessment.steps import OTHERS_FRACTION_MAX
from sojourn.assessment.summary import Answer, Doubling, Knee, Model, Resource, Step
from sojourn.text import format

LINE_JOBS = 100_000
BISECTIONS = 20
HELPERS_UTILISATION_MIN = 0.01
"""Helpers that are busy for less than this at the CPU's limit foretell nothing: extrapolation would be all there is."""

ResourceName = Literal["server CPU", "access line", "helpers"]


@dataclass(frozen=True)
class Line:
    """The access line and what crosses it."""

    bits_per_second: float
    transfer_bytes: NDArray[np.float64]
    """Bytes of a response per request of the log, heads included; shape (requests,)."""

    def utilisation(self, rate: float) -> float:
        return rate * 8 * float(self.transfer_bytes.mean()) / self.bits_per_second

    def largest_rate(self, target_p95_seconds: float, seed: int) -> float:
        """The largest request rate at which the p95 transfer time stays within the target; 0 if none does."""
        random = np.random.default_rng(seed)
        sample = random.choice(self.transfer_bytes, LINE_JOBS)
        # The sample is made to have the log's mean, so that it saturates the line where the log does.
        transfers = 8 * sample / self.bits_per_second * (self.transfer_bytes.mean() / sample.mean())
        if np.quantile(transfers, 0.95) > target_p95_seconds:
            return 0.0
        gaps = np.cumsum(random.exponential(size=LINE_JOBS))

        def within(rate: float) -> bool:
            times = _native.simulate_station(gaps / rate, transfers, None)
            return float(np.quantile(times[LINE_JOBS // 10 :], 0.95)) <= target_p95_seconds

        return _bisect(within, 1.0 / float(transfers.mean()))


@dataclass(frozen=True)
class Helpers:
    """What the server's helpers did during the measurement."""

    count: int
    busy_seconds_per_request: float

    def utilisation(self, rate: float) -> float:
        return rate * self.busy_seconds_per_request / self.count


@dataclass(frozen=True)
class LogRates:
    """Average and peak request rates of the log, in requests per second."""

    average: float
    peak: float


def answer(
    knee: Knee,
    steps: Sequence[Step],
    model: Model | None,
    line: Line | None,
    helpers: Helpers | None,
    rates: LogRates,
    target_p95_seconds: float,
    seed: int,
) -> Answer:
    """Puts the bounds of all resources together."""
    measured = knee.requests_per_second
    limits: dict[ResourceName, float] = {}
    if not knee.is_lower_bound:
        limits["server CPU"] = measured
    elif model is not None:
        limits["server CPU"] = max(measured, model.capacity_requests_per_second)
    if line is not None:
        limits["access line"] = line.largest_rate(target_p95_seconds, seed)
    if helpers is not None and helpers.utilisation(limits.get("server CPU", measured)) >= HELPERS_UTILISATION_MIN:
        limits["helpers"] = helpers.count / helpers.busy_seconds_per_request
    largest = min([measured, *limits.values()])
    is_lower_bound = knee.is_lower_bound and largest == measured
    # The bottleneck stays unknown if the server was not saturated and no model describes it.
    is_known = "server CPU" in limits or not is_lower_bound
    ranked: list[ResourceName] = sorted(limits, key=lambda name: limits[name]) if is_known else []
    resources = [
        _server_cpu(limits, steps, largest, knee),
        _access_line(limits, line, largest),
        _helpers(limits, helpers, largest),
    ]
    known: dict[ResourceName, float] = {"server CPU": measured, **limits}
    doubling = [_doubling(name, known, min(limits.values())) for name in ranked]
    result = Answer(
        largest_rate_requests_per_second=largest,
        is_lower_bound=is_lower_bound,
        bottleneck=ranked[0] if ranked else None,
        next_bottleneck=ranked[1] if len(ranked) > 1 else None,
        resources=resources,
        doubling=doubling,
        log_average_requests_per_second=rates.average,
        log_peak_requests_per_second=rates.peak,
        headroom_over_log_peak=largest / rates.peak,
        sentences=[],
    )
    return result.model_copy(update={"sentences": _sentences(result, knee, target_p95_seconds)})


def _server_cpu(limits: dict[ResourceName, float], steps: Sequence[Step], rate: float, knee: Knee) -> Resource:
    utilisation, evidence = _interpolated_busy(steps, rate)
    if "server CPU" not in limits:
        evidence += "; its limit is not known, for the measurement ended before the server did"
    elif knee.is_lower_bound:
        evidence += "; its limit is the model's, for the measurement ended before the server did"
    return Resource(
        name="server CPU",
        limit_requests_per_second=limits.get("server CPU"),
        utilisation=utilisation,
        evidence=evidence,
    )


def _interpolated_busy(steps: Sequence[Step], rate: float) -> tuple[float | None, str]:
    busy = [
        (step.offered_requests_per_second, step.server_core_busy_fraction or step.server_cpu_fraction) for step in steps
    ]
    known = [(offered, fraction.median) for offered, fraction in busy if fraction is not None]
    if not known:
        return None, "unavailable: the server's processes are not on this machine"
    offered, fractions = zip(*known, strict=True)
    # Below the lowest step utilisation is in proportion to the rate.
    utilisation = float(np.interp(rate, [0.0, *offered], [0.0, *fractions]))
    return utilisation, f"measured: busy share of the server's core, interpolated between steps{_of_others(steps)}"


def _of_others(steps: Sequence[Step]) -> str:
    shares = [
        step.server_core_busy_fraction.median - step.server_cpu_fraction.median
        for step in steps
        if step.server_core_busy_fraction is not None and step.server_cpu_fraction is not None
    ]
    if not shares or fmean(shares) <= OTHERS_FRACTION_MAX:
        return ""
    return f"; other processes had {format.percent(fmean(shares))} of the core"


def _access_line(limits: dict[ResourceName, float], line: Line | None, rate: float) -> Resource:
    if line is None:
        return Resource(
            name="access line",
            limit_requests_per_second=None,
            utilisation=None,
            evidence="not asked for: give --access-line, for example 100Mbit/s",
        )
    return Resource(
        name="access line",
        limit_requests_per_second=limits["access line"],
        utilisation=line.utilisation(rate),
        evidence="computed: M/G/1 processor sharing of the log's transfer sizes, 95 % of them within the target; "
        "TCP and IP headers not counted",
    )


def _helpers(limits: dict[ResourceName, float], helpers: Helpers | None, rate: float) -> Resource:
    if helpers is None:
        return Resource(
            name="helpers",
            limit_requests_per_second=None,
            utilisation=None,
            evidence="this server has no helpers, or does not say what they do",
        )
    return Resource(
        name="helpers",
        limit_requests_per_second=limits.get("helpers"),
        utilisation=helpers.utilisation(rate),
        evidence=f"measured: busy time reported by {helpers.count} helpers over all requests of the rising load"
        + ("" if "helpers" in limits else "; used too little to tell where they would be the limit"),
    )


def _doubling(name: ResourceName, limits: dict[ResourceName, float], rate: float) -> Doubling:
    doubled = min(2 * limit if other == name else limit for other, limit in limits.items())
    return Doubling(resource=name, requests_per_second=doubled, gain_fraction=doubled / rate - 1.0 if rate > 0 else 0.0)


def _sentences(answer: Answer, knee: Knee, target: float) -> list[str]:
    at_least = "at least " if answer.is_lower_bound else ""
    sentences = [
        f"This site can take {at_least}{format.rate(answer.largest_rate_requests_per_second)} on this machine "
        f"with the p95 time to first byte within {target * 1000:g} ms: {format.number(answer.headroom_over_log_peak)} "
        f"times the log's busiest minute ({format.rate(answer.log_peak_requests_per_second)})."
    ]
    if answer.largest_rate_requests_per_second == 0:
        sentences = [
            f"No rate keeps the p95 within {target * 1000:g} ms: the {answer.bottleneck} alone takes longer than that."
        ]
    if answer.is_lower_bound:
        why = {"generator": "the load generator was the limit", "not reached": "no step failed"}
        sentences.append(f"This is a lower bound: {why.get(knee.reason, knee.reason)}, not the server.")
    if answer.bottleneck is None:
        sentences.append("The bottleneck is not known: the load did not saturate the server.")
    else:
        sentences.append(f"The {answer.bottleneck} saturates first{_next(answer)}.")
    sentences += [
        f"Twice as much {doubling.resource} gives {format.rate(doubling.requests_per_second)} "
        f"({doubling.gain_fraction:+.0%})."
        for doubling in answer.doubling
    ]
    return sentences


def _next(answer: Answer) -> str:
    if answer.next_bottleneck is None:
        return ""
    limit = next(
        resource.limit_requests_per_second for resource in answer.resources if resource.name == answer.next_bottleneck
    )
    return f"; next is the {answer.next_bottleneck}, at {format.rate(limit)}"


def _bisect(within: Callable[[float], bool], saturation: float) -> float:
    low, high = 0.0, saturation
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low
