"""The application as a system file: for solvers, and for the simulation of a step's very requests.

Both have the cores as a station that all tiers share. Solvers share it equally among whoever is there. The simulation
has what decides a few seconds near the knee: threads take turns at the cores, a slice each, and one that has slept
comes before those that have had a slice (a multilevel feedback queue with two levels, as the kernel does it by their
lag); a process that does one thing at a time holds itself while it waits for a core, and its workers hold their places
while they wait for their turn; and a program that asks its database several times waits for its turn again after each
answer, as a request does after each pass of an event loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from sojourn.applications.network import Network, Places

SLICE_SECONDS, SLICE_CORES_MAX = 0.0007, 8
"""How long a thread has a machine's only core before one that wakes up takes it away: the kernel's base slice, which
grows with the logarithm of the cores up to so many.
"""
TURN_SECONDS = 0.005
"""How long a thread has its process if others wait for it: Python's switch interval."""
VISITS_MAX, COARSER = 1_000, 2
"""The most visits of a route; where it would have more, slices and turns are longer by this factor, or its powers."""
OTHERS_SECONDS = 0.002
"""How long other programs use a core at a time."""
OTHERS = "others"
"""The class of other programs."""
SERIAL = "serial"
"""The station of the lock, or of the disk."""
DISK = "disk"
"""The class of the disk's work."""
UNIT_BYTES = 1000
"""The size of a mean request, where sizes represent the common factor of all parts."""
RATE_MIN = 1e-6
"""Of a class whose arrivals are given (1/s)."""
AHEAD = ", priority = true"
"""Of a thread's first slice after it has slept."""
NOTHING = "1ns"
"""The demand of a station where a place is taken: holding it costs time."""
NOWHERE_SECONDS = 1e-7


def for_solvers(network: Network, rates: Mapping[str, float]) -> str:
    """The network at these rates, for any rate below its capacity.

    Processes that are fewer than their cores are a station of their own; where others use the cores they are slower.
    """
    lines, places = _head(), network.fewest()
    if places is not None:
        lines += _station("places", f'discipline = "lps"\nr = {places.count}', f"{places.count} {places.what}")
    slower, where = dict[str, float](), dict[str, str]()
    for place, group in enumerate(network.groups):
        free = 1 - network.background.at(sum(rates.values())) / group.cores
        for tier in group.tiers:
            few = tier in network.processes and network.processes[tier] < group.cores
            where[tier], slower[tier] = tier if few else _cores(place), 1 / max(free, 0.01)
            if few:
                lines += _station(tier, f'discipline = "ps"\nservers = {network.processes[tier]}')
        lines += _station(_cores(place), f'discipline = "ps"\nservers = {group.cores:g}')
    lines += _station("elsewhere", 'discipline = "is"')
    more = network.larger(rates)
    for index, name in enumerate(network.endpoints):
        if rates.get(name, 0.0) <= 0:
            continue
        held = places if network.holds(name, places) else None
        behind = network.behind(held) if held is not None else ()
        hold, visits = "", list[str]()
        for tier in network.tiers:
            if tier in behind and not hold:
                visits, hold = [*visits, '"places"'], ', holds = "places"'
            if network.uses(name, tier):
                seconds = network.demands.get((name, tier), 0.0) * more[tier] * slower[tier]
                visits.append(_visit(where[tier], _demand(max(seconds, NOWHERE_SECONDS)), hold))
        visits.append(_visit("elsewhere", _waiting(network, name, network.waits.get(name, 0.0)), hold))
        lines += _class(class_of(index), name, rates[name], network.cpu_shape(name))
        lines += [f"route = [{', '.join(visits)}]", ""]
    return "\n".join(lines)


