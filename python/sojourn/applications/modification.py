"""Parses a change of the system and applies it to the network: `app.workers=8->16`, `cache=60% of GET /search*`.

A change names a tier, or applies to the tier with the resource in question. It gives the new number, `B`; both
numbers, `A->B`, if you know the present one better than measurements show; or a factor, `xF`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sojourn.applications.diagnosis import CoreGroup
from sojourn.applications.endpoints import Endpoint, matching
from sojourn.applications.network import Network, Places
from sojourn.failure import CouldNotRun
from sojourn.text import quantity

KINDS: Mapping[str, str] = {
    "workers": "requests that a tier works on at a time",
    "connections": "of its pool to the tier behind it",
    "processes": "that take turns at requests; their workers come with them",
    "cores": "that a tier may use, or that there are",
    "server": "machines like this one for a tier: 2 is a second",
    "cpu": "CPU time per request in a tier, as x0.5",
    "service": "time that requests wait elsewhere, as x0.5",
    "disk": "time that requests need the disk, as x0.5",
    "lock": "time that requests hold the lock, as x0.5",
    "cache": "an endpoint's requests that never come in, as 60% of GET /search*",
}
EXAMPLE = "as in app.workers=8->16, app.cores=0.5, db.cpu=x0.5 or cache=60% of GET /search*"
SECOND = " (second server)"
_FORM = re.compile(r"(?:(?P<tier>[\w.-]+)\.)?(?P<kind>[a-z]+)=(?P<value>.+)")
_NUMBER = r"\d+(?:\.\d+)?"
_VALUE = re.compile(rf"(?:(?P<before>{_NUMBER})\s*(?:->|→)\s*)?(?P<factor>x)?(?P<after>{_NUMBER})")


@dataclass(frozen=True)
class Modification:
    """A parsed change."""

    kind: str
    tier: str | None
    after: float
    """The new number, or a factor."""
    is_factor: bool = False
    before: float | None = None
    endpoints: tuple[str, ...] = ()
    """The endpoints of a cache."""

    @classmethod
    def parse(cls, text: str, known: list[Endpoint], tiers: list[str]) -> Modification:
        """Parses a change.

        Raises:
            CouldNotRun: it does not apply to this system.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None or found["kind"] not in KINDS:
            kinds = "; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items())
            raise CouldNotRun(f"{text!r} is no change ({kinds})", EXAMPLE)
        kind, tier = found["kind"], found["tier"]
        if tier is not None and tier not in tiers:
            raise CouldNotRun(f"{text!r}: there is no tier {tier}", f"they are: {', '.join(tiers)}")
        if kind == "cache":
            return cls(kind, tier, *_cached(text, found["value"], known))
        value = _VALUE.fullmatch(found["value"].strip())
        if value is None:
            raise CouldNotRun(f"{text!r}: {found['value']!r} is no number", EXAMPLE)
        after, before = float(value["after"]), None if value["before"] is None else float(value["before"])
        if after <= 0 or before == 0:
            raise CouldNotRun(f"{text!r}: nothing is left of it", "give a number above zero")
        is_factor = value["factor"] is not None
        if kind in ("cpu", "service", "disk", "lock") and not is_factor:
            raise CouldNotRun(f"{text!r}: {kind} changes by a factor", f"as in {kind}=x0.5")
        if kind == "cores" and tier is not None and is_factor:
            raise CouldNotRun(f"{text!r}: of a tier's cores give the number", f"as in {tier}.cores=0.5")
        if kind == "server" and after != 2:
            raise CouldNotRun(f"{text!r}: only a second server can be modelled", "as in app.server=2")
        return cls(kind, tier, after, is_factor, before)

    def declared(self, network: Network, tier: str | None) -> Network:
        """The network with the declared number before the change, if given."""
        if self.before is None:
            return network
        if self.kind in ("workers", "connections"):
            return _with_places(network, self.kind, self._tier(tier), round(self.before))
        if self.kind == "processes":
            return replace(network, processes={**network.processes, self._tier(tier): round(self.before)})
        return network

    def applied(self, network: Network, tier: str | None) -> Network:
        """The network after the change.

        Args:
            network: as it is, with what was declared.
            tier: whose it is if none was given.

        Raises:
            CouldNotRun: the network does not have the resource.
        """
        if self.kind in ("workers", "connections"):
            return self._places(network, self._tier(tier))
        if self.kind == "processes":
            return self._processes(network, self._tier(tier))
        if self.kind == "cores":
            return self._cores(network)
        if self.kind == "server":
            return _second_server(network, self._tier(tier))
        if self.kind == "cpu":
            whose = self._tier(tier)
            factors = {key: self.after if key[1] == whose else 1.0 for key in network.demands}
            return replace(network, demands={key: factors[key] * each for key, each in network.demands.items()})
        if self.kind == "service":
            return replace(network, waits={name: self.after * each for name, each in network.waits.items()})
        if self.kind == "cache":
            return self._cached(network)
        serial = network.serial
        if serial is None or serial.what != self.kind:
            raise CouldNotRun(f"no request was seen to wait for a {self.kind}")
        return replace(network, serial=replace(serial, seconds=self.after * serial.seconds))

    def _tier(self, otherwise: str | None) -> str:
        tier = self.tier or otherwise
        if tier is None:
            raise CouldNotRun(f"which tier has the {self.kind}?", f"name the tier, as in app.{self.kind}=…")
        return tier

    def _counted(self, present: float | None) -> int:
        if not self.is_factor:
            return max(1, round(self.after))
        if present is None:
            raise CouldNotRun(f"it was not seen how many {self.kind} there are", f"give both, as in {self.kind}=4->8")
        return max(1, round(present * self.after))

    def _places(self, network: Network, tier: str) -> Network:
        present = next((each.count for each in network.places if (each.what, each.tier) == (self.kind, tier)), None)
        return _with_places(network, self.kind, tier, self._counted(present))

    def _processes(self, network: Network, tier: str) -> Network:
        present = network.processes.get(tier)
        if present is None:
            raise CouldNotRun(f"the processes of {tier} do not take turns at requests", f"try {tier}.workers")
        count = self._counted(present)
        # Each server brings its own workers and connections.
        places = tuple(
            replace(each, count=max(1, round(each.count * count / present))) if each.tier == tier else each
            for each in network.places
        )
        # Who had most of two does not tell who has most of four.
        busiest = {each: share for each, share in network.busiest.items() if each != tier}
        return replace(network, processes={**network.processes, tier: count}, busiest=busiest, places=places)

    def _cores(self, network: Network) -> Network:
        if self.tier is None:
            factor = self.after if self.is_factor else self.after / max(group.cores for group in network.groups)
            groups = tuple(replace(group, cores=max(1, round(group.cores * factor))) for group in network.groups)
            return replace(network, groups=groups)
        return replace(network, quotas={**network.quotas, self.tier: self.after})

    def _cached(self, network: Network) -> Network:
        left = {name: 1 - self.after if name in self.endpoints else 1.0 for name in network.endpoints}
        demands = {key: left[key[0]] * each for key, each in network.demands.items()}
        waits = {name: left[name] * each for name, each in network.waits.items()}
        return replace(network, demands=demands, waits=waits)

    def __str__(self) -> str:
        tier = f"{self.tier}." if self.tier else ""
        if self.kind == "cache":
            return f"{tier}cache={self.after:.0%} of {', '.join(self.endpoints)}"
        before = f"{self.before:g}->" if self.before is not None else ""
        return f"{tier}{self.kind}={before}{'x' if self.is_factor else ''}{self.after:g}"


