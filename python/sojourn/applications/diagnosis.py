"""Identifies the bottleneck tier and its cause: the resource that was saturated in the step beyond the knee.

Causes come before effects. A busy processor fills every queue in front of it, so it is checked first; then waits of
requests in the database; then whatever occupies the workers. If nothing was saturated, no cause is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.applications.summary import Cause, StepFigures, TierDescription
from sojourn.text import format
from sojourn.tiers import php_fpm
from sojourn.tiers.watch import TierUse

CPU_MAX = 0.85
"""The CPU limit: the share of the available cores that the tiers use."""
CPU_WITH_OTHERS_MAX = 0.93
"""The same including the work of other programs; the tiers then have at least half of what is used."""
STARVED_BUSY_MIN = 0.8
"""The same where threads starve."""
STARVED_MIN = 2.0
"""The limit of runnable threads without a core, on average, which must also exceed the running ones."""
PROCESS_MAX = 0.88
"""The CPU limit of a process whose threads take turns on one core."""
ALONE = 1.5
"""A tier that uses less than this multiple of its busiest process has a single active process."""
THREAD_MIN = 0.7
"""The share of a tier's CPU time that its busiest thread has, if it does one thing at a time: beside it, a runtime
collects its garbage. Of several threads, some wait for cores while others sleep.
"""
WAITING_MIN = 1.0
"""The limit of backends waiting for the same kind of event, on average: at least one at all times."""
WAITING_SHARE = 0.4
"""The limit of their share of the active backends."""
BLOCKED_MIN, BLOCKED_GROWTH_MIN = 0.7, 2.0
"""The limit of threads waiting for a disk, on average, and as a multiple of those that wait with little load: where
others load the disk, threads wait for it at any load.
"""
POOL_MAX = 0.88
"""The limit of a connection pool's usage: nearly always exhausted."""
POOL_WAITS_MIN = 0.5
QUICK = 0.25
OUTSIDE_SHARE = 0.55
"""The share of the workers' time spent on an external service above which that service is the cause."""
NORMAL = 1.96
"""Standard deviations on either side of a 95 % interval."""


@dataclass(frozen=True)
class CoreGroup:
    """Tiers that share cores."""

    tiers: tuple[str, ...]
    cores: int


def core_groups(tiers: Sequence[TierDescription]) -> list[CoreGroup]:
    """Groups this machine's tiers by the cores they share; a tier with its own cores forms a group."""
    groups: list[tuple[set[str], set[int]]] = []
    for tier in tiers:
        if not tier.cores:
            continue
        names, cores = {tier.name}, set(tier.cores)
        for group in [group for group in groups if group[1] & cores]:
            groups.remove(group)
            names |= group[0]
            cores |= group[1]
        groups.append((names, cores))
    ordered = [each.name for each in tiers]
    return [CoreGroup(tuple(sorted(names, key=ordered.index)), len(cores)) for names, cores in groups]


def busy_cores(step: StepFigures, tiers: Sequence[TierDescription]) -> float | None:
    """How many of the cores that these tiers may use were busy, whatever used them; None if that is not known."""
    if not step.busy_by_core:
        return step.machine_busy_cores
    return sum(step.busy_by_core.get(core, 0.0) for core in {core for tier in tiers for core in tier.cores})


@dataclass(frozen=True)
class Evidence:
    """The steps of an assessment by what they tell of the bottleneck."""

    steps: Sequence[StepFigures]
    top: StepFigures
    """The step beyond the knee that was made to tell the bottleneck."""
    tiers: Sequence[TierDescription]
    """As they were declared: clients first, the database last."""

    @property
    def below(self) -> list[StepFigures]:
        """The steps that passed, of whatever mix."""
        return [step for step in self.steps if step.failed_because is None]

    @property
    def lowest(self) -> StepFigures:
        """The step with the least load."""
        return min(self.below, key=lambda step: step.offered_requests_per_second)

    @property
    def beyond(self) -> list[StepFigures]:
        """The steps of the log's mix beyond the knee; `top` alone if there is none.

        Connections are counted over all of them, since there are few counts in a step of seconds.
        """
        failed = [step for step in self.steps if step.failed_because is not None and not step.failed_by_generator]
        return [step for step in failed if step.tells_the_knee] or [self.top]


@dataclass(frozen=True)
class Outside:
    """The external destination of most of a tier's connections."""

    where: str = ""
    count: float = 0.0
    """The mean number of connections, over all saturated steps."""
    samples: int = 1
    """How often they were counted."""

    def share(self, workers: float) -> tuple[float, float]:
        """The share of so many workers that wait there, with its sampling error (95 %).

        Where a worker is at one moment hardly tells where it is at the next, so each of them is a sample.
        """
        share = min(1.0, self.count / workers) if workers > 0 else 0.0
        return share, NORMAL * (share * (1 - share) / max(1.0, workers * self.samples)) ** 0.5


