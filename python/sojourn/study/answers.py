"""A solver's or a simulation's results for a system, by the metric names of `figures.OF_MODELS`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from sojourn.failure import CouldNotRun
from sojourn.planning.by_size import mean_of_route
from sojourn.planning.system_document import nearest
from sojourn.queueing import ResponseTime, Simulation, SolverAnswer, System
from sojourn.queueing.results import ClassAnswer, ClassSimulation, StationAnswer, StationEstimate


@dataclass(frozen=True)
class Answered:
    """The results; classes and stations have the same form for solvers and simulations."""

    system: System
    classes: Mapping[str, ClassAnswer | ClassSimulation]
    stations: Mapping[str, StationAnswer | StationEstimate]
    times: Mapping[str, float | None]
    """The response time over all classes."""
    routes: Mapping[tuple[str, str], float | None]
    """The mean response time by class and route."""

    @classmethod
    def of_solver(cls, system: System, solver: str, answer: SolverAnswer) -> Answered:
        """Means of several classes are combined; percentiles of their mixture are unknown."""
        classes = answer["classes"]
        total = sum(each["throughput_per_second"] for each in classes.values())
        jobs = [each["throughput_per_second"] * each["response_time_seconds"]["mean"] for each in classes.values()]
        times: dict[str, float | None] = {"mean": math.fsum(jobs) / total}
        if len(classes) == 1:
            times = _by_statistic(next(iter(classes.values()))["response_time_seconds"])
        routes: dict[tuple[str, str], float | None] = {
            (each.name, route.name): mean_of_route(system, solver, answer, route)
            for each in system.classes
            for route in each.routes
        }
        return cls(system, classes, answer["stations"], times, routes)

    @classmethod
    def of_simulation(cls, system: System, result: Simulation) -> Answered:
        """The results of a simulation."""
        times = _by_statistic(result["response_time_seconds"])
        routes = {
            (name, route): each["response_time_seconds"]["mean"]
            for name, of_class in result["classes"].items()
            for route, each in of_class["routes"].items()
        }
        return cls(system, result["classes"], result["stations"], times, routes)

    def of_class(self, name: str) -> Answered:
        """The results with the response times of one class in place of all."""
        return replace(self, times=_by_statistic(self.classes[name]["response_time_seconds"]))

    def value(self, name: str) -> float | None:
        """The value of a metric; None where the solver does not compute it.

        Raises:
            CouldNotRun: it names a class, route or station that the system does not have.
        """
        kind, _, rest = name.partition(".")
        match kind:
            case "rps":
                return math.fsum(each["throughput_per_second"] for each in self.classes.values())
            case "residence":
                return math.fsum(self._stay(station) for station in rest.split("+"))
            case "share":
                return self._stay(rest) / math.fsum(self._stay(station) for station in self.stations)
            case "utilisation":
                return _named(self.stations, rest)["utilisation"]
            case "class":
                name, _, statistic = rest.rpartition(".")
                return self._of_class(_named(self.classes, name), statistic)
            case "route":
                class_name, _, route = rest.partition(".")
                of_class = {route: time for (name, route), time in self.routes.items() if name == class_name}
                return _named(of_class, route)
            case _:
                return self.times.get(name)

    def _stay(self, station: str) -> float:
        return _named(self.stations, station)["residence_time_seconds"]

    def _of_class(self, found: ClassAnswer | ClassSimulation, statistic: str) -> float | None:
        if statistic == "rps":
            return found["throughput_per_second"]
        return _by_statistic(found["response_time_seconds"]).get(statistic)


def _by_statistic(times: ResponseTime) -> dict[str, float | None]:
    # A TypedDict is a dictionary of its values, but the type checker does not know that.
    return cast(dict[str, float | None], times)


T = TypeVar("T")


def _named(table: Mapping[str, T], name: str) -> T:
    if name not in table:
        raise CouldNotRun(f"the system has no {name}", nearest(name, table))
    return table[name]
