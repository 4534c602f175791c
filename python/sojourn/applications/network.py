"""The application as a queueing network: shared cores, processes that take turns, waits, and places held.

If the number of places (workers, pool connections) is a limit, a request holds one while it uses CPU time of this tier
and those behind it, and while it waits for external services (`holds`, in a system file). CPU times come from the
utilisation law, their stretch from `contention`, and the remaining response time is a wait. A request's size is drawn
once and scales all its parts, with the spread measured at low load; where CPU times are known to vary less, waits have
the rest of it.

Its limits come from the layered approximation; `simulation` has the times of given requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sojourn.applications.contention import Load, Stretch, stretches, utilisation
from sojourn.applications.diagnosis import CoreGroup

HOLDING_MIN = 0.1
"""An endpoint with less than this share of the mean CPU time in and behind the tier with limited places has none."""
USED_MIN = 0.01
"""An endpoint with less than this share of the mean CPU time in a tier is not seen there."""
SERIAL_MIN = 0.3
"""An endpoint whose wait is shorter, relative to the longest, is not seen to use the lock."""
ROUTES_MAX = 16
"""The most routes through processes that are modelled separately; beyond, the last tier's processes form one station.
"""
BISECTIONS = 12
NEARLY_FULL = 0.92
SATURATION_WIDTH = 2e-3
"""The relative precision of the load at which cores saturate."""
SATURATED = 0.98
"""The share of the cores' capacity used to compute place holding times at higher loads."""
STOPPED_DEARER_MAX = 1.3
"""The CPU time of a request in a tier that its quota stops for most of the time, relative to busy cores: an application
took 1.23 times, a database 1.3 times.
"""
SHAPE_VALUES = 100


@dataclass(frozen=True)
class Places:
    """A limited number of concurrent requests in a tier and those behind it."""

    what: str
    """`workers`, or `connections` of a pool."""
    tier: str
    count: int
    is_shared: bool = False
    """True if a request waits for a place of any process; else each process has its own."""