@dataclass(frozen=True)
class AtWork:
    """What a tier works on while requests are in the system."""

    owner: str
    held: float
    """Requests that are worked on."""
    in_system: float
    outside: Outside

    def waits_outside(self) -> bool:
        """Whether most of it waits for a service that is no tier, beyond what counting leaves to chance."""
        share, error = self.outside.share(self.held)
        return share - error >= OUTSIDE_SHARE

    def causes(self) -> Iterable[Cause]:
        """The workers, and what they wait for, if more requests wait than are worked on though no processor is busy."""
        if self.in_system < 1.5 * self.held:
            return
        share, error = self.outside.share(self.held)
        if share >= OUTSIDE_SHARE:
            known = f" (give or take {error * self.held:.1f})" if share - error < OUTSIDE_SHARE else ""
            because = (
                f"{self.outside.count:.1f}{known} of the about {self.held:.0f} requests that {self.owner} works on "
                f"wait for {self.outside.where}, which is no tier; the others wait for a worker"
            )
            yield Cause(tier=self.owner, cause="outside", because=because)
        because = (
            f"{self.owner} works on about {self.held:.0f} requests at a time while {self.in_system:.0f} are in the "
            "system: its workers are used up, and no processor is"
        )
        yield Cause(tier=self.owner, cause="workers", because=because)


def find(evidence: Evidence) -> list[Cause]:
    """The causes in order; empty if nothing was saturated."""
    top, beyond, tiers = evidence.top, evidence.beyond, evidence.tiers
    # With more load, a process that kept connections prefer leaves the more to others, and waits for cores itself.
    alone = [*_processes(top, tiers), *_processes(nearest(beyond), tiers)]
    found = [*_processors(top, tiers, CPU_MAX), *alone, *_waits(evidence.lowest, top, tiers)]
    # Starving threads show contention for cores, but a thread that waits for a lock does not wait for a core. Where
    # most workers wait for a service, threads come back from it in bursts, and starve beside cores that are often idle.
    working = at_work(evidence)
    starving_tells = working is None or not working.waits_outside()
    found += [*_processors(top, tiers, 0.0, starving_tells=starving_tells), *_pool(top, beyond, tiers)]
    if not any(each.cause == "cpu" for each in found) and not _is_crowded(top, tiers):
        found += [*_busy_workers(top, beyond, tiers), *(working.causes() if working is not None else ())]
    return list(_first_of_each(found))


def _processors(
    top: StepFigures, tiers: Sequence[TierDescription], least: float, *, starving_tells: bool = True
) -> Iterable[Cause]:
    """Saturated processors of which the tiers themselves use at least this share.

    A processor is saturated with idle time, too, if threads starve and that `starving_tells`.
    """
    for group in core_groups(tiers):
        used = {name: top.tiers[name].cpu_cores or 0.0 for name in group.tiers}
        total = sum(used.values())
        others = max(0.0, (busy_cores(top, [each for each in tiers if each.name in used]) or 0.0) - total)
        waiting = sum(top.tiers[name].core_wait_threads or 0.0 for name in group.tiers)
        starved = waiting >= STARVED_MIN and waiting > 1.5 * total
        # Where other programs have more of the cores than the tiers, it is not the tiers that end the growth.
        enough = total >= group.cores / 2 or (starved and total >= others)
        # A stall, as of a disk, may have left the cores idle for a part of the step in which threads starved otherwise.
        busy = STARVED_BUSY_MIN if starved and starving_tells else CPU_WITH_OTHERS_MAX
        crowded = total + others >= busy * group.cores and enough
        if total >= least * group.cores and (total >= CPU_MAX * group.cores or crowded):
            most = max(used, key=lambda name: used[name])
            shared = f" (of {total:.2f} that all tiers there use)" if len(used) > 1 else ""
            rest = f"; other programs take {others:.2f}" if total < CPU_MAX * group.cores else ""
            said = f"{most} uses {used[most]:.2f} cores{shared}, of the {group.cores} that there are{rest}"
            yield Cause(tier=most, cause="cpu", because=said)


def _is_crowded(top: StepFigures, tiers: Sequence[TierDescription]) -> bool:
    """Returns true if the tiers' threads wait for cores used by others, so that other waits cannot be identified."""
    cores = sum(group.cores for group in core_groups(tiers))
    waiting = sum(top.tiers[tier.name].core_wait_threads or 0.0 for tier in tiers)
    return waiting >= 1.0 and (busy_cores(top, tiers) or 0.0) >= CPU_WITH_OTHERS_MAX * cores > 0


