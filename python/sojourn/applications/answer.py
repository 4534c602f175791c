"""Draws an assessment's answer from its steps: demands, bottleneck, queueing network, effect of changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sojourn.applications import balance, demands, diagnosis, fitting, held_out, stalls, system_file
from sojourn.applications.changes import QUOTA, Starting, changes
from sojourn.applications.demands import Measured
from sojourn.applications.diagnosis import Evidence
from sojourn.applications.fitting import Fitted
from sojourn.applications.network import Network, Places, Serial
from sojourn.applications.prices import Prices
from sojourn.applications.summary import (
    ERRORS_MAX,
    ApplicationSummary,
    Cause,
    Demand,
    Knee,
    Model,
    StepFigures,
)
from sojourn.text import format
from sojourn.tiers import php_fpm

CAPACITY_ERROR_MAX = 0.2
"""If the network's limit of the bottleneck deviates more from the measured knee, the network does not describe the
system.
"""
ACCEPTED_LAST = 0.5
"""If more than this share of the waiting requests is not accepted, they wait for any process."""
FILLED_MAX = 1.35
"""Waits that differ by a larger factor from those by which places are all held beyond the knee have another reason."""
HELD = {"workers": "workers", "outside": "workers", "connections": "connections"}
"""By cause, the kind of places whose number is the limit."""
COUNT_ROUNDS = 3
FEWER_MAX = 8
"""How many smaller counts of places are tried, each of which is a fit of seconds."""
WAITING_MIN = 1.5
"""Connections limit what is worked on if so many times as many requests are in the system."""


def conclude(
    summary: ApplicationSummary, top: StepFigures, shares: Mapping[str, float], prices: Prices | None, seed: int
) -> Starting | None:
    """Draws the conclusions and writes them into the summary; returns the starting point for changes.

    Args:
        summary: with the steps and the knee.
        top: the step beyond the knee.
        shares: of each endpoint in the load.
        prices: what changes cost.
        seed: of everything random.
    """
    assert summary.knee is not None
    knee, names = summary.knee, list(shares)
    evidence = Evidence(summary.steps, top, summary.tiers)
    processes = fitting.turns(evidence.beyond, summary.tiers)
    measured = demands.measure(evidence.below, names, summary.tiers, seed, processes)
    summary.demands, summary.demand_errors = measured.demands, measured.errors
    summary.demand_falls = measured.falls
    summary.warnings += measured.warnings
    causes = diagnosis.find(evidence)
    found = _fitted(evidence, knee, names, measured, processes, causes, seed)
    starting = None
    if found is not None:
        causes = _with_counted_workers(causes, found.network, evidence)
        summary.model = _model(summary, found, shares, seed)
        if causes and not knee.is_lower_bound:
            starting = Starting.of(found.network, causes[0], knee, shares, _uncertainty(found.network, summary, shares))
    starting = _consistent(summary, starting, causes)
    summary.bottleneck, summary.next_bottleneck = _first_two(causes, starting, knee)
    summary.changes = changes(starting, prices)
    return starting


def _fitted(
    evidence: Evidence,
    knee: Knee,
    names: Sequence[str],
    measured: Measured,
    processes: Mapping[str, int],
    causes: Sequence[Cause],
    seed: int,
) -> Fitted | None:
    """The network with what limits it; None if too little was measured."""
    top, beyond, at_knee = evidence.top, evidence.beyond, knee.requests_per_second.estimate
    free = fitting.fit(evidence.below, names, measured, processes, evidence.tiers, at_knee)
    if free is None:
        return None
    free = replace(free, network=balance.limiting(free.network, beyond))
    if not causes or knee.is_lower_bound:
        return fitting.with_waits(free, top, seed)
    first = causes[0]
    if first.cause in ("lock", "disk"):
        uses = fitting.disk_seconds(evidence.below, beyond, first.tier or "", names) if first.cause == "disk" else {}
        serial = Serial(first.cause, first.tier or "", 1 / at_knee, uses=uses)
        return fitting.with_waits(free, top, seed, serial=serial)
    if first.cause == "cpu":
        admits = _admits(free.network, first.tier, evidence) or _connected(free.network, first.tier, evidence)
        return fitting.with_waits(_with_full_process(free, first.tier, evidence), top, seed, admits=admits)
    if first.cause not in HELD or first.tier is None:
        return fitting.with_waits(free, top, seed)
    limited = Places(HELD[first.cause], first.tier, 1)
    if limited.what == "connections" and top.database is not None:
        places = free.network.as_many(limited, top.database.active + top.database.in_transaction)
        return _filled(fitting.with_waits(free, top, seed, places=(places,)), places, beyond)
    return _with_counted(free, limited, evidence, seed)


def _with_counted(free: Fitted, limited: Places, evidence: Evidence, seed: int) -> Fitted:
    """With as many places as are held beyond the knee, by Little's law.

    That depends on how long requests wait for others than places, and this on how many places there are. Without any
    limit, all that they wait is taken for such waits, which is too much: the search comes down from there.
    """
    top, beyond = evidence.top, evidence.beyond
    rates = {each.name: each.requests_per_second for each in top.endpoints}
    found = fitting.with_waits(free, top, seed, rounds=1)
    for _ in range(COUNT_ROUNDS):
        held = found.network.held(rates, limited)
        is_shared = limited.what == "workers" and _wait_for_any_process(limited.tier, top, held)
        places = free.network.as_many(replace(limited, is_shared=is_shared), held)
        if places in found.network.places:
            break
        found = fitting.with_waits(free, top, seed, places=(places,))
    # What was waited for a place at low loads may hide in the waits still, and let twice as many seem to be held.
    each = free.network.one_each(places)
    for _ in range(FEWER_MAX):
        if places.count <= each:
            break
        fewer = replace(places, count=places.count - each)
        other = fitting.with_waits(free, top, seed, places=(fewer,))
        if _misfilled(other, fewer, beyond) >= _misfilled(found, places, beyond):
            break
        found, places = other, fewer
    return _filled(found, places, beyond)


def _wait_for_any_process(tier: str, top: StepFigures, working: float) -> bool:
    """Whether most requests wait for the process that is free first, where so many are worked on.

    Processes that accept no more than they work on leave the others unaccepted.
    """
    return (top.tiers[tier].accept_queue or 0.0) > ACCEPTED_LAST * (top.in_system - working)


def _misfilled(found: Fitted, places: Places, beyond: Sequence[StepFigures]) -> float:
    """How far waits are from those by which the places are all held beyond the knee: the logarithm of the factor."""
    factor = _filling(found, places, beyond)
    return abs(math.log(factor)) if factor > 0 else math.inf


def _filling(found: Fitted, places: Places, beyond: Sequence[StepFigures]) -> float:
    sustained = [(each.name, each.requests_per_second / len(beyond)) for step in beyond for each in step.endpoints]
    rates = {name: sum(rate for own, rate in sustained if own == name) for name in found.network.endpoints}
    return found.network.filling(rates, places)


def _filled(found: Fitted, places: Places, beyond: Sequence[StepFigures]) -> Fitted:
    """With waits so that all places are held by what the steps beyond the knee sustained.

    The fitted waits come from the few requests of low loads, and from a guess of how long these waited for a place.
    Near the limit of places their errors are multiplied.
    """
    network = found.network
    factor = _filling(found, places, beyond)
    if not 1 / FILLED_MAX <= factor <= FILLED_MAX:
        return found
    waits = {name: wait * (factor if network.holds(name, places) else 1.0) for name, wait in network.waits.items()}
    return replace(found, network=replace(network, waits=waits))


def _admits(network: Network, tier: str | None, evidence: Evidence) -> Places | None:
    """As many requests as a tier works on while others wait to be accepted, if its processes do one at a time."""
    use = evidence.top.tiers.get(tier or "")
    if tier is None or use is None or use.cpu_cores is None:
        return None
    if any(fitting.takes_many(each) for each in evidence.tiers if each.name == tier):
        return None
    working = use.cpu_cores + (use.core_wait_threads or 0.0) + (use.blocked_threads or 0.0)
    is_full = use.threads == use.processes and _wait_for_any_process(tier, evidence.top, working)
    return network.as_many(Places("workers", tier, 1, is_shared=True), working) if is_full else None


def _connected(network: Network, tier: str | None, evidence: Evidence) -> Places | None:
    """As many requests as the workers in front of a busy tier have connections to it and to others behind them.

    A worker keeps its connection, so that the requests without one wait, all of them about as long.
    """
    owner, connections = diagnosis.connected(evidence)
    workers = Places("workers", owner, 1)
    is_full = 1 <= WAITING_MIN * connections <= evidence.top.in_system
    return network.as_many(workers, connections) if is_full and tier in network.behind(workers) else None


def _with_full_process(found: Fitted, tier: str | None, evidence: Evidence) -> Fitted:
    """CPU times so that a single process at its end is busy all the time.

    While its threads hand over to each other it is not, for up to 12 % of the time.
    """
    uses = [step.tiers[tier] for step in (evidence.top, diagnosis.nearest(evidence.beyond)) if tier in step.tiers]
    full = [use for use in uses if diagnosis.is_one_full_process(use)]
    factor = max(1.0, 1 / (full[0].busiest_process_cores or 1.0)) if full else 1.0
    return replace(found, network=replace(fitting.slowed(found.network, factor), calibration=factor))


def _with_counted_workers(causes: Sequence[Cause], network: Network, evidence: Evidence) -> list[Cause]:
    """With as many workers as the network has: in steps with little load, too, some requests waited for one.

    A server that counts them itself knows best.
    """
    counted = [each.count for each in network.places if each.what == "workers"]
    working = diagnosis.at_work(evidence)
    if not counted or working is None or php_fpm.TOTAL in evidence.top.levels:
        return list(causes)
    said = {(each.tier, each.cause): each for each in replace(working, held=counted[0]).causes()}
    return [said.get((each.tier, each.cause), each) for each in causes]


def _model(summary: ApplicationSummary, found: Fitted, shares: Mapping[str, float], seed: int) -> Model:
    tried = held_out.tried(found, seed)
    for step in found.unseen:
        own = [each for each in tried.figures if each.offered_requests_per_second == held_out.load_of(step)]
        means = [(each.measured_per_second, each.predicted_mean_seconds) for each in own]
        rate = sum(rate for rate, mean in means if mean is not None)
        if rate > 0 and all(mean is not None for each, mean in means if each > 0):
            step.predicted_response_time_mean_seconds = sum(each * (mean or 0.0) for each, mean in means) / rate
    _stalls(summary, found)
    network = found.network
    model = Model(
        places=[f"{each.count} {each.what} of {each.tier}" for each in network.places],
        processes=dict(network.processes),
        waits_seconds=dict(network.waits),
        system_file=system_file.for_solvers(network, shares),
        limits_requests_per_second=network.limits(shares),
        held_out=list(tried.figures),
        errors={what: each.median for what, each in tried.errors.items()},
        judged={what: each.found.size for what, each in tried.errors.items()},
        errors_by_chance={what: each.median_by_chance() for what, each in tried.errors.items()},
        errors_beyond_chance={what: each.median_beyond_chance(seed) for what, each in tried.errors.items()},
        believed=False,
    )
    model.believed = all(model.meets(what) for what in ERRORS_MAX)
    if not model.believed:
        summary.warnings.append(f"The model's response times are not believed: {_not_believed_because(model)}.")
    return model


def _stalls(summary: ApplicationSummary, found: Fitted) -> None:
    """Says where the machine stood still, so that nobody takes it for the application."""
    stalled = []
    for step in summary.steps:
        own = stalls.find(found.network, step, found.tiers)
        step.stalled_cpu_seconds = float(own.lost_seconds.sum())
        if own.begins.size and step.failed_because is None:
            stalled.append(own)
    if stalled:
        longest = max(float(own.lost_seconds.max()) for own in stalled)
        summary.warnings.append(
            f"In {len(stalled)} steps below the knee up to {format.seconds(longest)} of CPU time were lost at a time, "
            "as when a hypervisor takes the cores: their slowest responses are the machine's."
        )


def _not_believed_because(model: Model) -> str:
    if not model.held_out:
        return "there was no load to try it on"
    reasons: dict[str, list[str]] = {}
    for what, most in ERRORS_MAX.items():
        own = model.errors_beyond_chance.get(what)
        if own is None:
            reasons.setdefault(held_out.not_judged_because(model.held_out, what), []).append(what)
        elif not model.meets(what):
            is_missed = model.meets(what) is False
            said = f"off by {own.low:.0%} to {own.high:.0%} on loads it did not see, {most:.0%} is aimed at"
            reasons.setdefault(said if is_missed else f"{said} (longer steps would tell: --effort)", []).append(what)
    return "; ".join(f"{' and '.join(figures)} {reason}" for reason, figures in reasons.items())


def _consistent(summary: ApplicationSummary, starting: Starting | None, causes: Sequence[Cause]) -> Starting | None:
    """The starting point for changes, if the network saturates where the system did, by the same resource."""
    if starting is None:
        return None
    limit = starting.network.limits(starting.shares)[starting.bottleneck]
    knee = starting.knee.requests_per_second.estimate
    error = abs(limit / knee - 1)
    if error <= CAPACITY_ERROR_MAX:
        return starting
    summary.warnings.append(
        f"By the model {starting.bottleneck} would take {limit:,.3g} requests/s, not the {knee:,.3g} that were "
        "measured: what changes give is left out."
    )
    return None


def _uncertainty(network: Network, summary: ApplicationSummary, shares: Mapping[str, float]) -> dict[str, float]:
    """The relative uncertainty of each limit: from the demands' intervals, or from errors of response times."""
    by_tier = {tier: _relative(summary.demands, tier, shares) for tier in network.tiers}
    found = {f"{QUOTA}{tier}": min(0.9, share) for tier, share in by_tier.items()}
    for name in network.limits(shares):
        what, _, whose = name.partition(" of ")
        own = [by_tier[tier] for tier in whose.split(", ") if tier in by_tier]
        found[name] = min(0.9, max(own, default=0.0))
        if what in ("workers", "connections"):
            found[name] = min(0.9, _own_error(summary.model))
    return found


