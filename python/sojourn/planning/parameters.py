"""Parameters for searches and sweeps: their present values, settings and formats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from sojourn.failure import CouldNotRun
from sojourn.planning.system_document import SystemDocument, nearest, quantity
from sojourn.text import format
from sojourn.text.toml import Table

Kind = Literal["quantity", "count", "factor", "fraction"]

_WITH_UNIT = {"rate", "latency", "think_time", "demand"}
_COUNTS = {"r", "servers", "users", "queue", "capacity"}


@dataclass(frozen=True)
class Parameter:
    """A numeric parameter of a system; values are in its unit."""

    path: str
    kind: Kind
    unit: str
    """The unit used in the file: `Mbit/s`, `ms`; empty for plain numbers."""
    present: float

    def setting(self, value: float) -> str:
        """The setting that assigns this value."""
        return f"{self.path}={round(value) if self.kind == 'count' else repr(float(value))}{self.unit}"

    def text(self, value: float) -> str:
        """The value with its unit."""
        match self.kind:
            case "quantity":
                return f"{format.number(value)} {self.unit}"
            case "count":
                return format.count(value)
            case "factor":
                return format.factor(value)
            case "fraction":
                return format.percent(value)

    @property
    def label(self) -> str:
        """The label for plots and tables."""
        match self.path.split("."):
            case ["traffic"]:
                return "traffic"
            case ["speed"]:
                return "speed of all stations"
            case ["sizes"]:
                return "sizes of documents"
            case [_, name, "speed"]:
                return f"speed of {name}"
            case [_, name, "r"]:
                return f"helpers r of {name}"
            case [_, name, _, route, "probability"]:
                return f"share of {route} among {name}"
            case [*_, name, key]:
                return f"{key.replace('_', ' ')} of {name}"
            case _:
                return self.path


def parameter(document: SystemDocument, path: str) -> Parameter:
    """Looks a parameter up by its path.

    Raises:
        CouldNotRun: if the system has no such numeric parameter.
    """
    match path.split("."):
        case ["traffic"] | ["speed"] | ["sizes"]:
            return Parameter(path, "factor", "", 1.0)
        case ["station" | "stations", name, "speed"]:
            _table(document.stations, name, path, "station")
            return Parameter(path, "factor", "", 1.0)
        case ["station" | "stations", name, key]:
            return _number(path, key, _table(document.stations, name, path, "station"))
        case ["class" | "classes", name, "route" | "routes", route, "probability"]:
            routes = {each["name"]: each for each in _table(document.classes, name, path, "class").get("routes", [])}
            present = _table(routes, route, path, "route")["probability"]
            return Parameter(path, "fraction", "", float(present))
        case ["class" | "classes", name, key]:
            return _number(path, key, _table(document.classes, name, path, "class"))
    known = "station.NAME.speed, station.NAME.rate, class.NAME.users, speed or traffic"
    raise CouldNotRun(f"{path} is not a numeric parameter", f"write for example {known}")


def levers(document: SystemDocument) -> Iterator[Parameter]:
    """The parameters that a planner can change: bandwidths, servers, helpers, speeds and hit ratios, then all speeds.

    Among the routes of a class, the one with the smallest demand at limited stations is the hit.
    """
    for name, station in document.stations.items():
        if "rate" in station:
            yield parameter(document, f"station.{name}.rate")
        else:
            yield parameter(document, f"station.{name}.speed")
        for key in ("servers", "r"):
            if key in station:
                yield parameter(document, f"station.{name}.{key}")
        for key in ("queue", "capacity"):
            # The search multiplies, so it cannot start from zero.
            if station.get(key):
                yield parameter(document, f"station.{name}.{key}")
    if len([each for each in document.system.stations if not each.is_delay]) > 1:
        # If two stations are overloaded, changing one alone is not enough.
        yield parameter(document, "speed")
    delays = {station.name for station in document.system.stations if station.is_delay}
    for each in document.system.classes:
        if len(each.routes) > 1:
            work = {
                route.name: sum(visit.demand_mean_seconds for visit in route.visits if visit.station not in delays)
                for route in each.routes
            }
            yield parameter(document, f"class.{each.name}.routes.{min(work, key=lambda name: work[name])}.probability")


def values_between(low: float, high: float, count: int, kind: Kind) -> list[float]:
    """About this many values: equal factors apart if both ends are positive and far apart, else equally spaced."""
    if low > 0 and high / low > 3 and kind != "fraction":
        values = [low * (high / low) ** (index / (count - 1)) for index in range(count)]
    else:
        values = [low + (high - low) * index / (count - 1) for index in range(count)]
    if kind == "count":
        return [float(value) for value in sorted({max(1, round(value)) for value in values})]
    return values


def _table(tables: Mapping[str, Table], name: str, path: str, kind: str) -> Table:
    if name not in tables:
        raise CouldNotRun(f"{path}: no {kind} is named {name}", nearest(name, tables))
    found: Table = tables[name]
    return found


def _number(path: str, key: str, table: Table) -> Parameter:
    value = table.get(key)
    if key in _COUNTS and isinstance(value, int):
        return Parameter(path, "count", "", float(value))
    if key == "servers" and value is None:
        return Parameter(path, "count", "", 1.0)
    if key in _WITH_UNIT and isinstance(value, str):
        number, unit = quantity(value)
        if number > 0 and math.isfinite(number):
            return Parameter(path, "quantity", unit, number)
    numbers = [name for name, each in table.items() if name in _COUNTS | _WITH_UNIT and not isinstance(each, dict)]
    raise CouldNotRun(f"{path} is not a number of this system", nearest(key, ["speed", *numbers]))
