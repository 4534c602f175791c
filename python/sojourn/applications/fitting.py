"""Fits the queueing network to steps, and tests it on the others.

It is fitted to the steps with one endpoint alone, to the first rise with the log's mix and to that mix at low loads.
It is tested on the log's own mix around the knee, which the fit did not see. CPU usage by other programs is not part
of the system: each step is predicted with the usage measured in it. Nor is the draw of random arrivals: the very
requests of each step are simulated, from the empty system on, because a few seconds near the knee have no steady state.
What is left to chance are the requests' sizes and waits. They are drawn many times; a figure whose draws differ by more
than the errors that are looked for says nothing of the model.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.applications.contention import Load, stretches
from sojourn.applications.demands import Measured, calls
from sojourn.applications.diagnosis import CoreGroup, core_groups
from sojourn.applications.network import Background, Network, Places, shape_of
from sojourn.applications.simulation import Figures, simulated
from sojourn.applications.summary import CLIMB, EndpointFigures, HeldOutFigure, StepFigures, TierDescription

ERRORS_MAX: Mapping[str, float] = {"throughput": 0.05, "mean": 0.15, "p95": 0.25}
"""Largest relative errors of a credible network, in the median over endpoints and held-out loads."""
FITTED_LOAD_MAX = 0.45
"""Steps with the log's mix above this share of the knee are held out."""
TRIED_LOAD_MAX = 0.9
"""Above this share of the knee, steps are too short for their queues, so response times are not tested."""
TURNS = ("nginx", "node", "python", "ruby", "haproxy", "gunicorn", "uvicorn", "puma", "h2o")
"""Programs whose process handles many requests at a time on one core."""
BUSY_MIN = 0.02
"""A tier that uses fewer cores reveals nothing about its processes."""
WAIT_ROUNDS = 3
COUNTS = (0.55, 1.1)
"""The range of place counts tried, in multiples of the number that seems to be held."""
COUNTS_TRIED = 8
CPU_MIN_SECONDS = 1e-4
BACKGROUND_STEPS = 8
OTHERS_MORE_MAX = 0.3
"""Steps in which other programs use more additional cores than this are left out as disturbed."""
SPEED_CORES_MIN = 0.1
"""Fewer cores in use do not tell how fast they are."""
SLOWER_MAX = 1.6
"""What takes longer than so many times as usual is not the same work."""
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

    def misfit(self, shares: Mapping[str, float], knee: float) -> float:
        """The median error on the fitted steps and at the knee, in logarithms."""
        far = []
        for step in self.fitted:
            predicted = beside(self.network, step, self.tiers).mean_seconds(rates_of(step))
            for each in step.endpoints:
                if predicted is not None and each.response_time_mean_seconds:
                    far.append(abs(math.log(predicted[each.name] / each.response_time_mean_seconds)))
        capacity = self.network.capacity(shares)
        if not far or capacity <= 0 or knee <= 0:
            return math.inf
        return statistics.median(far) + abs(math.log(capacity / knee))


