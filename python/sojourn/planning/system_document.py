"""A system file whose parameters can be changed by settings such as `station.web.speed=2`.

A setting names a key of the file (`station.line.rate`, `class.members.users`, `document.mu`), or one of the
parameters that are not keys: a station's `speed`, a factor on how fast all demands are served there; `speed`, that
factor for all stations but delays; a route's `probability`, to which the class's other routes are scaled; and
`traffic`, a factor on all of the offered load.
"""

from __future__ import annotations

import copy
import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from sojourn.failure import CouldNotRun
from sojourn.queueing import System, SystemFileError
from sojourn.text import toml
from sojourn.text.toml import Table, read_text

_QUANTITY = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*")
_LINE = re.compile(r" \(line ([0-9]+)\)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_KINDS = {"station": "stations", "stations": "stations", "class": "classes", "classes": "classes"}
_SCHEMA = "docs/models.md has the schema of a system file"


class SystemDocument:
    """A system file with its settings; immutable."""

    def __init__(
        self, content: Table, settings: tuple[str, ...] = (), text: str | None = None, source: str = "system"
    ) -> None:
        self._content = content
        self.source = source
        """The file that it was read from."""
        self.text = toml.write(content) if text is None else text
        """A system file: the original, or one without its comments and layout where settings were made."""
        self.settings = settings
        """What was changed, in order."""

    @classmethod
    def read(cls, path: Path, settings: Sequence[str] = ()) -> SystemDocument:
        """Reads a system file and applies the settings.

        Raises:
            CouldNotRun: with file, line and a suggested fix, or the setting and the nearest name.
        """
        text = read_text(path, "give a system file (TOML)")
        try:
            system = System(text)
        except SystemFileError as error:
            what, _, cure = error.message.partition("; ")
            raise CouldNotRun(f"{path}, line {error.line}: {what}", cure or _SCHEMA) from None
        _refuse_without_moments(path, system)
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            # The models' parser takes more: a second byte-order mark, tables in braces over several lines.
            raise CouldNotRun(f"{path}: {error}", "write it as TOML 1.0") from None
        document = cls(content, text=text, source=str(path))
        return document.set(*settings) if settings else document

    def set(self, *settings: str) -> SystemDocument:
        """Applies the settings one after the other.

        Raises:
            CouldNotRun: if a name is unknown or the result is not a valid system.
        """
        content = copy.deepcopy(self._content)
        for setting in settings:
            path, equals, value = setting.partition("=")
            if not equals or not value.strip():
                raise CouldNotRun(f"{setting!r} is not a setting", "write NAME=VALUE, as in station.web.speed=2")
            _set(content, path.strip(), _parsed(value.strip()))
        changed = SystemDocument(content, (*self.settings, *settings), source=self.source)
        try:
            _ = changed.system
        except SystemFileError as error:
            what, _, cure = changed.said(error.message).partition("; ")
            raise CouldNotRun(f"--set {' --set '.join(settings)}: {what}", cure or _SCHEMA) from None
        return changed

    def failure(self, message: str) -> CouldNotRun:
        """Converts a solver's refusal to a failure with file, line and a suggested fix."""
        line = None if self.settings else _LINE.search(message)
        what, _, cure = _LINE.sub("", message).partition("; ")
        return CouldNotRun(f"{self.source}{f', line {line[1]}' if line else ''}: {what}", cure or None)

    @cached_property
    def system(self) -> System:
        """The system for the solvers."""
        return System(self.text)

    def said(self, message: str) -> str:
        """Removes line numbers from a solver's message, because they refer to a generated file."""
        return _LINE.sub("", message) if self.settings else message

    @property
    def description(self) -> str:
        """The file's description, written by its author or by `sojourn fit`."""
        return str(self._content.get("description", ""))

    @property
    def stations(self) -> Mapping[str, Table]:
        """The `[stations]` of the file."""
        return self._tables("stations")

    @property
    def classes(self) -> Mapping[str, Table]:
        """The `[classes]` of the file."""
        return self._tables("classes")

    def _tables(self, kind: str) -> Mapping[str, Table]:
        tables: Mapping[str, Table] = self._content[kind]
        return tables


def quantity(text: str) -> tuple[float, str]:
    """Splits a quantity of a system file into number and unit; the unit may be empty.

    Raises:
        CouldNotRun: if it does not begin with a number.
    """
    match = _QUANTITY.fullmatch(text)
    try:
        return float(match[1] if match else ""), match[2] if match else ""
    except ValueError:
        raise CouldNotRun(f"{text!r} is not a number with a unit", "write it as in 1.5Mbit/s or 195ms") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"


def _parsed(value: str) -> object:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        # Quantities and words need no quotes on a command line; `.5` is a number there.
        return float(value) if _NUMBER.fullmatch(value) else value


def _set(content: Table, path: str, value: object) -> None:
    parts = path.split(".")
    match parts:
        case ["traffic"]:
            _scale_traffic(content, _factor(path, value))
        case ["speed"]:
            for name, station in content["stations"].items():
                if station["discipline"] != "is":
                    _speed_up(content, name, _factor(path, value))
        case ["document", key]:
            _named(content, "document", path)[key] = value
        case [kind, name, "speed"] if _KINDS.get(kind) == "stations" and isinstance(value, int | float):
            _find(content, "stations", name, path)
            _speed_up(content, name, _factor(path, value))
        case [kind, name, "route" | "routes", route, "probability"] if _KINDS.get(kind) == "classes":
            _set_probability(_find(content, "classes", name, path), route, path, value)
        case [kind, name, key] if kind in _KINDS:
            table = _find(content, _KINDS[kind], name, path)
            # These parameters are not keys of the file, so the reader cannot suggest them.
            if key not in table and difflib.get_close_matches(key, ["speed"], cutoff=0.75):
                raise CouldNotRun(f"--set {path}: a station has no {key}", "did you mean speed?")
            table[key] = value
        case _:
            forms = ["station.NAME.KEY", "class.NAME.KEY", "class.NAME.routes.ROUTE.probability", "document.KEY"]
            near = difflib.get_close_matches(parts[0], ["station", "class", "document", "traffic", "speed"], n=1)
            cure = f"did you mean {near[0]}…? " if near and near[0] != parts[0] else ""
            raise CouldNotRun(f"--set {path}: no such parameter", f"{cure}write {', '.join(forms)}, speed or traffic")


def _find(content: Table, kind: str, name: str, path: str) -> Table:
    tables = content[kind]
    if name not in tables:
        singular = "station" if kind == "stations" else "class"
        raise CouldNotRun(f"--set {path}: no {singular} is named {name}", nearest(name, tables))
    table: Table = tables[name]
    return table


def _named(content: Table, key: str, path: str) -> Table:
    table = content.get(key)
    if not isinstance(table, dict):
        raise CouldNotRun(f"--set {path}: the file has no table [{key}]", f"add [{key}] to the file")
    return table


def _factor(path: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise CouldNotRun(f"--set {path}={value}: a factor is a number above zero", f"for example {path}=2")
    return float(value)


def _scale_traffic(content: Table, factor: float) -> None:
    for table in content["classes"].values():
        if "rate" in table:
            table["rate"] = _scaled(table["rate"], factor)
        else:
            table["users"] = max(1, round(table["users"] * factor))


def _speed_up(content: Table, name: str, factor: float) -> None:
    station = content["stations"][name]
    if "rate" in station:
        station["rate"] = _scaled(station["rate"], factor)
    if "demand" in station:
        station["demand"] = _scaled_demand(station["demand"], 1 / factor)
    for table in content["classes"].values():
        routes = [table["route"]] if "route" in table else [route["visits"] for route in table["routes"]]
        for visit in (visit for visits in routes for visit in visits):
            if isinstance(visit, dict) and visit["station"] == name and "demand" in visit:
                visit["demand"] = _scaled_demand(visit["demand"], 1 / factor)


def _set_probability(table: Table, name: str, path: str, value: object) -> None:
    routes = {route["name"]: route for route in table.get("routes", [])}
    if name not in routes:
        cure = nearest(name, routes) if routes else "the class has one route: it needs no probability"
        raise CouldNotRun(f"--set {path}: no route is named {name}", cure)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise CouldNotRun(f"--set {path}={value}: a probability is from 0 to 1", f"for example {path}=0.6")
    others = [route for route in routes.values() if route["name"] != name]
    rest = sum(route["probability"] for route in others)
    for route in others:
        # Routes of probability 0 share the remainder equally, because there are no proportions to keep.
        share = route["probability"] / rest if rest > 0 else 1 / len(others)
        route["probability"] = (1 - value) * share
    routes[name]["probability"] = float(value)


Demand: TypeAlias = "str | list[Demand] | Table"
"""A demand in a system file: a time, pieces by size, or a table."""


def _scaled_demand(demand: Demand, factor: float) -> Demand:
    if isinstance(demand, str):
        return _scaled(demand, factor)
    if isinstance(demand, list):
        return [_scaled_demand(piece, factor) for piece in demand]
    times: Table = {key: _scaled(demand[key], factor) for key in ("fixed", "per_byte", "shift") if key in demand}
    scale: Table = {"scale": demand.get("scale", 1.0) * factor} if "law" in demand else {}
    return {**demand, **times, **scale}


def _scaled(text: str, factor: float) -> str:
    number, unit = quantity(text)
    return f"{number * factor!r}{unit}"


def _refuse_without_moments(path: Path, system: System) -> None:
    """Refuses demands whose mean or variance overflows, because no solver can answer."""
    for each in system.classes:
        for visit in (visit for route in each.routes for visit in route.visits):
            # JSON has no infinity and gives null instead.
            if visit.demand_mean_seconds is None or visit.demand_second_moment_seconds2 is None:
                raise CouldNotRun(
                    f"{path}: the demand of {each.name} at {visit.station} is too large: its mean or its variance is "
                    "beyond all numbers",
                    "look at its unit, and at mu and sigma of its law",
                )
