"""The system as a network of stations: cores that tiers share, waiting elsewhere, and workers held until the answer.

A request takes a place among the workers, if their number limits, and keeps it while it uses cores and waits (`holds`).
Demands are fitted on steps with other mixes; the log's own mix at rising load, which the fit did not see, is what the
network is tried on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sojourn import _native
from sojourn.applications.diagnosis import CoreGroup
from sojourn.applications.summary import Demand, StepFigures

HALF_WIDTH = 0.02
JOBS_MAX = 400_000
WAIT_MIN_SECONDS = 1e-6


@dataclass(frozen=True)
class Network:
    """The fitted network."""

    endpoints: tuple[str, ...]
    groups: tuple[CoreGroup, ...]
    demands: Mapping[tuple[str, tuple[str, ...]], float]
    """Seconds of the cores of a group per request, by endpoint and the group's tiers."""
    waits: Mapping[str, float]
    """Seconds that a request of an endpoint spends otherwise, where nothing is in its way."""
    workers: int | None

    def limits(self, shares: Mapping[str, float]) -> dict[str, float]:
        """Requests/s in all that each resource can take, by its name."""
        found = {}
        for group in self.groups:
            mean = sum(share * self.demands[name, group.tiers] for name, share in shares.items())
            if mean > 0:
                found[f"cores of {', '.join(group.tiers)}"] = group.cores / mean
        if self.workers is not None:
            found["workers"] = self.workers / sum(share * self.held_seconds(name) for name, share in shares.items())
        return found

    def held_seconds(self, endpoint: str) -> float:
        """How long a request keeps its worker where nothing is in its way."""
        return self.waits[endpoint] + sum(self.demands[endpoint, group.tiers] for group in self.groups)

    def mean_seconds(self, rates: Mapping[str, float], seed: int) -> float | None:
        """The mean response time by simulation; None beyond what it can take."""
        total = sum(rates.values())
        if any(total >= limit for limit in self.limits({name: rate / total for name, rate in rates.items()}).values()):
            return None
        try:
            found = _native.simulate_system(self.system_file(rates), HALF_WIDTH, JOBS_MAX, seed)
        except ValueError:
            return None
        return float(found["response_time_seconds"]["mean"])

    def system_file(self, rates: Mapping[str, float]) -> str:
        """The network as a system file, loaded at these rates."""
        lines = ['name = "application"', ""]
        if self.workers is not None:
            # Taking a place costs nothing; keeping it is what counts.
            lines += ["[stations.workers]", 'discipline = "lps"', f"r = {self.workers}", 'demand = "1ns"', ""]
        for place, group in enumerate(self.groups):
            lines += [f"[stations.{_station(place)}]  # {', '.join(group.tiers)}", 'discipline = "ps"']
            lines += [f"servers = {group.cores}", 'demand = "1ns"', ""]
        lines += ["[stations.elsewhere]", 'discipline = "is"', 'demand = "1ns"', ""]
        for index, name in enumerate(self.endpoints):
            if rates.get(name, 0.0) > 0:
                lines += [
                    f"[classes.e{index}]  # {name}",
                    f'rate = "{rates[name]:.6g}/s"',
                    f"route = [{self._route(name)}]",
                ]
                lines.append("")
        return "\n".join(lines)

    def _route(self, name: str) -> str:
        holds = ', holds = "workers"' if self.workers is not None else ""
        visits = ['"workers"'] if self.workers is not None else []
        for place, group in enumerate(self.groups):
            seconds = self.demands[name, group.tiers]
            if seconds > 0:
                visits.append(f'{{ station = "{_station(place)}", demand = {_law(seconds)}{holds} }}')
        seconds = max(self.waits[name], WAIT_MIN_SECONDS)
        visits.append(f'{{ station = "elsewhere", demand = {_law(seconds)}{holds} }}')
        return ", ".join(visits)


def fit(
    unhindered: Mapping[str, float],
    endpoints: Sequence[str],
    demands: Sequence[Demand],
    groups: Sequence[CoreGroup],
    workers: int | None,
) -> Network | None:
    """The network of what was measured below the knee; None where the demands are not known.

    Args:
        unhindered: the response time of each endpoint with nothing in its way.
        endpoints: their names.
        demands: CPU time by endpoint and tier.
        groups: tiers that share cores.
        workers: how many places there are, if they limit.
    """
    by_tier = {(each.endpoint, each.tier): each.seconds.estimate for each in demands}
    known = {tier for _, tier in by_tier}
    used = [CoreGroup(tuple(name for name in group.tiers if name in known), group.cores) for group in groups]
    used = [group for group in used if group.tiers]
    if not used:
        return None
    together = {
        (name, group.tiers): sum(by_tier[name, tier] for tier in group.tiers) for name in endpoints for group in used
    }
    busy = {name: sum(together[name, group.tiers] for group in used) for name in endpoints}
    waits = {name: max(0.0, unhindered.get(name, 0.0) - busy[name]) for name in endpoints}
    return Network(tuple(endpoints), tuple(used), together, waits, workers)


def rates_of(step: StepFigures) -> dict[str, float]:
    """What a step offered."""
    return {each.name: each.offered_requests_per_second for each in step.endpoints}


def _station(place: int) -> str:
    return f"cores{place}"


def _law(seconds: float) -> str:
    return f'{{ law = "exponential", mean = "{seconds * 1e6:.4g}us" }}'
