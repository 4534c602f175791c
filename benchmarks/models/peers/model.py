"""Reads the subset of system files that the cases use, for programs that cannot import Sojourn.

Demands become functions that draw seconds. A document's size is drawn once per job, as system files define it.
"""

from __future__ import annotations

import json
import math
import random
import re
import resource
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "/s": 1.0, "us/B": 1e-6, "ns/B": 1e-9, "Mbit/s": 125e3, "B": 1.0}
Draw = Callable[[float], float]


@dataclass
class Class:
    name: str
    rate: float | None
    users: int
    size: Callable[[], float]
    routes: list[tuple[float, list[tuple[str, Draw]]]]

    def route(self) -> list[tuple[str, Draw]]:
        left = random.random()
        for probability, visits in self.routes:
            left -= probability
            if left < 0:
                return visits
        return self.routes[-1][1]


@dataclass
class Model:
    stations: dict[str, dict[str, Any]]
    classes: list[Class]


def quantity(text: str) -> float:
    match = re.fullmatch(r"([0-9.eE+-]+?)([a-zA-Z/]+)", text)
    return float(match[1]) * UNITS[match[2]]


def law(table: Any) -> Callable[[], float]:
    if isinstance(table, str):
        value = quantity(table)
        return lambda: value
    if table["law"] == "exponential":
        rate = 1.0 / quantity(table["mean"])
        return lambda: random.expovariate(rate)
    if table["law"] == "erlang":
        stages, scale = table["stages"], quantity(table["mean"]) / table["stages"]
        return lambda: random.gammavariate(stages, scale)
    if table["law"] == "hyper-exponential":
        share, first, second = branches(table)
        return lambda: random.expovariate(first if random.random() < share else second)
    if "mu" in table:
        mu, sigma = table["mu"], table["sigma"]
    else:
        variance = math.log1p(table["scv"])
        mu, sigma = math.log(quantity(table["mean"])) - variance / 2, math.sqrt(variance)
    return lambda: random.lognormvariate(mu, sigma)


def branches(table: dict[str, Any]) -> tuple[float, float, float]:
    """Returns the share of the first branch and both rates, with balanced means."""
    mean, scv = quantity(table["mean"]), table["scv"]
    share = (1.0 + math.sqrt((scv - 1.0) / (scv + 1.0))) / 2
    return share, 2 * share / mean, 2 * (1 - share) / mean


def demand(table: dict[str, Any]) -> Draw:
    if "rate" in table:
        per_byte = 1.0 / quantity(table["rate"])
        return lambda size: per_byte * size
    given = table["demand"]
    if isinstance(given, dict) and "per_byte" in given:
        fixed, slope = quantity(given["fixed"]), quantity(given["per_byte"])
        return lambda size: fixed + slope * size
    draw = law(given)
    return lambda size: draw()


def read(text: str) -> Model:
    file = tomllib.loads(text)
    size = law(file["document"]) if "document" in file else lambda: 0.0
    demands = {name: demand(table) for name, table in file["stations"].items()}
    classes = []
    for name, table in file["classes"].items():
        routes = table.get("routes") or [{"probability": 1.0, "visits": table["route"]}]
        visits = [
            (route["probability"], [(station, demands[station]) for station in route["visits"]]) for route in routes
        ]
        rate = quantity(table["rate"]) if "rate" in table else None
        classes.append(Class(name, rate, table.get("users", 0), size, visits))
    return Model(file["stations"], classes)


def answer(run: Callable[[str, int, int], dict[str, float]]) -> None:
    """Runs the case from standard input, and prints its figures."""
    case = json.load(sys.stdin)
    print(json.dumps(run(case["text"], case["jobs"], case["seed"])))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the CPU seconds, including those of programs that it starts."""
    begun = cpu_seconds()
    result = work()
    return cpu_seconds() - begun, result


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