def fit(
    steps: Sequence[StepFigures],
    top: StepFigures,
    endpoints: Sequence[str],
    measured: Measured,
    tiers: Sequence[TierDescription],
    knee: float,
    places: tuple[Places, ...] = (),
) -> Fitted | None:
    """The network of the measurements below the knee; None if the demands are unknown.

    Args:
        steps: those that were not beyond the knee.
        top: the step that was.
        endpoints: names.
        measured: CPU time by endpoint and tier.
        tiers: as they were declared.
        knee: in requests/s of the log's mix.
        places: what limits how many requests are worked on, if that was seen.
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
        processes=turns(top, [tier for tier in tiers if tier.name in known]),
        calls=calls(steps, endpoints, [tier for tier in tiers if tier.name in known]),
        places=places,
        background=background([*steps, top], tiers),
        falls=measured.falls,
        shapes=_shapes(fitted, endpoints),
    )
    for _ in range(WAIT_ROUNDS):
        # Waits for a place depend on how long places are held, which depends on other waits.
        network = replace(network, waits=_waits(network, fitted, tiers))
    return Fitted(network, tuple(tiers), fitted, [step for step in quiet if _is_unseen(step, knee)])


def scaled(found: Fitted, factor: float) -> Fitted:
    """With CPU times by a factor, and the waits that are then left."""
    demands = {key: factor * seconds for key, seconds in found.network.demands.items()}
    network = replace(found.network, demands=demands)
    for _ in range(WAIT_ROUNDS):
        network = replace(network, waits=_waits(network, found.fitted, found.tiers))
    return replace(found, network=network)


def counts(network: Network, places: Places, most: float) -> list[int]:
    """Possible numbers of places: fewer than it seems, since waiting requests first count as holders."""
    processes = network.processes.get(places.tier, 1)
    low, high = max(1, math.floor(COUNTS[0] * most)), max(1, math.ceil(COUNTS[1] * most))
    found = range(low, high + 1)
    alike = [count for count in found if count % processes == 0]
    step = max(1, len(alike or found) // COUNTS_TRIED)
    return list(alike or found)[::step]


def tried(found: Fitted, seed: int) -> list[HeldOutFigure]:
    """Predictions for the requests of held-out steps beside the measurements, by endpoint and load.

    Steps at the same load are combined, weighted by their requests.
    """
    loads = defaultdict[float, list[StepFigures]](list)
    for step in found.unseen:
        loads[load_of(step)].append(step)
    random, result = np.random.default_rng(seed), []
    for load, steps in sorted(loads.items()):
        told = [_again(found, step, seed, random) for step in steps]
        for name in found.network.endpoints:
            measured = [each for step in steps for each in step.endpoints if each.name == name]
            rows = [
                (figures[name], own.requests_per_second)
                for figures, own in zip(told, measured, strict=True)
                if figures is not None and name in figures and own.response_time_mean_seconds is not None
            ]
            is_told = bool(rows) and len(rows) == sum(each.response_time_mean_seconds is not None for each in measured)
            means = [(each.mean_seconds, each.mean_within, weight) for each, weight in rows]
            tails = [(each.p95_seconds, each.p95_within, weight) for each, weight in rows]
            mean, mean_known_to = _combined(means) if is_told else (None, None)
            p95, p95_known_to = _combined(tails) if is_told else (None, None)
            due = statistics.mean(rates_of(step).get(name, 0.0) for step in steps)
            result.append(
                HeldOutFigure(
                    offered_requests_per_second=load,
                    endpoint=name,
                    measured_per_second=statistics.mean(each.requests_per_second for each in measured),
                    predicted_per_second=due if is_told else None,
                    measured_mean_seconds=_mean(measured, "response_time_mean_seconds"),
                    predicted_mean_seconds=mean,
                    measured_p95_seconds=_mean(measured, "response_time_p95_seconds"),
                    predicted_p95_seconds=p95,
                    measured_mean_known_to=mean_known_to,
                    measured_p95_known_to=p95_known_to,
                )
            )
    return result


def _again(found: Fitted, step: StepFigures, seed: int, random: np.random.Generator) -> Mapping[str, Figures] | None:
    """The same requests, simulated; at random times where theirs are not known."""
    seconds = step.measured_seconds
    if not seconds:
        return None
    due = {
        each.name: each.due_seconds or [float(time) for time in random.uniform(0, seconds, each.requests or 0)]
        for each in step.endpoints
    }
    network = beside(found.network, step, found.tiers)
    slower = _slower(network, step, found.tiers)
    demands = {key: slower * time for key, time in network.demands.items()}
    return simulated(replace(network, demands=demands), due, seconds, seed)


def _combined(rows: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """The mean of independent figures, and how far from it, relative, chance may lead.

    Args:
        rows: a figure, how far from it, relative, chance may lead, and its weight.
    """
    whole = sum(weight for _, _, weight in rows)
    mean = sum(weight * figure for figure, _, weight in rows) / whole
    within = math.sqrt(sum((weight * figure * relative) ** 2 for figure, relative, weight in rows)) / whole
    return mean, within / mean if mean else 0.0


def beside(network: Network, step: StepFigures, tiers: Sequence[TierDescription]) -> Network:
    """The network with the cores that others used in a step."""
    taken = others(step, tiers)
    return network if taken is None else replace(network, background=Background(taken + idle(tiers)))


def _slower(network: Network, step: StepFigures, tiers: Sequence[TierDescription]) -> float:
    """The CPU time that a step's answers took, of what they take on average; 1 where too little was used.

    On a virtual machine the same work takes more or less time from one minute to the next, as others use its caches.
    """
    uses = [step.tiers[tier.name].cpu_cores for tier in tiers if tier.name in network.tiers]
    rates = {each.name: each.requests_per_second for each in step.endpoints}
    own = sum(each or 0.0 for each in uses) - idle(tiers)
    if own < SPEED_CORES_MIN or any(each is None for each in uses):
        return 1.0
    more = network.larger(rates)
    usual = sum(network.cpu(rates, tier) * more.get(tier, 1.0) for tier in network.tiers)
    return min(SLOWER_MAX, max(1 / SLOWER_MAX, own / usual)) if usual > 0 else 1.0


def idle(tiers: Sequence[TierDescription]) -> float:
    """Cores that the tiers use without any request."""
    return sum(tier.idle.cpu_cores.estimate for tier in tiers if tier.cores and tier.idle is not None)


def turns(top: StepFigures, tiers: Sequence[TierDescription]) -> dict[str, int]:
    """Tiers whose processes take turns, with the number of processes that share the work."""
    found = {}
    for tier in tiers:
        use = top.tiers[tier.name]
        busiest, total = use.busiest_process_cores or 0.0, use.cpu_cores or 0.0
        if busiest >= BUSY_MIN and any((tier.command or "").startswith(name) for name in TURNS):
            found[tier.name] = max(1, round(total / busiest))
    return found


def background(steps: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> Background:
    """Cores used by no request at high loads: by the load generator, the probes, and the tiers' own background work."""
    busiest = sorted(steps, key=lambda step: step.requests_per_second)[-BACKGROUND_STEPS:]
    taken = [each for step in busiest if (each := others(step, tiers)) is not None]
    return Background(idle(tiers) + (float(np.quantile(taken, QUIET_QUANTILE)) if taken else 0.0))


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
    if step.machine_busy_cores is None:
        return None
    uses = [step.tiers[tier.name] for tier in tiers if tier.cores]
    own = sum(each.cpu_cores or 0.0 for each in uses)
    used = max(0.0, step.machine_busy_cores - own)
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


