"""Mean response time by document size, for each analytic answer.

At a FIFO station of an open system all jobs wait equally long, whatever their demand. Other FIFO and LPS stations of
solvers based on Eq. 2.1 use that equation; what is left uses processor sharing, whose conditional mean is proportional
to the demand in any product-form network. A solver's station figures cover all classes; a class's own share follows
from its own mean, because users of a closed class do not meet themselves. Sizes are quantiles of the class's documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sojourn.queueing import ClassModel, Lps, Route, SolverAnswer, StationModel, System
from sojourn.queueing.arrays import Array, vector

QUANTILES = (0.1, 0.5, 0.9, 0.99)
BY_EQUATION = frozenset({"open", "fixed-point"})
"""Solvers that treat FIFO and LPS stations by Eq. 2.1."""
OF_OPEN = frozenset({"open", "exact-lps"})
"""Solvers of open systems."""


@dataclass(frozen=True)
class BySize:
    """A class's mean response time in seconds for documents of these sizes, shape (n,), averaged over its routes."""

    quantiles: tuple[float, ...]
    sizes_bytes: Array
    mean_seconds: Array


def by_size(system: System, solver: str, answer: SolverAnswer) -> dict[str, BySize]:
    """Every class with documents and a size-dependent demand."""
    found = {}
    for each in system.classes:
        document = system.document(each.name)
        if document is None or not any(visit.by_size for route in each.routes for visit in route.visits):
            continue
        sizes = document.quantile(QUANTILES)
        found[each.name] = BySize(QUANTILES, sizes, mean_of_sizes(system, solver, answer, each, sizes))
    return found


def mean_of_sizes(system: System, solver: str, answer: SolverAnswer, each: ClassModel, sizes_bytes: ArrayLike) -> Array:
    """The class's mean response time in seconds for documents of these sizes."""
    sizes = vector(sizes_bytes, "sizes")
    stations = {station.name: station for station in system.stations}
    delay, delay_mean = np.full(len(sizes), each.latency_seconds), each.latency_seconds
    limited, limited_mean = np.zeros(len(sizes)), 0.0
    for route, visits in zip(each.routes, system.demands(each.name, sizes), strict=True):
        for visit, demands in zip(route.visits, visits, strict=True):
            station, mean = stations[visit.station], np.array([visit.demand_mean_seconds])
            if station.is_delay:
                delay += route.probability * demands
                delay_mean += route.probability * visit.demand_mean_seconds
            else:
                limited += route.probability * _residence(system, solver, answer, station, demands)
                limited_mean += route.probability * float(_residence(system, solver, answer, station, mean)[0])
    own = answer["classes"][each.name]["response_time_seconds"]["mean"] - delay_mean
    return delay + limited * (own / limited_mean if limited_mean > 0 else 1.0)


def mean_of_route(system: System, solver: str, answer: SolverAnswer, route: Route) -> float:
    """The mean response time in seconds of jobs on a route, whose demands may differ from other routes'."""
    stations = {station.name: station for station in system.stations}
    total = 0.0
    for visit in route.visits:
        mean = np.array([visit.demand_mean_seconds])
        station = stations[visit.station]
        total += float((mean if station.is_delay else _residence(system, solver, answer, station, mean))[0])
    return total


def _residence(system: System, solver: str, answer: SolverAnswer, station: StationModel, demands: Array) -> Array:
    rate, mean, second = _arrivals(system, answer, station)
    if mean == 0:
        return demands
    residence = answer["stations"][station.name]["residence_time_seconds"]
    if solver in OF_OPEN and station.discipline == "fifo" and not station.state_dependent:
        return demands + (residence - mean)
    one_speed = station.servers == 1 and not station.state_dependent and station.capacity is None
    if solver in BY_EQUATION and station.discipline in ("fifo", "lps") and one_speed:
        limit = 1 if station.discipline == "fifo" else station.r
        return Lps(rate, (mean, second), limit).conditional_mean(demands)
    return demands * (residence / mean)


def _arrivals(system: System, answer: SolverAnswer, station: StationModel) -> tuple[float, float, float]:
    """The arrival rate, and the first two moments of a visit's demand."""
    rate = mean = second = 0.0
    for each in system.classes:
        throughput = answer["classes"][each.name]["throughput_per_second"]
        for route in each.routes:
            for visit in (visit for visit in route.visits if visit.station == station.name):
                visits = throughput * route.probability
                rate += visits
                mean += visits * visit.demand_mean_seconds
                second += visits * visit.demand_second_moment_seconds2
    # A route of probability 0 has no jobs.
    return (rate, mean / rate, second / rate) if rate > 0 else (0.0, 0.0, 0.0)
