"""Predicts the effect of changes: each resource's limit after a change, and the smallest of them.

The bottleneck's limit is the measured knee, which a change scales as the network predicts. Other limits are the
network's own, but at least the knee, which these resources sustained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sojourn.applications.modification import Modification
from sojourn.applications.network import Background, Network
from sojourn.applications.prices import Prices
from sojourn.applications.summary import Cause, Change, Knee
from sojourn.failure import CouldNotRun
from sojourn.results.records import Interval

CACHED_FRACTION = 0.6
GAIN_MIN = 1.01
CORES = "cores of "
QUOTA = "quota of "


@dataclass(frozen=True)
class Starting:
    """The starting point of changes: the network, its bottleneck and the measured knee."""

    network: Network
    bottleneck: str
    """The name of the bottleneck's limit in the network."""
    tier: str | None
    """The tier that has the bottleneck."""
    knee: Knee
    shares: Mapping[str, float]
    uncertainty: Mapping[str, float]
    """The relative uncertainty of each resource's limit, except the bottleneck's."""

    @classmethod
    def of(
        cls,
        network: Network,
        cause: Cause,
        knee: Knee,
        shares: Mapping[str, float],
        uncertainty: Mapping[str, float],
    ) -> Starting | None:
        """Builds it; None if the network does not have the bottleneck."""
        name = limit_of(network, cause, shares)
        return None if name is None else cls(network, name, cause.tier, knee, shares, uncertainty)

    def capacity(self, changed: Network) -> tuple[Interval, str]:
        """The capacity of a changed network, and the name of its limiting resource.

        Raises:
            CouldNotRun: it has none.
        """
        before, after = self.network.limits(self.shares), changed.limits(self.shares)
        measured = self.knee.requests_per_second
        found = dict[str, Interval]()
        for name, limit in after.items():
            # Cores that a change adds are assumed to perform like the present ones.
            like = name if name in before or not name.startswith(CORES) else self.bottleneck
            if like == self.bottleneck and (name in before or self.bottleneck.startswith(CORES)):
                factor = limit / before[self.bottleneck]
                found[name] = Interval(
                    estimate=measured.estimate * factor, low=measured.low * factor, high=measured.high * factor
                )
                continue
            least = measured.estimate * limit / before[name] if name in before else 0.0
            estimate, share = max(limit, least), self.uncertainty.get(name, 0.0)
            low, high = self._ends(changed, name, estimate)
            found[name] = Interval(estimate=estimate, low=low * (1 - share), high=high * (1 + share))
        if not found:
            raise CouldNotRun("nothing is left that limits the changed system", "change less of it")
        name = min(found, key=lambda each: found[each].estimate)
        low, high = (min(getattr(each, end) for each in found.values()) for end in ("low", "high"))
        return Interval(estimate=found[name].estimate, low=min(low, found[name].estimate), high=high), name

    def _ends(self, changed: Network, name: str, estimate: float) -> tuple[float, float]:
        """What a limit lies between if the demands are right."""
        tier = name.removeprefix(QUOTA)
        if tier == name or tier not in changed.quotas:
            return estimate, estimate
        return changed.quota_limits(tier, self.shares)

    def next_one(self) -> tuple[str, float] | None:
        """The next resource to saturate, with its limit."""
        limits = self.network.limits(self.shares)
        others = {
            name: max(limit, self.knee.requests_per_second.estimate)
            for name, limit in limits.items()
            if name != self.bottleneck
        }
        name = min(others, key=lambda each: others[each], default=None)
        return None if name is None else (name, others[name])

    def beside(self, modification: Modification, cores: float) -> Interval:
        """What a change gives where other programs take so many of the cores that tiers share.

        Raises:
            CouldNotRun: the network does not have what it changes.
        """
        starting = self._declared(modification)
        changed = modification.applied(starting.network, self.tier)
        return starting.capacity(replace(changed, background=Background(cores)))[0]

    def change(self, modification: Modification, prices: Prices | None) -> Change:
        """The gain and the cost of a change.

        Raises:
            CouldNotRun: the network does not have the resource to change.
        """
        starting = self._declared(modification)
        capacity, limited_by = starting.capacity(modification.applied(starting.network, self.tier))
        return Change(
            what=modification_in_words(modification, starting.network, self.tier),
            setting=str(modification),
            capacity=capacity,
            factor=capacity.estimate / self.knee.requests_per_second.estimate,
            limited_by=limited_by,
            cost=_cost(modification, starting.network, self.tier, prices),
        )

    def _declared(self, modification: Modification) -> Starting:
        network = modification.declared(self.network, self.tier)
        return Starting(network, self.bottleneck, self.tier, self.knee, self.shares, self.uncertainty)


