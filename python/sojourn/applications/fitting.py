"""Fits the queueing network to steps: one endpoint alone, the first rise with the log's mix, and its lowest loads.

The other steps are held out. CPU usage by other programs is not part of the system: each step is predicted with the
usage measured in it.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.applications import balance, stalls
from sojourn.applications.contention import Load, stretches
from sojourn.applications.demands import Measured, calls, idle
from sojourn.applications.diagnosis import CoreGroup, busy_cores, core_groups, never_sleeps, unhindered_seconds
from sojourn.applications.network import Background, Network, Places, Serial, shape_of
from sojourn.applications.simulation import simulated
from sojourn.applications.stalls import Stalls
from sojourn.applications.summary import CLIMB, EndpointFigures, StepFigures, TierDescription
from sojourn.calibration.estimate import FloatArray

FITTED_LOAD_MAX = 0.45
"""Steps with the log's mix above this share of the knee are held out."""
TRIED_LOAD_MAX = 0.9
"""Above this share of the knee, steps are too short for their queues, so response times are not tested."""
TURNS = ("nginx", "node", "python", "ruby", "haproxy", "gunicorn", "uvicorn", "puma", "h2o")
"""Programs whose process handles many requests at a time on one core."""
EVENT_LOOPS = ("node",)
"""Those that work on a request in several passes of one loop, and have threads do the rest."""
PASSES_MAX = 16
SLEEPING_CORES_MAX = 0.3
"""A loop that uses less of its core sleeps after nearly each pass."""
PASSES_REQUESTS_MIN = 20
"""With fewer requests in a step, other switches count."""
BUSY_MIN = 0.02
"""A tier that uses fewer cores reveals nothing about its processes."""
WAIT_ROUNDS, WAITS_WIDTH, FIT_REPLICATIONS = 6, 0.01, 8
VARIATION_ROUNDS = 2
REQUESTS_MAX = 100
"""Where a step has more of an endpoint's requests, it is not chance that makes their mean uncertain."""
OTHERS_MORE_MAX = 0.3
"""Steps in which other programs use more additional cores than this are left out as disturbed."""
OTHERS_WIDTH = 0.01
"""How well it is found which usage by other programs explains the waits for cores, in cores."""
QUIET_QUANTILE = 0.25
"""The quantile of other programs' usage that counts as usual."""


@dataclass(frozen=True)
class Fitted:
    """The network, with the steps it was fitted to and those held out."""

    network: Network
    tiers: Sequence[TierDescription]
    fitted: Sequence[StepFigures]
    unseen: Sequence[StepFigures]


def fit(
    steps: Sequence[StepFigures],
    endpoints: Sequence[str],
    measured: Measured,
    processes: Mapping[str, int],
    tiers: Sequence[TierDescription],
    knee: float,
) -> Fitted | None:
    """The network of the measurements below the knee, still without waits; None if the demands are unknown.

    Args:
        steps: those that were not beyond the knee.
        endpoints: names.
        measured: CPU time by endpoint and tier.
        processes: how many share the work of the tiers whose processes take turns.
        tiers: as they were declared.
        knee: in requests/s of the log's mix.
    """
    by_tier = {(each.endpoint, each.tier): each.seconds.estimate for each in measured.demands}
    known = {tier for _, tier in by_tier}
    groups = [
        CoreGroup(tuple(name for name in group.tiers if name in known), group.cores) for group in core_groups(tiers)
    ]
    groups = [group for group in groups if group.tiers]
    quiet = undisturbed(steps, tiers)
    fitted = [step for step in quiet if _is_fitted(step, knee)]
    if not groups or not fitted:
        return None
    network = Network(
        endpoints=tuple(endpoints),
        tiers=tuple(tier.name for tier in tiers if tier.name in known),
        groups=tuple(groups),
        demands=by_tier,
        waits=dict.fromkeys(endpoints, 0.0),
        processes={tier: count for tier, count in processes.items() if tier in known},
        calls=calls(steps, endpoints, [tier for tier in tiers if tier.name in known]),
        passes=passes(steps, [tier for tier in tiers if tier.name in known]),
        background=background(fitted, tiers),
        falls=measured.falls,
    )
    for _ in range(VARIATION_ROUNDS):
        # The less CPU times vary, the smaller are the stalls that are told from chance.
        network = replace(network, variations=_variations(network, fitted, tiers))
    network = replace(network, shapes=_shapes(network, fitted, tiers))
    return Fitted(network, tuple(tiers), fitted, [step for step in quiet if _is_unseen(step, knee)])