def _processes(top: StepFigures, tiers: Sequence[TierDescription]) -> Iterable[Cause]:
    for tier in tiers:
        figures = top.tiers[tier.name]
        busiest, total = figures.busiest_process_cores, figures.cpu_cores
        if busiest is None or total is None:
            continue
        if is_one_full_process(figures):
            because = f"one process of {tier.name} uses {busiest:.2f} cores, and more is not for it if its threads "
            yield Cause(tier=tier.name, cause="cpu", because=because + "take turns; further processes would")
        elif total <= ALONE * busiest and never_sleeps(figures):
            because = (
                f"one process of {tier.name} runs for {total:.0%} of the time and waits for a core for "
                f"{figures.core_wait_threads or 0.0:.0%}: it never sleeps"
            )
            yield Cause(tier=tier.name, cause="cpu", because=because)


def is_one_full_process(use: TierUse) -> bool:
    """Whether a single process of a tier is at its end; among several busy ones, it is no limit of its own."""
    busiest, total = use.busiest_process_cores or 0.0, use.cpu_cores or 0.0
    return busiest >= PROCESS_MAX and total <= ALONE * busiest


def nearest(beyond: Sequence[StepFigures]) -> StepFigures:
    """The first step beyond the knee, where it began: with more load, others come to their ends, too."""
    return min(beyond, key=lambda step: step.offered_requests_per_second)


def never_sleeps(use: TierUse) -> bool:
    """Whether a tier is a single thread that does one thing at a time, and runs or waits for a core all the time."""
    total, thread = use.cpu_cores or 0.0, use.busiest_thread_cores or 0.0
    return thread >= THREAD_MIN * total > 0 and PROCESS_MAX <= total + (use.core_wait_threads or 0.0) <= ALONE


def _waits(low: StepFigures, top: StepFigures, tiers: Sequence[TierDescription]) -> Iterable[Cause]:
    database = top.database
    tier = tiers[-1].name if tiers else None
    if database is not None:
        working = max(database.active, 1.0)
        for kind, cause, what in (("Lock", "lock", "a lock that another has"), ("IO", "disk", "the disk")):
            waiting = database.waits.get(kind, 0.0)
            if waiting >= WAITING_MIN and waiting >= WAITING_SHARE * working:
                because = f"{waiting:.1f} of {database.active:.1f} backends at work wait for {what}"
                yield Cause(tier=tier, cause=cause, because=because)
    for each in tiers:
        blocked, for_cores = top.tiers[each.name].blocked_threads, top.tiers[each.name].core_wait_threads or 0.0
        anyway = low.tiers[each.name].blocked_threads or 0.0
        # If more threads wait for cores, one that waits for a disk leaves its core to them.
        if blocked is not None and blocked >= max(BLOCKED_MIN, BLOCKED_GROWTH_MIN * anyway, for_cores):
            because = f"{blocked:.1f} threads of {each.name} wait for a disk at any time"
            yield Cause(tier=each.name, cause="disk", because=because)