def load_of(step: StepFigures) -> float:
    """The load in requests/s as held-out figures name it."""
    return round(step.offered_requests_per_second, 3)


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


def _waits(network: Network, steps: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> dict[str, float]:
    """The remaining response time: the median over steps, weighted by requests, at least 0."""
    left = defaultdict[str, list[tuple[float, float]]](list)
    for step in steps:
        predicted = beside(network, step, tiers).mean_seconds(rates_of(step))
        if predicted is None:
            continue
        for each in step.endpoints:
            if each.response_time_mean_seconds is not None:
                rest = each.response_time_mean_seconds - predicted[each.name]
                # The larger the effect of contention, the less certain is the remainder.
                cpu = max(predicted[each.name] - network.waits[each.name], CPU_MIN_SECONDS)
                left[each.name].append((rest, each.requests_per_second / cpu**2))
    return {name: max(0.0, wait + _median(left[name])) for name, wait in network.waits.items()}


def _median(weighted: Sequence[tuple[float, float]]) -> float:
    """The weighted median; 0 without values."""
    half, passed = sum(weight for _, weight in weighted) / 2, 0.0
    for value, weight in sorted(weighted):
        passed += weight
        if passed >= half:
            return value
    return 0.0


def _shapes(steps: Sequence[StepFigures], endpoints: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """The distribution of each endpoint's times at the lower half of the fitted loads, with little contention."""
    found = {}
    for name in endpoints:
        measured = [
            (step.in_system, each)
            for step in steps
            for each in step.endpoints
            if each.name == name and each.response_time_quantiles_seconds
        ]
        quiet = [each for _, each in sorted(measured, key=lambda row: row[0])[: max(1, len(measured) // 2)]]
        if quiet and (
            shape := shape_of(
                [each.response_time_quantiles_seconds for each in quiet], [each.requests_per_second for each in quiet]
            )
        ):
            found[name] = shape
    return found


def _mean(measured: Sequence[EndpointFigures], figure: str) -> float | None:
    rows = [(getattr(each, figure), each.requests_per_second) for each in measured]
    known = [(value, weight) for value, weight in rows if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def median_errors(figures: Sequence[HeldOutFigure]) -> Mapping[str, float]:
    """The median relative errors of `throughput`, `mean` and `p95`, where available."""
    found = {}
    for what, pairs in errors(figures).items():
        if pairs:
            found[what] = statistics.median(pairs)
    return found


def not_judged_because(figures: Sequence[HeldOutFigure], what: str) -> str:
    """The reason why there is no error of `throughput`, `mean` or `p95`."""
    figure = "per_second" if what == "throughput" else f"{what}_seconds"
    told = [each for each in figures if getattr(each, f"predicted_{figure}") is not None]
    if not told:
        return "not predicted, as the model cannot take these loads beside the other programs"
    if all(getattr(each, f"measured_{figure}") is None for each in told):
        return "not measured"
    return "measured too roughly"


def errors(figures: Sequence[HeldOutFigure]) -> dict[str, list[float]]:
    """The relative errors of `throughput`, `mean` and `p95`, where they are measured as well as is aimed at."""

    def is_known(what: str, to: float | None) -> bool:
        return to is None or to <= ERRORS_MAX[what]

    pairs: dict[str, list[tuple[float | None, float | None]]] = {
        "throughput": [(each.predicted_per_second, each.measured_per_second) for each in figures],
        "mean": [
            (each.predicted_mean_seconds, each.measured_mean_seconds)
            for each in figures
            if is_known("mean", each.measured_mean_known_to)
        ],
        "p95": [
            (each.predicted_p95_seconds, each.measured_p95_seconds)
            for each in figures
            if is_known("p95", each.measured_p95_known_to)
        ],
    }
    return {
        what: [abs(told / seen - 1) for told, seen in rows if told is not None and seen] for what, rows in pairs.items()
    }