def with_waits(
    found: Fitted,
    top: StepFigures,
    seed: int,
    *,
    places: tuple[Places, ...] = (),
    serial: Serial | None = None,
    admits: Places | None = None,
    rounds: int = WAIT_ROUNDS,
) -> Fitted:
    """With the waits that explain the rest of the response times.

    Args:
        found: the network without them.
        top: the step beyond the knee.
        seed: of the simulations.
        places: what limits how many requests are worked on, if that was seen.
        serial: what one request has at a time, the same.
        admits: how many are worked on at a time, where that is no limit.
        rounds: of the search.
    """
    network = replace(found.network, places=places, serial=serial, admits=admits)
    searches = {name: WaitSearch() for name in network.endpoints}
    for _ in range(rounds):
        # Waits for a place depend on how long places are held, which depends on other waits.
        left = _left(network, found.fitted, found.tiers, seed)
        waits = {name: searches[name].following(wait, left[name]) for name, wait in network.waits.items()}
        moved = sum(abs(waits[name] - wait) for name, wait in network.waits.items())
        network = _with_lock(replace(network, waits=waits), top)
        if moved <= WAITS_WIDTH * sum(waits.values()):
            break
    return replace(found, network=network)


class WaitSearch:
    """The search for an endpoint's wait by what is left of the response times: the longer the wait, the less.

    What is left is what to add to the wait, where requests do not wait for each other. Near the limit of places they
    do so the more, the longer they wait: it would be added and taken away in turn. So the search is that of Dowell and
    Jarratt (1971) once it has a wait that is too short and one that is too long.
    """

    def __init__(self) -> None:
        self._short: tuple[float, float] | None = None
        self._long: tuple[float, float] | None = None

    def following(self, wait: float, left: float) -> float:
        """The next wait to try, after one with so much left."""
        if left >= 0:
            self._long = self._halved(self._long, self._short)
            self._short = (wait, left)
        else:
            self._short = self._halved(self._short, self._long)
            self._long = (wait, left)
        if self._short is None or self._long is None or self._short[0] >= self._long[0]:
            return max(0.0, wait + left)
        (short, more), (long, less) = self._short, self._long
        return short + (long - short) * more / (more - less)

    @staticmethod
    def _halved(stays: tuple[float, float] | None, before: tuple[float, float] | None) -> tuple[float, float] | None:
        """The end that stays, where the other one moves for the second time."""
        return stays if stays is None or before is None else (stays[0], stays[1] / 2)


def _with_lock(network: Network, top: StepFigures) -> Network:
    """With the lock taken for the part of the waits that makes it the limit of the mix in the step beyond the knee."""
    if network.serial is None or network.serial.what != "lock":
        return network
    whole = replace(network, serial=replace(network.serial, part=1.0))
    offered = {each.name: each.offered_requests_per_second for each in top.endpoints}
    waits = sum(rate * whole.alone_seconds(name) for name, rate in offered.items()) / sum(offered.values())
    part = min(1.0, network.serial.seconds / waits) if waits > 0 else 0.0
    return replace(network, serial=replace(network.serial, part=part))


def disk_seconds(
    below: Sequence[StepFigures], beyond: Sequence[StepFigures], tier: str, names: Sequence[str]
) -> dict[str, float]:
    """How long a tier's disk works on a request, by endpoint; empty if that is not known of all, or it does nothing.

    It is the bytes that were read and written in the steps with an endpoint alone, as fast as ever beyond the knee.
    """
    moved = {}
    for step in below:
        alone = [each.name for each in step.endpoints if each.requests_per_second > 0]
        own = _disk_bytes_per_second(step, tier)
        if step.kind == "mix" and len(alone) == 1 and own is not None:
            moved[alone[0]] = own / step.requests_per_second
    fast = [own for step in beyond if (own := _disk_bytes_per_second(step, tier))]
    if not fast or not moved.keys() >= set(names):
        return {}
    return {name: moved[name] / max(fast) for name in names}


def _disk_bytes_per_second(step: StepFigures, tier: str) -> float | None:
    use = step.tiers.get(tier)
    if use is None or use.disk_written_bytes_per_second is None:
        return None
    return use.disk_written_bytes_per_second + (use.disk_read_bytes_per_second or 0.0)


def beside(network: Network, step: StepFigures, tiers: Sequence[TierDescription]) -> Network:
    """The network with what differs from step to step: the cores that others used, and the busiest processes."""
    taken, own = others(step, tiers), idle(tiers)
    network = replace(network, busiest=balance.busiest(network, step))
    if taken is None:
        return network
    # Near the knee a limited number of threads waits for cores, as the other requests wait for a thread: what the
    # threads wait for is too little then. Programs that they wait for at little load do not give way at more.
    usual = min(_used_by_others(step, tiers), network.background.fixed - own)
    return replace(network, background=Background(max(taken, usual) + own))