@dataclass(frozen=True)
class Serial:
    """A resource that serves one request at a time: a lock or a disk."""

    what: str
    tier: str
    seconds: float
    """Seconds per request of the log's mix."""
    part: float = 0.0
    """Of a lock, the part of the waits of those that use it; 0 where that is not known."""
    uses: Mapping[str, float] = field(default_factory=dict)
    """Of a disk, for how many seconds it works on an endpoint's request; empty where that is not known."""


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
    calibration: float = 1.0
    """By how much the demands are larger than measured CPU times, so that a process at its end is always busy."""
    processes: Mapping[str, int] = field(default_factory=dict)
    """Tiers whose processes take turns, one core each; other tiers have a process or thread per request."""
    busiest: Mapping[str, float] = field(default_factory=dict)
    """The share of a tier's requests that one process takes, in a step or beyond the knee, where it is unequal."""
    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How often the tier in front asks a tier for an endpoint's request, where it is more than once."""
    passes: Mapping[str, int] = field(default_factory=dict)
    """How often a request comes to the event loop of a tier, where it is more than once."""
    places: tuple[Places, ...] = ()
    admits: Places | None = None
    """How many requests a tier works on at a time, where that is no limit, as they have all cores by then."""
    serial: Serial | None = None
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Upper limits on the cores that a tier may use."""
    background: Background = Background()
    falls: Mapping[str, float] = field(default_factory=dict)
    """Additional CPU time per request where cores and processes are idle, relative, by tier."""
    shapes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By endpoint, equally likely relative sizes of a request; exponential if empty."""
    variations: Mapping[str, float] = field(default_factory=dict)
    """By endpoint, the squared coefficient of variation of CPU times; that of its sizes if they vary less."""

    def limits(self, shares: Mapping[str, float]) -> dict[str, float]:
        """The limit of each resource in total requests/s, by name."""
        found = {}
        for group in self.groups:
            limit = self._saturation(group, shares)
            if limit is not None:
                found[f"cores of {', '.join(group.tiers)}"] = limit
        for tier, count in self.processes.items():
            if self.cpu(shares, tier) > 0:
                found[f"processes of {tier}"] = self._limit_of_cpu(tier, min(count, 1 / self.share(tier, 0)), shares)
        most = min(found.values(), default=math.inf)
        for tier in self.quotas:
            if self.cpu(shares, tier) > 0:
                found[f"quota of {tier}"] = math.sqrt(math.prod(self.quota_limits(tier, shares)))
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

    def cpu(self, shares: Mapping[str, float], tier: str) -> float:
        """The cores that a tier uses at these rates, if they are fully busy."""
        return sum(share * self.demands.get((name, tier), 0.0) for name, share in shares.items())

    def _stretches(self, rates: Mapping[str, float]) -> dict[str, Stretch] | None:
        total, found, more = sum(rates.values()), dict[str, Stretch](), self.larger(rates)
        for group in self.groups:
            loads = [Load(self.cpu(rates, tier), self.processes.get(tier)) for tier in group.tiers]
            larger = [more[tier] for tier in group.tiers]
            loads = [replace(load, busy_cores=load.busy_cores * more) for load, more in zip(loads, larger, strict=True)]
            factors = stretches(loads, group.cores, self.background.at(total))
            if factors is None or any(each.whole == math.inf for each in factors):
                return None
            for tier, factor, alone in zip(group.tiers, factors, larger, strict=True):
                found[tier] = replace(factor, of_core=factor.of_core * alone)
        return found

    def _saturation(self, group: CoreGroup, shares: Mapping[str, float]) -> float | None:
        """The load at which cores, or processes competing for them, are always busy."""
        mean = sum(self.cpu(shares, tier) for tier in group.tiers) + self.background.per_request
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

    def quota_limits(self, tier: str, shares: Mapping[str, float]) -> tuple[float, float]:
        """The loads between which a tier comes to use all of its quota.

        It always has work then, as on busy cores. But the kernel stops it for most of each period, so that its caches
        are cold, and the other tiers leave the cores idle.
        """
        cores = self.quotas[tier]
        high = self._limit_of_cpu(tier, cores, shares)
        below, above = 0.0, high
        for _ in range(BISECTIONS):
            middle = (below + above) / 2
            rates = {name: share * middle for name, share in shares.items()}
            is_free = self.cpu(rates, tier) * self.larger(rates).get(tier, 1.0) < cores
            below, above = (middle, above) if is_free else (below, middle)
        return min(above, high / STOPPED_DEARER_MAX), high

    def _limit_of_cpu(self, tier: str, cores: float, shares: Mapping[str, float]) -> float:
        """The load at which a tier uses this many cores.

        A tier at its own limit always has work: it does not sleep and wake up for each request as on idle cores, so its
        demands are those of busy ones whatever the other cores do.
        """
        return cores / self.cpu(shares, tier)

    def larger(self, rates: Mapping[str, float]) -> dict[str, float]:
        """The factor on CPU time by tier, because neither the cores nor its processes are fully busy."""
        found = dict[str, float]()
        for group in self.groups:
            loads = [Load(self.cpu(rates, tier), None) for tier in group.tiers]
            falls = [self.falls.get(tier, 0.0) for tier in group.tiers]
            shared = utilisation(loads, falls, group.cores, self.background.at(sum(rates.values())))
            for tier, load, fall in zip(group.tiers, loads, falls, strict=True):
                # A process that does not sleep needs no more on cores that are idle.
                own = utilisation([load], [fall], self.processes[tier], 0.0) if tier in self.processes else 0.0
                found[tier] = 1 + fall * (1 - min(1.0, max(shared, own)))
        return found

    def _alone(self) -> dict[str, Stretch]:
        return {tier: Stretch(1.0, None) for group in self.groups for tier in group.tiers}

    def fewest(self) -> Places | None:
        return min(self.places, key=lambda each: each.count, default=None)

    def parts(self, places: Places) -> int:
        """The number of queues for places: one per process with its own places, or one in all."""
        count = self.processes.get(places.tier, 1)
        return count if places.tier in self.split() and places.count >= count and not places.is_shared else 1

    def one_each(self, places: Places) -> int:
        """The least number of such places: one in each process, or one that all share."""
        return 1 if places.is_shared else self.processes.get(places.tier, 1)

    def as_many(self, places: Places, held: float) -> Places:
        """As many such places as are held on average, the same number in each process."""
        each = self.one_each(places)
        return replace(places, count=max(1, round(held / each)) * each)

    def uses(self, name: str, tier: str) -> bool:
        """Whether an endpoint's requests get to a tier: what the fit leaves to chance is no visit."""
        here = [self.demands.get((each, tier), 0.0) for each in self.endpoints]
        if not any(tier in group.tiers for group in self.groups):
            return False
        return tier == self.tiers[0] or self.demands.get((name, tier), 0.0) > USED_MIN * sum(here) / len(here)

    def holds(self, name: str, places: Places | None) -> bool:
        if places is None:
            return False
        # The less of a request's work is in the tier itself, the less certain it is: the database's is done for it.
        tiers = self.behind(places)
        here = {each: sum(self.demands.get((each, tier), 0.0) for tier in tiers) for each in self.endpoints}
        return here[name] >= HOLDING_MIN * sum(here.values()) / len(here)

    def behind(self, places: Places) -> tuple[str, ...]:
        """The tiers whose CPU time is used while holding a place."""
        return self.tiers[self.tiers.index(places.tier) :] if places.tier in self.tiers else self.tiers

    def held(self, rates: Mapping[str, float], places: Places) -> float:
        """How many places are held at a throughput, by requests that do not wait for cores."""
        return self._held_at(rates, places, self._alone())

    def filling(self, rates: Mapping[str, float], places: Places) -> float:
        """The factor on the waits by which all places are held at a throughput; infinite if cores saturate before."""
        stretched = self._stretches(rates)
        waiting = sum(rate * self.waits.get(name, 0.0) for name, rate in rates.items() if self.holds(name, places))
        if stretched is None or waiting <= 0:
            return math.inf
        working = self._held_at(rates, places, stretched) - waiting
        return max(0.0, places.count - working) / waiting

    def _held(self, name: str, places: Places, stretched: Mapping[str, Stretch]) -> float:
        if not self.holds(name, places):
            return 0.0
        return self.waits.get(name, 0.0) + sum(
            self.demands.get((name, tier), 0.0) * stretched[tier].whole
            for tier in self.behind(places)
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

    def alone_seconds(self, name: str) -> float:
        """The part of an endpoint's wait for which its request alone has the lock."""
        wait = self.waits.get(name, 0.0)
        uses_it = self.serial is not None and wait >= SERIAL_MIN * max(self.waits.values())
        return self.serial.part * wait if self.serial is not None and uses_it else 0.0

    def disk_seconds(self, name: str) -> float:
        """How long the disk works for an endpoint's request, beside the rest of it.

        Files are written behind and synced at the end: a request ends when the disk and its other parts are done.
        """
        return self.serial.uses.get(name, 0.0) if self.serial is not None else 0.0

    def cpu_shape(self, name: str) -> tuple[float, ...]:
        """Equally likely relative CPU times of an endpoint's requests."""
        shape = self.shapes.get(name, ())
        return _with_variation(shape, self.variations[name]) if self._is_apart(name) else shape

    def wait_shape(self, name: str) -> tuple[float, ...]:
        """Equally likely relative waits: what CPU times leave of the spread; empty where waits go with CPU times."""
        shape, wait = self.shapes.get(name, ()), self.waits.get(name, 0.0)
        if not self._is_apart(name) or wait <= 0:
            return ()
        cpu = sum(self.demands.get((name, tier), 0.0) * (1 + self.falls.get(tier, 0.0)) for tier in self.tiers)
        left = float(np.var(shape)) * (cpu + wait) ** 2 - self.variations[name] * cpu**2
        return _with_variation(shape, max(0.0, left) / wait**2)

    def _is_apart(self, name: str) -> bool:
        """Whether waits have a spread of their own.

        At little load a response is the longer for all that happens on the machine meanwhile, of which most is no work.
        """
        return self.variations.get(name, math.inf) < float(np.var(self.shapes.get(name) or (1.0,)))

    def share(self, tier: str, process: int) -> float:
        """The share of a tier's requests that a process takes; the first is the busiest."""
        count = self.processes[tier]
        most = self.busiest.get(tier, 1 / count)
        return most if process == 0 else (1 - most) / (count - 1)

    def split(self) -> dict[str, int]:
        """Tiers with a station per process."""
        found, ways = dict[str, int](), 1
        for tier, count in self.processes.items():
            if ways * count <= ROUTES_MAX:
                found[tier] = count
                ways *= count
        return found


def _with_variation(shape: tuple[float, ...], squared: float) -> tuple[float, ...]:
    """Of the same form with another spread, as far as values stay positive."""
    values = np.maximum(0.0, 1 + (np.array(shape) - 1) * math.sqrt(squared / float(np.var(shape))))
    return tuple(float(value) for value in values / values.mean())


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
