"""The application as a queueing network: shared cores, processes that take turns, waits, and places held.

If the number of places (workers, pool connections) is a limit, a request holds one while it uses CPU time of this tier
and those behind it, and while it waits for external services (`holds`, in a system file). CPU times come from the
utilisation law, their stretch from `contention`, and the remaining response time is a wait. A request's size is drawn
once and scales all its parts, with the spread measured at low load.

Means come directly from the layered approximation; percentiles from simulating the system file.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sojourn import _native
from sojourn.applications.contention import Load, Stretch, stretches, utilisation
from sojourn.applications.diagnosis import CoreGroup
from sojourn.assessment.verification.predictions import mean_wait
from sojourn.calibration.estimate import FloatArray

HALF_WIDTH = 0.02
JOBS_MAX = 400_000
REPLICATIONS = 40
"""Of a step's requests. Their spread tells how far a measurement may be from the model if the model is right."""
RATE_MIN = 1e-6
"""In a system file, of a class whose arrivals are given (1/s)."""
NORMAL = 1.96
"""Standard errors on either side of a 95 % interval."""
HOLDING_MIN = 0.1
"""An endpoint with less than this share of the mean CPU time in the tier with limited places does not use them."""
ROUTES_MAX = 16
"""The most routes through processes that are modelled separately; beyond, the last tier's processes form one station.
"""
UNIT_BYTES = 1000
"""The size of a mean request in the system file, where sizes represent the common factor of all parts."""
BISECTIONS = 12
NEARLY_FULL = 0.92
NOTHING_SECONDS = 1e-7
SATURATION_WIDTH = 2e-3
"""The relative precision of the load at which cores saturate."""
SATURATED = 0.98
"""The share of the cores' capacity used to compute place holding times at higher loads."""
SHAPE_VALUES = 100


@dataclass(frozen=True)
class Places:
    """A limited number of concurrent requests in a tier and those behind it."""

    what: str
    """`workers`, or `connections` of a pool."""
    tier: str
    count: int


@dataclass(frozen=True)
class Serial:
    """A resource that serves one request at a time: a lock or a disk."""

    what: str
    tier: str
    seconds: float
    """Seconds per request of the log's mix."""


@dataclass(frozen=True)
class Background:
    """Cores used outside the tiers: by the load generator and probes."""

    fixed: float = 0.0
    per_request: float = 0.0
    """Core seconds per request."""

    def at(self, rate: float) -> float:
        """Cores in use at a load in requests/s."""
        return self.fixed + self.per_request * rate


@dataclass(frozen=True)
class Figures:
    """An endpoint's response times in a step, over replications of it."""

    mean_seconds: float
    p95_seconds: float
    mean_within: float
    """How far from it, relative, the mean of the same requests may be by chance (95 %)."""
    p95_within: float