def _pool(top: StepFigures, beyond: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> Iterable[Cause]:
    if len(tiers) < 2:
        return
    owner = tiers[-2].name
    waiting = {name: value for name, value in top.levels.items() if _is_pool_wait(name) and value >= POOL_WAITS_MIN}
    database = top.database
    if waiting:
        name, value = max(waiting.items(), key=lambda item: item[1])
        kept = f"; {database.in_transaction:.1f} are kept idle in a transaction" if database is not None else ""
        yield Cause(
            tier=owner,
            cause="connections",
            because=f"requests of {owner} wait for a connection to the database ({name} is {value:.1f}){kept}",
        )
    elif database is not None and database.backends >= 1:
        used = database.active + database.in_transaction
        share, _ = _outside(beyond, tiers, owner).share(used)
        if used >= POOL_MAX * database.backends and share < OUTSIDE_SHARE:
            because = f"{used:.1f} of {database.backends:.1f} connections to the database are in use at any time"
            yield Cause(tier=owner, cause="connections", because=because)


def _busy_workers(top: StepFigures, beyond: Sequence[StepFigures], tiers: Sequence[TierDescription]) -> Iterable[Cause]:
    """Workers that say themselves that all of them are active, while requests wait."""
    active, total, waiting = (top.levels.get(name) for name in (php_fpm.ACTIVE, php_fpm.TOTAL, php_fpm.WAITING))
    if active is None or not total or waiting is None or active < POOL_MAX * total or waiting < POOL_WAITS_MIN:
        return
    owner = next((each.name for each in tiers if (each.command or "").startswith("php-fpm")), None)
    # Whether they wait for somebody outside, Little's law tells.
    if owner is not None and _outside(beyond, tiers, owner).share(active)[0] < OUTSIDE_SHARE:
        because = f"{active:.1f} of {total:.1f} workers of php-fpm are active, and {waiting:.1f} requests wait for one"
        yield Cause(tier=owner, cause="workers", because=because)


def at_work(evidence: Evidence) -> AtWork | None:
    """What is worked on beyond the knee; None where it is not known."""
    held = held_workers(unhindered_seconds(evidence.below), evidence.top)
    if held is None or not evidence.tiers:
        return None
    owner = _owner_of_workers(evidence)
    return AtWork(owner, held, evidence.top.in_system, _outside(evidence.beyond, evidence.tiers, owner))


def connected(evidence: Evidence) -> tuple[str, float]:
    """The tier with the workers, and its mean number of connections to the tiers behind it."""
    owner = _owner_of_workers(evidence)
    names = [tier.name for tier in evidence.tiers]
    ports = {str(tier.port) for tier in evidence.tiers[names.index(owner) + 1 :] if tier.port is not None}
    counts, samples = _connections_to([step.tiers[owner] for step in evidence.beyond])
    return owner, sum(count for where, count in counts.items() if where.rpartition(":")[2] in ports) / samples


def held_workers(unhindered: Mapping[str, float], top: StepFigures) -> float | None:
    """The number of requests being processed, by Little's law: saturated throughput times the time without waiting."""
    known = [each for each in top.endpoints if each.name in unhindered]
    held = sum(each.requests_per_second * unhindered[each.name] for each in known)
    return held if known else None


def unhindered_seconds(steps: Sequence[StepFigures]) -> dict[str, float]:
    """The response time of each endpoint in an idle system: the fastest quarter of its steps below the knee."""
    found: dict[str, list[float]] = {}
    for step in steps:
        for each in step.endpoints:
            if each.response_time_mean_seconds is not None:
                found.setdefault(each.name, []).append(each.response_time_mean_seconds)
    return {name: float(np.quantile(times, QUICK)) for name, times in found.items()}


def _owner_of_workers(evidence: Evidence) -> str:
    """The last tier with queued incoming connections: those behind it have as many as before."""
    low, top, tiers = evidence.lowest, evidence.top, evidence.tiers
    is_alone = len(tiers) == 1 or (top.database is None and len(tiers) < 3)
    candidates = tiers if is_alone else tiers[:-1]
    gathered = [
        tier.name
        for tier in candidates
        if _connections(top.tiers[tier.name]) >= 2 * max(1.0, _connections(low.tiers[tier.name]))
    ]
    return (gathered or [candidates[-1].name])[-1]


def _connections(use: TierUse) -> float:
    """Incoming connections. A tier whose workers take one at a time leaves the others to be accepted."""
    return (use.incoming_connections or 0.0) + (use.accept_queue or 0.0)


def _outside(steps: Sequence[StepFigures], tiers: Sequence[TierDescription], owner: str) -> Outside:
    """The external destination of most of a tier's connections, with their mean number over steps."""
    ports = {str(tier.port) for tier in tiers if tier.port is not None}
    counts, samples = _connections_to([step.tiers[owner] for step in steps])
    outside = {where: count for where, count in counts.items() if where.rpartition(":")[2] not in ports}
    if not outside:
        return Outside()
    where = max(outside, key=lambda each: outside[each])
    return Outside(where, outside[where] / samples, samples)


def _connections_to(uses: Sequence[TierUse]) -> tuple[Mapping[str, float], int]:
    """A tier's connections by destination, summed over samples, and the number of these."""
    counts = defaultdict[str, float](float)
    for use in uses:
        for where, count in use.outgoing_connections.items():
            counts[where] += count * (use.connection_samples or 1)
    return counts, sum(use.connection_samples or 1 for use in uses)


def _is_pool_wait(name: str) -> bool:
    words = name.partition("{")[0].lower()
    return "pool" in words and ("waiting" in words or "pending" in words or "queue" in words)


def _first_of_each(found: Iterable[Cause]) -> Iterable[Cause]:
    seen = set()
    for each in found:
        if (each.tier, each.cause) not in seen:
            seen.add((each.tier, each.cause))
            yield each


def in_words(cause: Cause) -> str:
    """Describes a cause in a sentence."""
    names = {
        "cpu": "its processor time is used up",
        "workers": "its workers are used up",
        "connections": "its connections to the database are used up",
        "lock": "requests wait for a lock",
        "disk": "requests wait for the disk",
        "outside": "its workers wait for a service elsewhere",
    }
    limit = cause.limit_requests_per_second
    upto = f", at about {format.rate(limit)}" if limit is not None else ""
    if cause.tier is None or cause.cause not in names:
        return f"unknown: {cause.because}"
    return f"{cause.tier}: {names[cause.cause]}{upto} ({cause.because})"
