"""Moments in which the machine stood still, found by what the answers of a step cost.

A hypervisor that takes a core for 50 ms charges them to whoever was on it, often without counting them as stolen: the
requests of that moment take several times their CPU time, and those that are due then wait. That is no property of the
application, and no model of it predicts it. So it is measured: CPU time by short windows, beside the work of the
requests that were answered then. What a window has used beyond it, and beyond chance, was lost to them; a tier's own
work in the background, such as collecting garbage, is found in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.applications.demands import idle
from sojourn.applications.network import Network
from sojourn.applications.summary import EndpointFigures, StepFigures, TierDescription
from sojourn.calibration.estimate import FloatArray

DEVIATIONS = 3.0
"""A window has lost time if it used more than its answers' work by so many standard deviations of that."""
LOST_SECONDS_MIN = 0.01
"""Less is what the kernel's own work and the ends of windows make."""
SPREAD = 2.0
"""The work of a request is within so many times its CPU time before its answer, as most wait first. Where it is longer
than half a window, it may also be in all of the response time, as where cores are shared: what explains more counts.
"""
ROUNDS = 2
PAIRS_MIN = 8
"""So many pairs of windows tell how much CPU times vary."""
SPEED_CORES_MIN = 0.1
"""Fewer cores in use do not tell how fast they are."""
SLOWER_MAX = 1.6
"""What takes longer than so many times as usual is not the same work."""


@dataclass(frozen=True)
class Stalls:
    """The windows of a step in which CPU time was lost."""

    window_seconds: float
    begins: FloatArray
    """From the begin of the measured time; shape (stalls,)."""
    lost_seconds: FloatArray
    """CPU time of all tiers together; shape (stalls,)."""
    stopped_seconds: FloatArray
    """How long the cores stood still: who was on one of them was charged; shape (stalls,)."""
    slower: float
    """The CPU time that answers took otherwise, of what they take on average."""
    squared_variation: float | None = None
    """The squared coefficient of variation of CPU times, as the other windows show it; None if too few do."""

    def spares(self, endpoint: EndpointFigures, seconds: float) -> npt.NDArray[np.bool_]:
        """Which of an endpoint's requests were due in the measured time, answered, and not under way in a stall.

        Shape (requests,).
        """
        due, response = times_of(endpoint)
        spared = (due >= 0) & (due < seconds) & np.isfinite(response)
        for begin in self.begins:
            spared &= (due >= begin + self.window_seconds) | (due + response <= begin)
        return spared


def find(network: Network, step: StepFigures, tiers: Sequence[TierDescription]) -> Stalls:
    """The stalls of a step, and how much slower than usual its cores were otherwise.

    Args:
        network: whose demands are the usual ones.
        step: where its CPU time by windows or the times of its requests are not known, it has no stalls.
        tiers: as they were declared.
    """
    more = network.larger({each.name: each.requests_per_second for each in step.endpoints})
    usual = {
        each.name: sum(network.demands.get((each.name, tier), 0.0) * more.get(tier, 1.0) for tier in network.tiers)
        / network.calibration
        for each in step.endpoints
    }
    windows = step.cpu_windows
    parts = [] if windows is None else [windows.cores.get(tier, []) for tier in network.tiers]
    is_each_known = any(each.due_seconds for each in step.endpoints)
    if windows is None or not parts or not all(parts) or not is_each_known:
        cores = [step.tiers[tier].cpu_cores for tier in network.tiers]
        used = None if None in cores else sum(each or 0.0 for each in cores) - idle(tiers)
        work = sum(each.requests_per_second * usual[each.name] for each in step.endpoints)
        return Stalls(0.0, np.empty(0), np.empty(0), np.empty(0), _slower(used, work))
    length = windows.seconds
    # The probes' last samples differ.
    known = min(len(part) for part in parts)
    used_seconds = (np.sum([part[:known] for part in parts], axis=0) - idle(tiers)) * length
    edges = np.arange(used_seconds.size + 1) * length
    late = {each.name: _work(each, usual[each.name], edges, SPREAD) for each in step.endpoints}
    even = {
        each.name: _work(each, usual[each.name], edges, math.inf if usual[each.name] > length / 2 else SPREAD)
        for each in step.endpoints
    }
    usual_seconds, explained = (np.sum(list(each.values()), axis=0) for each in (late, even))
    explained = np.maximum(usual_seconds, explained)
    varying, chance = (
        np.sum([factors.get(name, 1.0) * usual[name] * each for name, each in late.items()], axis=0)
        for factors in ({}, network.variations)
    )
    quiet, slower, lost = np.ones(used_seconds.size, dtype=bool), 1.0, used_seconds
    for _ in range(ROUNDS):
        # What is lost makes all look slower at first.
        if quiet.any():
            slower = _slower(float(used_seconds[quiet].mean()) / length, float(usual_seconds[quiet].mean()) / length)
        lost = used_seconds - slower * explained
        quiet = lost <= np.maximum(LOST_SECONDS_MIN, DEVIATIONS * slower * np.sqrt(chance))
    over = used_seconds - slower * usual_seconds
    running = np.clip(used_seconds / length, 1.0, max(1.0, sum(group.cores for group in network.groups)))
    stopped = (lost / running)[~quiet]
    variation = _variation(over, slower**2 * varying, quiet)
    return Stalls(length, edges[:-1][~quiet], lost[~quiet], stopped, slower, variation)


def _slower(used: float | None, work: float) -> float:
    """The cores in use beside the usual ones for the work; 1 where too little was used.

    On a virtual machine the same work takes more or less time from one minute to the next, as others use its caches.
    """
    if used is None or used < SPEED_CORES_MIN or work <= 0:
        return 1.0
    return min(SLOWER_MAX, max(1 / SLOWER_MAX, used / work))


def _variation(over: FloatArray, variance: FloatArray, quiet: npt.NDArray[np.bool_]) -> float | None:
    """The squared variation of CPU times, from what windows used over their answers' work.

    The differences of successive windows tell it (J. von Neumann, 1941): what drifts meanwhile does not count.
    """
    pairs = quiet[:-1] & quiet[1:]
    expected = float((variance[:-1] + variance[1:])[pairs].sum())
    if pairs.sum() < PAIRS_MIN or expected <= 0:
        return None
    return float((np.diff(over)[pairs] ** 2).sum()) / expected


def _work(endpoint: EndpointFigures, seconds: float, edges: npt.NDArray[np.float64], spread: float) -> FloatArray:
    """The usual CPU time of the requests answered, of so many seconds each, by window."""
    due, response = times_of(endpoint)
    answered = np.isfinite(response)
    due, response = due[answered], response[answered]
    end = due + response
    begin = end - np.maximum(np.minimum(response, spread * seconds), 1e-9)
    shares = np.diff(np.clip((edges[:, np.newaxis] - begin) / (end - begin), 0.0, 1.0), axis=0)
    found: FloatArray = seconds * shares.sum(axis=1)
    return found


def times_of(endpoint: EndpointFigures) -> tuple[FloatArray, FloatArray]:
    """When an endpoint's requests were due, and their response times, not a number without an answer.

    Shapes (requests,), without any if they are not known.
    """
    responses = [math.nan if each is None else each for each in endpoint.response_seconds]
    return np.array(endpoint.due_seconds[: len(responses)], dtype=float), np.array(responses, dtype=float)