def _cached(text: str, value: str, known: list[Endpoint]) -> tuple[float, bool, None, tuple[str, ...]]:
    share, of, pattern = value.partition(" of ")
    names = tuple(each.name for each in matching(pattern.strip(), known)) if of else ()
    if not names:
        raise CouldNotRun(f"{text!r} names no endpoint", f"as in cache=60% of {known[0].name if known else 'GET /*'}")
    fraction = quantity.fraction(share.strip())
    if not 0 < fraction <= 1:
        raise CouldNotRun(f"{text!r}: {share} is no share of an endpoint's requests", EXAMPLE)
    return fraction, False, None, names


def _with_places(network: Network, what: str, tier: str, count: int) -> Network:
    others = tuple(each for each in network.places if (each.what, each.tier) != (what, tier))
    present = next((each for each in network.places if each not in others), Places(what, tier, count))
    return replace(network, places=(*others, replace(present, count=count)))


def _second_server(network: Network, tier: str) -> Network:
    """Moves half of a tier's work to as many additional cores and workers as it has now."""
    second = tier + SECOND
    group = next((group for group in network.groups if tier in group.tiers), None)
    if group is None:
        raise CouldNotRun(f"the CPU time of {tier} is not known")
    demands = {}
    for (name, where), seconds in network.demands.items():
        demands[name, where] = seconds / 2 if where == tier else seconds
        if where == tier:
            demands[name, second] = seconds / 2
    place = network.tiers.index(tier) + 1
    processes = dict(network.processes)
    if tier in processes:
        processes[second] = processes[tier]
    places = tuple(replace(each, count=2 * each.count) if each.tier == tier else each for each in network.places)
    return replace(
        network,
        tiers=(*network.tiers[:place], second, *network.tiers[place:]),
        groups=(*network.groups, CoreGroup((second,), group.cores)),
        demands=demands,
        processes=processes,
        places=places,
    )
