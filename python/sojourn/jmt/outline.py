"""A system in the form that the writers need: stations, and per class its source, chain and distributions.

Users and latencies become delays, because JMT has no other form for them. Features that neither JMT format can express
are refused here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sojourn.jmt import laws
from sojourn.jmt.chain import Chain, Route, chain_of
from sojourn.jmt.laws import JmtLaw, Law, Moments
from sojourn.jmt.translation import Translation, refused
from sojourn.queueing import ClassModel, StationModel, System
from sojourn.text.toml import Table

KNOWN_STATION_KEYS = {"discipline", "r", "servers", "demand", "rate", "capacity", "queue", "when_full"}
DROP_STRATEGIES = {"refuse": "drop", "block": "BAS blocking"}
"""JMT's strategy for each `when_full` of a system file."""


@dataclass(frozen=True)
class Station:
    """A station: `discipline` is fifo, ps, lps (with `r`) or is."""

    name: str
    discipline: str
    r: int | None = None
    servers: int = 1
    capacity: int | None = None
    """The most jobs present, including those in service."""
    drop_strategy: str = "waiting queue"
    """JMT's strategy for arrivals at a full station."""


@dataclass(frozen=True)
class Service:
    """A class's service at a station: its distribution and moments."""

    law: JmtLaw
    moments: Moments


@dataclass(frozen=True)
class Jobs:
    """A class: open with a rate, or closed with users."""

    name: str
    rate: float | None
    users: int | None
    start: str
    """The start of its chain: the source, the users' delay, or the station where users restart."""
    routes: tuple[Route, ...]
    services: Mapping[str, Service]
    """Services by station."""

    def chain(self) -> Chain:
        """Transition probabilities."""
        return chain_of(self.routes, self.name, self.start)


@dataclass(frozen=True)
class Outline:
    """All stations in order, including delays for users and latencies."""

    stations: tuple[Station, ...]
    classes: tuple[Jobs, ...]
    source: str
    sink: str


def outline(system: System, translation: Translation) -> Outline:
    """Converts a system into an outline."""
    described = tomllib.loads(system.text)
    for name, table in described["stations"].items():
        for key in table:
            if key not in KNOWN_STATION_KEYS:
                raise refused(f"station {name}: `{key}`")
    taken = {station.name for station in system.stations}
    source, sink, users, latency = (_free(name, taken) for name in ("Source", "Sink", "Users", "Latency"))
    delays = []
    if any(each.users is not None and _restart(each) is None for each in system.classes):
        delays.append(Station(users, "is"))
    if any(each.latency_seconds > 0 for each in system.classes):
        delays.append(Station(latency, "is"))
    classes = tuple(
        _jobs(each, described, source if each.users is None else _restart(each) or users, latency, translation)
        for each in system.classes
    )
    stations = (_station(each, system) for each in system.stations)
    return Outline((*delays, *stations), classes, source, sink)


def _station(model: StationModel, system: System) -> Station:
    plain = Station(model.name, model.discipline, model.r, model.servers)
    if model.capacity is None:
        return plain
    drop_strategy = DROP_STRATEGIES.get(model.when_full or "refuse")
    if drop_strategy is None:
        raise refused(f"station {model.name}: clients that retry when it is full")
    if model.is_lossy and any(each.users is not None for each in _visitors(system, model.name)):
        raise refused(f"station {model.name}: users who begin a new request when it is full", "JMT loses such users")
    return replace(plain, capacity=model.capacity, drop_strategy=drop_strategy)


def _visitors(system: System, station: str) -> Iterator[ClassModel]:
    for each in system.classes:
        if any(visit.station == station for route in each.routes for visit in route.visits):
            yield each


def _restart(model: ClassModel) -> str | None:
    """The station where users without think time restart; None if they think, or start at several."""
    firsts = {route.visits[0].station for route in model.routes}
    instant = model.think_time_seconds == 0 and model.latency_seconds == 0
    return next(iter(firsts)) if instant and len(firsts) == 1 else None


def _jobs(model: ClassModel, described: Table, start: str, latency: str, translation: Translation) -> Jobs:
    services: dict[str, Service] = {}
    restart = model.users is not None and start == _restart(model)
    if model.users is not None and not restart:
        law = described["classes"][model.name]["think_time"]
        services[start] = _service(law, laws.moments(law), f"class {model.name}: the think time", translation)
    first: tuple[str, ...] = ()
    if model.latency_seconds > 0:
        exact = Moments(model.latency_seconds, 0.0)
        services[latency], first = _service(None, exact, "latency", translation), (latency,)
    by_size: list[str] = []
    seen: dict[str, Law | None] = {}
    for route in model.routes:
        written = _written_visits(described["classes"][model.name], route.name)
        for visit, raw in zip(route.visits, written, strict=True):
            if visit.holds:
                raise refused(
                    f"class {model.name}: {visit.station} while it holds a place at {' and '.join(visit.holds)}"
                )
            if isinstance(raw, Mapping) and raw.get("priority"):
                raise refused(f"class {model.name}: jobs that wait at {visit.station} ahead of others")
            law = _law(raw, described["stations"][visit.station], visit.by_size)
            if visit.station in seen and seen[visit.station] != law:
                raise refused(
                    f"class {model.name}: demands at {visit.station} that depend on the route",
                    "give each route a class of its own",
                )
            seen[visit.station] = law
            known = laws.of_visit(visit.demand_mean_seconds, visit.demand_second_moment_seconds2)
            place = f"class {model.name} at {visit.station}: the demand"
            services[visit.station] = _service(law, known, place, translation)
            if visit.by_size and known.scv > 0:
                by_size.append(visit.station)
    if len(set(by_size)) > 1:
        shared = ", ".join(dict.fromkeys(by_size))
        translation.warn(f"class {model.name}: the document size that {shared} share is drawn anew at each of them")
    # A job that restarts is already at its first station.
    skipped = 1 if restart else 0
    routes = tuple(
        (route.probability, first + tuple(visit.station for visit in route.visits[skipped:])) for route in model.routes
    )
    return Jobs(model.name, model.rate_per_second, model.users, start, routes, services)


def _service(law: Law | None, known: Moments, place: str, translation: Translation) -> Service:
    written, same = laws.to_jmt(law, known)
    if not same:
        translation.warn(
            f"{place} is written as a Gamma distribution with its mean and squared coefficient of variation"
        )
    return Service(written, known)


Visit = str | Table
"""A visit: a station's name, or a table with deviations from it."""


def _law(visit: Visit, station: Table, by_size: bool) -> Law | None:
    own = visit.get("demand") if isinstance(visit, Mapping) else None
    demand = own if own is not None else station.get("demand", station.get("rate"))
    # A function of the size has no distribution of its own, but two different ones must remain distinguishable.
    return {"by_size": repr(demand)} if by_size else demand


def _written_visits(table: Table, route: str) -> list[Visit]:
    if "route" in table:
        return list(table["route"])
    return next(list(each["visits"]) for each in table["routes"] if each["name"] == route)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += " "
    taken.add(name)
    return name