def for_requests(network: Network, rates: Mapping[str, float], classes: Mapping[str, str]) -> str:
    """The network for the simulation of requests whose times are given.

    Args:
        network: where cores are fewer than others use, there is no end of waiting.
        rates: in requests/s, by endpoint: how busy the cores are decides how much CPU time a request takes.
        classes: the endpoint of each class of requests.
    """
    lines, places, more = _head(), network.fewest() or network.admits, network.larger(rates)
    if places is not None:
        parts = network.parts(places)
        for part in range(parts):
            lines += _station(f"places-{part}", f'discipline = "lps"\nr = {places.count // parts}')
    for tier, count in network.processes.items():
        if tier in network.split():
            for process in range(count):
                lines += _station(f"{tier}-{process}", 'discipline = "fifo"')
        else:
            lines += _station(tier, f'discipline = "lps"\nr = {count}')
    for place, group in enumerate(network.groups):
        lines += _station(_cores(place), f'discipline = "fifo"\nservers = {group.cores:g}')
        lines += _class(f"{OTHERS}{place}", "other programs", RATE_MIN, ())
        lines += [f"route = [{_visit(_cores(place), _demand(OTHERS_SECONDS), AHEAD)}]", ""]
    lines += _station("elsewhere", 'discipline = "is"')
    if network.serial is not None:
        lines += _station(SERIAL, 'discipline = "fifo"')
        if any(network.disk_seconds(name) > 0 for name in classes.values()):
            lines += _class(DISK, "the disk's work", RATE_MIN, ())
            lines += [f"route = [{_visit(SERIAL, _demand(1.0))}]", ""]
    for class_name, name in classes.items():
        lines += _class(class_name, name, rates.get(name, 0.0), network.cpu_shape(name))
        turns = {tier: count for tier, count in network.split().items() if network.uses(name, tier)}
        ways = [dict(zip(turns, way, strict=True)) for way in itertools.product(*map(range, turns.values()))]
        for place, way in enumerate(ways):
            visits = ", ".join(_Route(network, name, more, way, places).visits())
            if len(ways) == 1:
                lines.append(f"route = [{visits}]")
            else:
                lines += [f"[[classes.{class_name}.routes]]", f'name = "way{place}"']
                probability = math.prod(network.share(tier, process) for tier, process in way.items())
                lines += [f"probability = {probability:.9f}", f"visits = [{visits}]"]
        lines.append("")
    return "\n".join(lines)


