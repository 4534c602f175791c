"""The parameters of a system file that the calculator offers, with their ranges: what the file states, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sojourn.planning.parameters import Parameter, levers, parameter
from sojourn.planning.system_document import SystemDocument, quantity

Group = Literal["Load", "Resources", "Requests"]

REACH = 16.0
"""The factor around the present value that a slider spans; an input takes any value."""
COUNT_MIN = 16.0
"""A slider of a count reaches at least this."""
DELAY = "is"
"""The discipline without servers."""


@dataclass(frozen=True)
class Control:
    """A parameter with the range of its slider."""

    parameter: Parameter
    group: Group
    low: float
    high: float


def controls(document: SystemDocument) -> list[Control]:
    """Every control of a system file."""
    found = [
        *(_ranged(each, "Load") for each in _load(document)),
        *(_ranged(each, "Resources") for each in _resources(document)),
        *(_ranged(each, "Requests") for each in _requests(document)),
    ]
    return list({each.parameter.path: each for each in found}.values())


def _load(document: SystemDocument) -> Iterator[Parameter]:
    for name, table in document.classes.items():
        yield parameter(document, f"class.{name}.{'rate' if 'rate' in table else 'users'}")
        if _is_time(table.get("think_time")):
            yield parameter(document, f"class.{name}.think_time")
    if len(document.classes) > 1:
        yield parameter(document, "traffic")


def _resources(document: SystemDocument) -> Iterator[Parameter]:
    own = set(_with_demands_of_visits(document))
    for name, station in document.stations.items():
        if station["discipline"] != DELAY and "rate" not in station and "speed" not in station:
            yield parameter(document, f"station.{name}.servers")
        for key in ("r", "rate", "queue", "capacity"):
            if station.get(key):
                yield parameter(document, f"station.{name}.{key}")
        if "rate" not in station:
            by_time = _is_time(station.get("demand")) and name not in own
            yield parameter(document, f"station.{name}.{'demand' if by_time else 'speed'}")


def _requests(document: SystemDocument) -> Iterator[Parameter]:
    yield from (each for each in levers(document) if each.kind == "fraction")
    if any(each.document_mean_bytes is not None for each in document.system.classes):
        yield parameter(document, "sizes")


def _with_demands_of_visits(document: SystemDocument) -> Iterator[str]:
    """The stations that some visit brings a demand of its own to, which the station's demand does not change."""
    for table in document.classes.values():
        routes = [table["route"]] if "route" in table else [route["visits"] for route in table["routes"]]
        for visit in (visit for visits in routes for visit in visits):
            if isinstance(visit, dict) and "demand" in visit:
                yield visit["station"]


def _is_time(value: object) -> bool:
    """Returns true for a time above zero, which has a unit and a range; a law or a time by size has not."""
    return isinstance(value, str) and quantity(value)[0] > 0


def _ranged(each: Parameter, group: Group) -> Control:
    if each.kind == "fraction":
        return Control(each, group, 0.0, 1.0)
    if each.kind == "count":
        return Control(each, group, 1.0, max(COUNT_MIN, 4 * each.present))
    return Control(each, group, each.present / REACH, each.present * REACH)