def limit_of(network: Network, cause: Cause, shares: Mapping[str, float]) -> str | None:
    """The name of a cause's limit in the network."""
    limits = network.limits(shares)
    tier = cause.tier or ""
    names = {
        "cpu": [
            *(name for name in limits if name.startswith(CORES) and tier in name.removeprefix(CORES).split(", ")),
            f"processes of {tier}",
            f"quota of {tier}",
        ],
        "workers": [f"workers of {tier}"],
        "outside": [f"workers of {tier}"],
        "connections": [f"connections of {tier}"],
        "lock": [f"lock of {tier}"],
        "disk": [f"disk of {tier}"],
    }.get(cause.cause, [])
    known = [name for name in names if name in limits]
    return min(known, key=lambda name: limits[name], default=None)


def usual(starting: Starting) -> list[Modification]:
    """The obvious changes for the network."""
    network, shares = starting.network, starting.shares
    found = [Modification("cores", None, 2.0, is_factor=True)]
    for tier in network.tiers:
        if any(network.demands.get((name, tier), 0.0) > 0 for name in network.endpoints):
            found.append(Modification("server", tier, 2.0))
    found += [Modification("processes", tier, 2.0, is_factor=True) for tier in network.processes]
    found += [Modification(each.what, each.tier, 2.0, is_factor=True) for each in network.places]
    found.append(Modification("service", None, 0.5, is_factor=True))
    if network.serial is not None:
        found.append(Modification(network.serial.what, network.serial.tier, 0.5, is_factor=True))
    heaviest = max(shares, key=lambda name: shares[name] * _whole(network, name))
    found.append(Modification("cache", None, CACHED_FRACTION, endpoints=(heaviest,)))
    return found


def changes(starting: Starting | None, prices: Prices | None) -> list[Change]:
    """The obvious changes with an effect, the largest first."""
    if starting is None or starting.knee.is_lower_bound:
        return []
    made = []
    for each in usual(starting):
        try:
            made.append(starting.change(each, prices))
        except CouldNotRun:
            # Not applicable to this system.
            continue
    return sorted((each for each in made if each.factor > GAIN_MIN), key=lambda change: -change.factor)


def modification_in_words(modification: Modification, network: Network, otherwise: str | None) -> str:
    """Describes a change."""
    tier, number = modification.tier or otherwise, f"{modification.after:g}"
    places = {(each.what, each.tier): each.count for each in network.places}
    if modification.kind in ("workers", "connections", "processes"):
        seen = network.processes.get(tier or "") if modification.kind == "processes" else None
        before = modification.before or places.get((modification.kind, tier or "")) or seen
        after = round(before * modification.after) if modification.is_factor and before else number
        return (
            f"{modification.kind} of {tier} {before:g} → {after}"
            if before
            else f"{modification.kind} of {tier}: {after}"
        )
    if modification.kind == "cores" and modification.tier is None:
        return f"{number} times the cores" if modification.is_factor else f"{number} cores"
    if modification.kind == "cores":
        return f"{number} cores for {tier}"
    if modification.kind == "cache":
        return f"a cache that answers {modification.after:.0%} of {', '.join(modification.endpoints)}"
    return {
        "server": f"a second server for {tier}",
        "cpu": f"{number} of the CPU time in {tier}",
        "service": f"{number} of the time that requests wait elsewhere",
        "disk": f"a disk that takes {number} of the time",
        "lock": f"{number} of the time under the lock",
    }[modification.kind]


def _whole(network: Network, name: str) -> float:
    return network.waits.get(name, 0.0) + sum(network.demands.get((name, tier), 0.0) for tier in network.tiers)


def _cost(modification: Modification, network: Network, otherwise: str | None, prices: Prices | None) -> str | None:
    if prices is None:
        return None
    tier = modification.tier or otherwise
    places = {(each.what, each.tier): float(each.count) for each in network.places}
    before = {
        "processes": float(network.processes.get(tier or "", 0)),
        "cores": float(max((group.cores for group in network.groups), default=0)),
        "server": 1.0,
    }.get(modification.kind, places.get((modification.kind, tier or ""), 0.0))
    if modification.kind in ("cpu", "service", "disk", "lock", "cache"):
        return prices.cost(modification.tier, modification.kind, 1.0)
    before = modification.before or before
    after = before * modification.after if modification.is_factor else modification.after
    return prices.cost(tier, modification.kind, after - before)