class _Route:
    """An endpoint's visits by one way through the processes."""

    def __init__(
        self, network: Network, name: str, more: Mapping[str, float], way: Mapping[str, int], places: Places | None
    ) -> None:
        self._network, self._name, self._more, self._way = network, name, more, way
        self._places = places if network.holds(name, places) else None
        self._behind = () if self._places is None else network.behind(self._places)
        self._core = {tier: _cores(place) for place, group in enumerate(network.groups) for tier in group.tiers}
        self._slice = {tier: _slice_seconds(group.cores) for group in network.groups for tier in group.tiers}
        self._turn = TURN_SECONDS

    def visits(self) -> list[str]:
        """All of them, in order."""
        tiers = [tier for tier in self._network.tiers if self._network.uses(self._name, tier)]
        found = self._through(tiers, 1.0, ())
        while len(found) > VISITS_MAX and self._turn < 1:
            self._turn *= COARSER
            self._slice = {tier: COARSER * seconds for tier, seconds in self._slice.items()}
            found = self._through(tiers, 1.0, ())
        return found

    def _through(self, tiers: list[str], share: float, held: tuple[str, ...]) -> list[str]:
        """A share of the work of the first tier, around its calls of the others.

        One call has all the work of the tier behind, as a query among those that begin and end its transaction. Divided
        among them it would come before that of others each time.
        """
        if self._places is not None and not held and (not tiers or tiers[0] in self._behind):
            part = self._way.get(self._places.tier, 0) if self._network.parts(self._places) > 1 else 0
            place = f"places-{part}"
            return [f'"{place}"', *self._through(tiers, share, (place,))]
        if not tiers:
            alone = share * self._network.alone_seconds(self._name)
            waited = share * self._network.waits.get(self._name, 0.0) - alone
            visits = [_visit("elsewhere", _waiting(self._network, self._name, waited), _holding(held))]
            if alone > 0 or share * self._network.disk_seconds(self._name) > 0:
                visits.append(_visit(SERIAL, _demand(max(alone, NOWHERE_SECONDS)), _holding(held)))
            return visits
        tier, others = tiers[0], tiers[1:]
        calls = self._network.calls.get((self._name, others[0]), 1) if others else 1
        pieces = calls + 1 if others else 1
        passes = math.ceil(self._network.passes.get(tier, 1) / pieces)
        own = share * self._network.demands.get((self._name, tier), 0.0) * self._more[tier] / pieces
        visits = self._turns(tier, own, passes, held)
        for call in range(calls):
            visits += self._through(others, share if call == calls // 2 else 0.0, held)
            if others:
                visits += self._turns(tier, own, passes, held)
        return visits

    def _turns(self, tier: str, seconds: float, passes: int, held: tuple[str, ...]) -> list[str]:
        """The CPU time at a stretch, of those who hold a place, too: of a process's threads one runs at a time.

        The process goes on with others after each of the passes that the work takes at least.
        """
        if tier not in self._network.processes:
            return self._slices(tier, seconds, held)
        process = f"{tier}-{self._way[tier]}" if tier in self._way else tier
        turns = max(passes, _parts(seconds, self._turn))
        return [_taken(process, held), *self._slices(tier, seconds / turns, (*held, process))] * turns

    def _slices(self, tier: str, seconds: float, held: tuple[str, ...]) -> list[str]:
        """CPU time of a thread that has slept: the first slice comes before those of threads that have not."""
        slices = _parts(seconds, self._slice[tier])
        demand = _demand(max(seconds, NOWHERE_SECONDS) / slices)
        first, other = (_visit(self._core[tier], demand, each + _holding(held)) for each in (AHEAD, ""))
        return [first, *[other] * (slices - 1)]


def _slice_seconds(cores: float) -> float:
    return SLICE_SECONDS * (1 + math.log2(min(SLICE_CORES_MAX, max(1.0, cores))))


def _parts(seconds: float, most: float) -> int:
    return max(1, math.ceil(seconds / most))


def class_of(index: int) -> str:
    """The class of the endpoint at this place."""
    return f"e{index}"


def _head() -> list[str]:
    return ['name = "application"', ""]


def _cores(place: int) -> str:
    return f"cores-{place}"


def _station(name: str, discipline: str, remark: str = "") -> list[str]:
    return [f'[stations."{name}"]' + (f"  # {remark}" if remark else ""), discipline, f'demand = "{NOTHING}"', ""]


def _class(class_name: str, name: str, rate: float, shape: tuple[float, ...]) -> list[str]:
    return [
        f"[classes.{class_name}]  # {name}",
        f'rate = "{max(rate, RATE_MIN):.6g}/s"',
        f"document = {_shape(shape)}",
    ]


def _shape(shape: tuple[float, ...]) -> str:
    if not shape:
        return f'{{ law = "exponential", mean = "{UNIT_BYTES}B" }}'
    scale = UNIT_BYTES / (sum(shape) / len(shape))
    values = ", ".join(f'"{value * scale:.5g}B"' for value in shape)
    return f'{{ law = "empirical", values = [{values}] }}'


def _waiting(network: Network, name: str, seconds: float) -> str:
    """A wait with the spread of its own, or with that of the size."""
    shape = network.wait_shape(name)
    if not shape or seconds <= NOWHERE_SECONDS:
        return _demand(max(seconds, NOWHERE_SECONDS))
    values = ", ".join(f'"{value * seconds * 1e6:.5g}us"' for value in shape)
    return f'{{ law = "empirical", values = [{values}] }}'


def _visit(station: str, demand: str, hold: str = "") -> str:
    return f'{{ station = "{station}", demand = {demand}{hold} }}'


def _taken(place: str, held: tuple[str, ...]) -> str:
    """A visit whose place is kept by those that follow."""
    return f'{{ station = "{place}"{_holding(held)} }}' if held else f'"{place}"'


def _holding(held: tuple[str, ...]) -> str:
    names = ", ".join(f'"{each}"' for each in held)
    return f", holds = {names if len(held) == 1 else f'[{names}]'}" if held else ""


def _demand(seconds: float) -> str:
    return f'{{ fixed = "0ns", per_byte = "{seconds / UNIT_BYTES * 1e9:.6g}ns/B" }}'