def _own_error(model: Model | None) -> float:
    """Of mean response times, relative."""
    own = model.errors_beyond_chance.get("mean") if model is not None else None
    return own.high if own is not None else 0.5


def _relative(measured: Sequence[Demand], tier: str, shares: Mapping[str, float]) -> float:
    own = [each for each in measured if each.tier == tier]
    total = sum(shares.get(each.endpoint, 0.0) * each.seconds.estimate for each in own)
    wide = sum((shares.get(each.endpoint, 0.0) * (each.seconds.high - each.seconds.low) / 2) ** 2 for each in own)
    return wide**0.5 / total if total > 0 else 0.0


def _first_two(causes: Sequence[Cause], starting: Starting | None, knee: Knee) -> tuple[Cause, Cause | None]:
    if knee.is_lower_bound:
        unknown = Cause(tier=None, cause="unknown", because=f"the load did not reach the knee: {knee.stopped_because}")
        return unknown, None
    if not causes:
        because = (
            "no tier's processor, workers, connections, locks or disk were shown to be at their end in the step beyond "
            "the knee; a machine without other work, or the tiers on cores of their own, would show more"
        )
        return Cause(tier=None, cause="unknown", because=because), None
    first = causes[0].model_copy(update={"limit_requests_per_second": knee.requests_per_second.estimate})
    following = starting.next_one() if starting is not None else None
    if following is None:
        return first, causes[1] if len(causes) > 1 else None
    name, limit = following
    what, _, tiers = name.partition(" of ")
    tier = max(tiers.split(", "), key=lambda each: _cpu(starting, each)) if starting is not None else tiers
    cause = {"cores": "cpu", "processes": "cpu"}.get(what, what)
    return first, Cause(tier=tier, cause=cause, because=f"{name}, by the model", limit_requests_per_second=limit)


def _cpu(starting: Starting, tier: str) -> float:
    return sum(share * starting.network.demands.get((name, tier), 0.0) for name, share in starting.shares.items())