def turns(beyond: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> dict[str, int]:
    """Tiers whose processes take turns, with the number of processes that share the work.

    Which process is busiest changes with the few requests of each sample, so that all steps beyond the knee are taken
    together; the last of them tells whether a tier is a single thread.
    """
    found = {}
    for tier in tiers:
        uses = [step.tiers[tier.name] for step in beyond]
        busiest = sum(use.busiest_process_cores or 0.0 for use in uses)
        if busiest >= BUSY_MIN * len(uses) and (takes_many(tier) or never_sleeps(uses[-1])):
            found[tier.name] = max(1, round(sum(use.cpu_cores or 0.0 for use in uses) / busiest))
    return found


def takes_many(tier: TierDescription) -> bool:
    """Whether each process of a tier works on many requests at a time, on one core."""
    return (tier.command or "").startswith(TURNS)


def passes(steps: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> dict[str, int]:
    """How often a request comes to a tier's event loop, where it is more than once.

    At little load the loop's thread sleeps after each pass. All but the first and the last wait for something that
    another thread does, which is switched as often: half of the switches are the loop's.
    """
    found = {}
    for tier in tiers:
        if not (tier.command or "").startswith(EVENT_LOOPS):
            continue
        counts = [
            use.voluntary_switches_per_second / step.requests_per_second / 2
            for step in steps
            if (use := step.tiers[tier.name]).voluntary_switches_per_second is not None
            and (use.busiest_process_cores or 0.0) < SLEEPING_CORES_MAX
            and step.requests_per_second * (step.measured_seconds or 0.0) >= PASSES_REQUESTS_MIN
        ]
        if counts and (count := round(statistics.median(counts))) > 1:
            found[tier.name] = min(PASSES_MAX, count)
    return found


def background(steps: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> Background:
    """Cores used by no request: by the load generator, the probes, and the tiers' own background work.

    Args:
        steps: with little load.
        tiers: as they were declared.
    """
    taken = [each for step in steps if (each := others(step, tiers)) is not None]
    return Background(idle(tiers) + (statistics.median(taken) if taken else 0.0))


def undisturbed(steps: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> list[StepFigures]:
    """Steps with the usual CPU usage by other programs; all where that is unknown."""
    taken = [others(step, tiers) for step in steps]
    known = [each for each in taken if each is not None]
    if not known:
        return list(steps)
    usual = float(np.quantile(known, QUIET_QUANTILE))
    return [step for step, each in zip(steps, taken, strict=True) if each is None or each <= usual + OTHERS_MORE_MAX]


def others(step: StepFigures, tiers: Sequence[TierDescription]) -> float | None:
    """Cores used by other programs in a step, as far as the tiers had to wait for them.

    Programs of a lower priority give way: of their use counts as much as would make the tiers' threads wait for cores
    as long as they did.
    """
    if busy_cores(step, tiers) is None:
        return None
    uses = [step.tiers[tier.name] for tier in tiers if tier.cores]
    own, used = sum(each.cpu_cores or 0.0 for each in uses), _used_by_others(step, tiers)
    if own <= 0 or any(each.core_wait_threads is None for each in uses):
        return used
    waited = 1 + sum(each.core_wait_threads or 0.0 for each in uses) / own
    cores = sum(group.cores for group in core_groups(tiers))

    def stretch(beside: float) -> float:
        found = stretches([Load(own, None)], cores, beside)
        return math.inf if found is None else found[0].whole

    low, high = 0.0, used
    while high - low > OTHERS_WIDTH:
        middle = (low + high) / 2
        low, high = (middle, high) if stretch(middle) < waited else (low, middle)
    return high


def _used_by_others(step: StepFigures, tiers: Sequence[TierDescription]) -> float:
    own = sum(step.tiers[tier.name].cpu_cores or 0.0 for tier in tiers if tier.cores)
    return max(0.0, (busy_cores(step, tiers) or 0.0) - own)


def rates_of(step: StepFigures) -> dict[str, float]:
    """The rates in a step by endpoint, as drawn where that is known."""
    seconds = step.measured_seconds
    return {
        each.name: each.offered_requests_per_second
        if each.requests is None or not seconds or step.users is not None
        else each.requests / seconds
        for each in step.endpoints
    }


def _is_fitted(step: StepFigures, knee: float) -> bool:
    return step.kind in ("mix", "explore") or step.offered_requests_per_second <= FITTED_LOAD_MAX * knee


def _is_unseen(step: StepFigures, knee: float) -> bool:
    return step.kind == CLIMB and FITTED_LOAD_MAX * knee < step.offered_requests_per_second <= TRIED_LOAD_MAX * knee


def _left(
    network: Network, steps: Sequence[StepFigures], tiers: Sequence[TierDescription], seed: int
) -> dict[str, float]:
    """What is measured of each endpoint's response time beyond the network's: the median over steps, by requests.

    Each step's very requests are simulated: what comes of their arrivals, or of the machine, is no wait of theirs.
    """
    left, quickest = defaultdict[str, list[tuple[float, float]]](list), unhindered_seconds(steps)
    for place, step in enumerate(steps):
        seconds = step.measured_seconds or 1.0
        stalled, due = stalls.find(network, step, tiers), due_in(step, seed)
        spared = {each.name: stalled.spares(each, seconds) for each in step.endpoints if each.response_seconds}
        told = simulated(
            slowed(beside(network, step, tiers), stalled.slower),
            {name: times[spared[name]] if name in spared else times for name, times in due.items()},
            seconds,
            # The same draws in each step would have the same chance in all of them.
            seed + FIT_REPLICATIONS * place,
            stalled,
            {name: due[name][~mask] for name, mask in spared.items()},
            FIT_REPLICATIONS,
        )
        for each in step.endpoints if told is not None else ():
            mean, count = each.response_time_mean_seconds, each.requests_per_second * seconds
            if each.name in spared and spared[each.name].any():
                times = stalls.times_of(each)[1][spared[each.name]]
                mean, count = float(times.mean()), times.size
            if mean is None or told is None or each.name not in told:
                continue
            # The more contention there is, the less certain is the remainder, however many requests tell it.
            weight = min(REQUESTS_MAX, count) * min(1.0, quickest.get(each.name, mean) / mean) ** 2
            left[each.name].append((mean - float(told[each.name].means.mean()), weight))
    return {name: _median(left[name]) for name in network.waits}


def due_in(step: StepFigures, seed: int) -> dict[str, FloatArray]:
    """When a step's requests were due, by endpoint; at random times where that is not known."""
    random, seconds = np.random.default_rng(seed), step.measured_seconds or 0.0
    return {
        each.name: np.array(each.due_seconds or random.uniform(0, seconds, each.requests or 0), dtype=float)
        for each in step.endpoints
    }


def slowed(network: Network, factor: float) -> Network:
    """With CPU times by a factor, and the waits as they were."""
    return replace(network, demands={key: factor * seconds for key, seconds in network.demands.items()})


def _median(weighted: Sequence[tuple[float, float]]) -> float:
    """The weighted median; 0 without values."""
    half, passed = sum(weight for _, weight in weighted) / 2, 0.0
    for value, weight in sorted(weighted):
        passed += weight
        if passed >= half:
            return value
    return 0.0


def _shapes(
    network: Network, steps: Sequence[StepFigures], tiers: Sequence[TierDescription]
) -> dict[str, tuple[float, ...]]:
    """The distribution of each endpoint's times at the lower half of the fitted loads, with little contention."""
    found, stalled = {}, [stalls.find(network, step, tiers) for step in steps]
    for name in network.endpoints:
        measured = [
            (step.in_system, quantiles, each.requests_per_second)
            for step, own in zip(steps, stalled, strict=True)
            for each in step.endpoints
            if each.name == name and (quantiles := _quantiles(each, own, step.measured_seconds or 1.0))
        ]
        quiet = sorted(measured)[: max(1, len(measured) // 2)]
        if quiet and (shape := shape_of([each for _, each, _ in quiet], [rate for _, _, rate in quiet])):
            found[name] = shape
    return found


def _variations(network: Network, steps: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> dict[str, float]:
    """How much CPU times vary: the median over steps, weighted by the endpoint's part in them."""
    rows = defaultdict[str, list[tuple[float, float]]](list)
    for step in steps:
        squared = stalls.find(network, step, tiers).squared_variation
        total = sum(each.requests_per_second for each in step.endpoints)
        for each in step.endpoints if squared is not None and total > 0 else ():
            rows[each.name].append((squared or 0.0, each.requests_per_second**2 / total))
    return {name: _median(rows[name]) for name in network.endpoints if rows[name]}


def _quantiles(endpoint: EndpointFigures, stalled: Stalls, seconds: float) -> list[float]:
    """Of the response times of the requests that were in no stall."""
    known = endpoint.response_time_quantiles_seconds
    if not known or not stalled.begins.size:
        return known
    times = stalls.times_of(endpoint)[1][stalled.spares(endpoint, seconds)]
    return [float(each) for each in np.quantile(times, np.linspace(0, 1, len(known) + 2)[1:-1])] if times.size else []