@dataclass(frozen=True)
class Network:
    """The fitted network."""

    endpoints: tuple[str, ...]
    tiers: tuple[str, ...]
    """The tiers, the one nearest to clients first."""
    groups: tuple[CoreGroup, ...]
    demands: Mapping[tuple[str, str], float]
    """CPU seconds per request on fully busy cores, by endpoint and tier."""
    waits: Mapping[str, float]
    """Other time of an endpoint's request in an idle system, in seconds."""
    processes: Mapping[str, int] = field(default_factory=dict)
    """Tiers whose processes take turns, one core each; other tiers have a process or thread per request."""
    places: tuple[Places, ...] = ()
    serial: Serial | None = None
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Upper limits on the cores that a tier may use."""
    background: Background = Background()
    falls: Mapping[str, float] = field(default_factory=dict)
    """Additional CPU time per request on idle cores, relative, by tier."""
    shapes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By endpoint, equally likely relative sizes of a request; exponential if empty."""

    def limits(self, shares: Mapping[str, float]) -> dict[str, float]:
        """The limit of each resource in total requests/s, by name."""
        found = {}
        for group in self.groups:
            limit = self._saturation(group, shares)
            if limit is not None:
                found[f"cores of {', '.join(group.tiers)}"] = limit
        for tier, count in self.processes.items():
            if self._cpu(shares, tier) > 0:
                found[f"processes of {tier}"] = self._limit_of_cpu(tier, count, shares)
        most = min(found.values(), default=math.inf)
        for tier, cores in self.quotas.items():
            if self._cpu(shares, tier) > 0:
                found[f"quota of {tier}"] = self._limit_of_cpu(tier, cores, shares)
        if self.serial is not None:
            found[f"{self.serial.what} of {self.serial.tier}"] = 1 / self.serial.seconds
        for each in self.places:
            limit = self._limit_of(each, shares, most)
            if limit is not None:
                found[f"{each.what} of {each.tier}"] = limit
        return found

    def capacity(self, shares: Mapping[str, float]) -> float:
        """The capacity in requests/s."""
        return min(self.limits(shares).values(), default=math.inf)

    def mean_seconds(self, rates: Mapping[str, float]) -> dict[str, float] | None:
        """Mean response times by endpoint; None above capacity."""
        stretched = self._stretches(rates)
        if stretched is None:
            return None
        waiting = self._waits_for_place(rates, stretched)
        if waiting is None:
            return None
        return {
            name: self._passing(name, stretched) + (waiting if self._holds(name, self._fewest()) else 0.0)
            for name in self.endpoints
        }

    def simulated(self, due: Mapping[str, Sequence[float]], seconds: float, seed: int) -> dict[str, Figures] | None:
        """The response times of requests that are due at these times, by endpoint; None if others have all cores.

        The system is empty at the first of them: a load near capacity, or above it, has no steady state within a step.

        Args:
            due: by endpoint, from the begin of the measured time; those due before it, or after its end, are there for
                the others to wait for.
            seconds: how long it is measured.
            seed: of the requests' sizes and times.
        """
        rates = {name: sum(0 <= each < seconds for each in times) / seconds for name, times in due.items()}
        capacity = self._limit_of_cores(rates) if sum(rates.values()) > 0 else 0.0
        if capacity <= 0:
            return None
        scale = min(1.0, SATURATED * capacity / sum(rates.values()))
        arrivals: dict[str, tuple[str, FloatArray]] = {}
        for index, name in enumerate(self.endpoints):
            times = np.sort(np.array(due.get(name, ())))
            measured = (times >= 0) & (times < seconds)
            # A class of its own has those whose times do not count.
            parts = {_class(index): times[measured], f"unmeasured{index}": times[~measured]}
            arrivals |= {class_name: (name, part) for class_name, part in parts.items() if part.size}
        classes = {class_name: name for class_name, (name, _) in arrivals.items()}
        text = self._system_file({name: rate * scale for name, rate in rates.items()}, classes)
        random, said = np.random.default_rng(seed), defaultdict[str, list[tuple[float, float]]](list)
        for replication in range(REPLICATIONS):
            traces = {each: (times, self._sizes(name, times.size, random)) for each, (name, times) in arrivals.items()}
            found = _native.simulate_system(
                text, HALF_WIDTH, JOBS_MAX, seed + replication, targets=["mean", "p95"], traces=traces
            )
            for index, name in enumerate(self.endpoints):
                times = found["classes"].get(_class(index), {}).get("response_time_seconds")
                if times and times["mean"] is not None and times["p95"] is not None:
                    said[name].append((times["mean"], times["p95"]))
        return {name: _figures(np.array(each)) for name, each in said.items()}

    def system_file(self, rates: Mapping[str, float]) -> str:
        """The network as a system file at these rates, with the stretches at that load."""
        classes = {_class(index): name for index, name in enumerate(self.endpoints) if rates.get(name, 0.0) > 0}
        return self._system_file(rates, classes)

    def _system_file(self, rates: Mapping[str, float], classes: Mapping[str, str]) -> str:
        stretched = self._stretches(rates) or self._alone()
        lines = ['name = "application"', ""]
        places = self._fewest()
        if places is not None:
            for part in range(self._parts(places)):
                # Taking a place costs no time; holding it does.
                lines += [f"[stations.places-{part}]  # {places.what} of {places.tier}", 'discipline = "lps"']
                lines += [f"r = {places.count // self._parts(places)}", 'demand = "1ns"', ""]
        for tier, count in self._split().items():
            for place in range(count):
                lines += [f'[stations."{tier}-{place}"]', 'discipline = "ps"', 'demand = "1ns"', ""]
        for tier in self.tiers:
            if tier in self._split():
                continue
            if tier in self.processes:
                lines += [f'[stations."{tier}"]', 'discipline = "ps"', f"servers = {self.processes[tier]}"]
            else:
                lines += [f'[stations."{tier}"]', 'discipline = "is"']
            lines += ['demand = "1ns"', ""]
        lines += ["[stations.elsewhere]", 'discipline = "is"', 'demand = "1ns"', ""]
        for class_name, name in classes.items():
            lines += [f"[classes.{class_name}]  # {name}", f'rate = "{max(rates.get(name, 0.0), RATE_MIN):.6g}/s"']
            lines += [f"document = {self._shape(name)}", *self._routes(class_name, name, stretched), ""]
        return "\n".join(lines)

    def working(self, rates: Mapping[str, float], places: Places) -> float:
        """The number of these places held at some load if there were no limit, by Little's law."""
        # Saturated cores stretch more than at any lower load.
        scale = min(1.0, SATURATED * self._limit_of_cores(rates) / max(sum(rates.values()), 1e-9))
        stretched = self._stretches({name: rate * scale for name, rate in rates.items()}) or self._alone()
        return self._held_at(rates, places, stretched)

    def _cpu(self, shares: Mapping[str, float], tier: str) -> float:
        return sum(share * self.demands.get((name, tier), 0.0) for name, share in shares.items())

    def _stretches(self, rates: Mapping[str, float]) -> dict[str, Stretch] | None:
        total, found, more = sum(rates.values()), dict[str, Stretch](), self._larger(rates)
        for group in self.groups:
            loads = [Load(self._cpu(rates, tier), self.processes.get(tier)) for tier in group.tiers]
            larger = [more[tier] for tier in group.tiers]
            loads = [replace(load, busy_cores=load.busy_cores * more) for load, more in zip(loads, larger, strict=True)]
            factors = stretches(loads, group.cores, self.background.at(total))
            if factors is None or any(each.whole == math.inf for each in factors):
                return None
            for tier, factor, alone in zip(group.tiers, factors, larger, strict=True):
                found[tier] = replace(factor, of_core=factor.of_core * alone, alone=alone)
        return found

    def _passing(self, name: str, stretched: Mapping[str, Stretch]) -> float:
        """The time of a request that does not wait for a place."""
        return self.waits.get(name, 0.0) + sum(
            self.demands.get((name, tier), 0.0) * stretched[tier].whole for tier in stretched
        )

    def _saturation(self, group: CoreGroup, shares: Mapping[str, float]) -> float | None:
        """The load at which cores, or processes competing for them, are always busy."""
        mean = sum(self._cpu(shares, tier) for tier in group.tiers) + self.background.per_request
        if mean <= 0:
            return None
        alone = replace(self, groups=(group,))
        # Other programs may have had all of the cores.
        full = max(0.0, group.cores - self.background.fixed) / mean
        low, high = 0.0, full
        while high - low > SATURATION_WIDTH * high:
            middle = (low + high) / 2
            is_free = alone._stretches({name: share * middle for name, share in shares.items()}) is not None
            low, high = (middle, high) if is_free else (low, middle)
        # Near saturation the layers have no solution.
        return full if low > NEARLY_FULL * full else low

    def _limit_of_cpu(self, tier: str, cores: float, shares: Mapping[str, float]) -> float:
        """The load at which a tier uses this many cores.

        A tier at its own limit always has work: it does not sleep and wake up for each request as on idle cores, so its
        demands are those of busy ones whatever the other cores do.
        """
        return cores / self._cpu(shares, tier)

    def _larger(self, rates: Mapping[str, float]) -> dict[str, float]:
        """The factor on CPU time by tier, because cores are not fully busy."""
        found = dict[str, float]()
        for group in self.groups:
            loads = [Load(self._cpu(rates, tier), None) for tier in group.tiers]
            falls = [self.falls.get(tier, 0.0) for tier in group.tiers]
            busy = utilisation(loads, falls, group.cores, self.background.at(sum(rates.values())))
            found |= {tier: 1 + fall * (1 - min(1.0, busy)) for tier, fall in zip(group.tiers, falls, strict=True)}
        return found

    def _alone(self) -> dict[str, Stretch]:
        return {tier: Stretch(1.0, None) for group in self.groups for tier in group.tiers}

    def _limit_of_cores(self, rates: Mapping[str, float]) -> float:
        total = sum(rates.values())
        return replace(self, places=(), serial=None).capacity({name: rate / total for name, rate in rates.items()})

    def _fewest(self) -> Places | None:
        return min(self.places, key=lambda each: each.count, default=None)

    def _parts(self, places: Places) -> int:
        """The number of queues for places: one per process with its own places, or one in all."""
        count = self.processes.get(places.tier, 1)
        return count if places.what == "workers" and places.tier in self._split() and places.count >= 2 * count else 1

    def _holds(self, name: str, places: Places | None) -> bool:
        if places is None:
            return False
        here = [self.demands.get((each, places.tier), 0.0) for each in self.endpoints]
        return self.demands.get((name, places.tier), 0.0) >= HOLDING_MIN * sum(here) / len(here)

    def _behind(self, places: Places) -> tuple[str, ...]:
        """The tiers whose CPU time is used while holding a place."""
        return self.tiers[self.tiers.index(places.tier) :] if places.tier in self.tiers else self.tiers

    def _held(self, name: str, places: Places, stretched: Mapping[str, Stretch]) -> float:
        if not self._holds(name, places):
            return 0.0
        return self.waits.get(name, 0.0) + sum(
            self.demands.get((name, tier), 0.0) * stretched[tier].whole
            for tier in self._behind(places)
            if tier in stretched
        )

    def _held_at(self, rates: Mapping[str, float], places: Places, stretched: Mapping[str, Stretch]) -> float:
        """The number of places held, by Little's law."""
        return sum(rate * self._held(name, places, stretched) for name, rate in rates.items())

    def _limit_of(self, places: Places, shares: Mapping[str, float], most: float) -> float | None:
        """The throughput at which all places are held, which busy cores lower; None if cores saturate first."""
        alone = self._alone()
        held = sum(share * self._held(name, places, alone) for name, share in shares.items())
        low, high = 0.0, min(SATURATED * most, places.count / max(held, 1e-9))
        if self._is_free(high, shares, places):
            return None
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._is_free(middle, shares, places) else (low, middle)
        return (low + high) / 2

    def _is_free(self, rate: float, shares: Mapping[str, float], places: Places) -> bool:
        rates = {name: share * rate for name, share in shares.items()}
        stretched = self._stretches(rates)
        return stretched is not None and self._held_at(rates, places, stretched) < places.count

    def _waits_for_place(self, rates: Mapping[str, float], stretched: Mapping[str, Stretch]) -> float | None:
        """The mean wait for a place in an M/G/n system (Allen and Cunneen's approximation); None if all are held."""
        places = self._fewest()
        if places is None:
            return 0.0
        holding = {name: rate for name, rate in rates.items() if self._holds(name, places)}
        rate = sum(holding.values())
        if rate == 0:
            return 0.0
        times = {name: self._held(name, places, stretched) for name in holding}
        held = sum(each * times[name] for name, each in holding.items()) / rate
        if rate * held >= places.count // self._parts(places) * self._parts(places):
            return None
        second = sum(each * times[name] ** 2 * self._square(name) for name, each in holding.items()) / rate
        parts = self._parts(places)
        return mean_wait(rate / parts, held, places.count // parts) * second / held**2 / 2

    def _square(self, name: str) -> float:
        shape = self.shapes.get(name)
        return 2.0 if not shape else float(np.mean(np.square(shape)) / np.mean(shape) ** 2)

    def _sizes(self, name: str, count: int, random: np.random.Generator) -> FloatArray:
        shape = self.shapes.get(name)
        if not shape:
            return random.exponential(UNIT_BYTES, count)
        return random.choice(np.array(shape), count) * (UNIT_BYTES / float(np.mean(shape)))

    def _shape(self, name: str) -> str:
        shape = self.shapes.get(name)
        if not shape:
            return f'{{ law = "exponential", mean = "{UNIT_BYTES}B" }}'
        scale = UNIT_BYTES / (sum(shape) / len(shape))
        values = ", ".join(f'"{value * scale:.5g}B"' for value in shape)
        return f'{{ law = "empirical", values = [{values}] }}'

    def _split(self) -> dict[str, int]:
        """Tiers with a station per process."""
        found, ways = dict[str, int](), 1
        for tier, count in self.processes.items():
            if ways * count <= ROUTES_MAX:
                found[tier] = count
                ways *= count
        return found

    def _routes(self, class_name: str, name: str, stretched: Mapping[str, Stretch]) -> list[str]:
        split = self._split()
        used = [tier for tier in split if self.demands.get((name, tier), 0.0) > 0]
        ways = list(itertools.product(*(range(split[tier]) for tier in used)))
        if len(ways) == 1:
            return [f"route = [{self._route(name, stretched, dict(zip(used, ways[0], strict=True)))}]"]
        lines = []
        for place, way in enumerate(ways):
            visits = self._route(name, stretched, dict(zip(used, way, strict=True)))
            lines += [f"[[classes.{class_name}.routes]]", f'name = "way{place}"', f"probability = {1 / len(ways):.9f}"]
            lines.append(f"visits = [{visits}]")
        return lines

    def _route(self, name: str, stretched: Mapping[str, Stretch], way: Mapping[str, int]) -> str:
        places = self._fewest()
        visits, holding = list[str](), self._holds(name, places)
        behind = self._behind(places) if holding and places is not None else ()
        before = [tier for tier in self.tiers if tier not in behind]
        for tier in before:
            visits += self._visit(name, tier, stretched, way, "")
        held = ""
        if holding and places is not None:
            part = way.get(places.tier, 0) if self._parts(places) > 1 else 0
            held = f', holds = "places-{part}"'
            visits.append(f'"places-{part}"')
        for tier in behind:
            visits += self._visit(name, tier, stretched, way, held)
        visits.append(f'{{ station = "elsewhere", demand = {_demand(max(self.waits.get(name, 0.0), 1e-7))}{held} }}')
        return ", ".join(visits)

    def _visit(
        self, name: str, tier: str, stretched: Mapping[str, Stretch], way: Mapping[str, int], held: str
    ) -> list[str]:
        seconds = self.demands.get((name, tier), 0.0) if tier in stretched else 0.0
        if seconds <= 0:
            return []
        station, stretch = f"{tier}-{way[tier]}" if tier in way else tier, stretched[tier]
        visits = [f'{{ station = "{station}", demand = {_demand(seconds * stretch.alone)}{held} }}']
        waiting = seconds * (stretch.of_core - stretch.alone)
        if waiting > NOTHING_SECONDS:
            # The time that others cause hardly depends on the request.
            law = f'{{ law = "exponential", mean = "{waiting * 1e9:.6g}ns" }}'
            visits.append(f'{{ station = "{station}", demand = {law}{held} }}')
        return visits


def _class(index: int) -> str:
    return f"e{index}"


def _figures(said: FloatArray) -> Figures:
    """Of the mean and the p95 of each replication; shape (replications, 2)."""
    mean, p95 = (float(each) for each in said.mean(axis=0))
    of_mean, of_p95 = (NORMAL * float(each) for each in said.std(axis=0))
    return Figures(mean, p95, of_mean / mean if mean else 0.0, of_p95 / p95 if p95 else 0.0)


def _demand(seconds: float) -> str:
    return f'{{ fixed = "0ns", per_byte = "{seconds / UNIT_BYTES * 1e9:.6g}ns/B" }}'


def shape_of(quantiles: Sequence[Sequence[float]], weights: Sequence[float]) -> tuple[float, ...]:
    """The relative sizes of requests, from the quantiles of several steps, weighted."""
    rows = [(row, weight) for row, weight in zip(quantiles, weights, strict=True) if row and weight > 0]
    if not rows:
        return ()
    merged = np.average(np.array([row for row, _ in rows]), axis=0, weights=[weight for _, weight in rows])
    known = np.linspace(0.0, 1.0, merged.size + 2)[1:-1]
    places = (np.arange(SHAPE_VALUES) + 0.5) / SHAPE_VALUES
    values = np.interp(places, known, merged)
    # Beyond the last known quantile, an exponential tail through the last two.
    beyond = places > known[-1]
    scale = float(merged[-1] - merged[-2]) / math.log((1 - known[-2]) / (1 - known[-1]))
    values[beyond] = merged[-1] + scale * np.log((1 - known[-1]) / (1 - places[beyond]))
    mean = float(values.mean())
    return tuple(float(value) / mean for value in values) if mean > 0 else ()
