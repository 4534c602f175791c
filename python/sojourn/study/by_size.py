"""The mean response time of documents of one size: simulates a station job by job and interpolates at that size.

A simulation reports means over all sizes only, so this needs the jobs themselves. Few jobs have exactly the given
size; a straight line through those with similar sizes approximates the mean at it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sojourn.failure import CouldNotRun
from sojourn.queueing import System, simulate_station
from sojourn.queueing.arrays import Array

NEAR = 0.1
"""Sizes within this share are similar; the range doubles while it contains fewer jobs than `JOBS_NEAR`."""
JOBS_NEAR = 500
WARM_UP = 0.05
"""The share of the jobs dropped as warm-up, because the station starts empty."""


def simulated_mean(system: System, size_bytes: float, jobs: int, seed: int) -> float:
    """Estimates E[R | size] in seconds from this many jobs.

    Raises:
        CouldNotRun: the system is more than one station with one open class, or too few jobs have a similar size.
    """
    sizes, times = _jobs(system.text, jobs, seed)
    near = NEAR
    while near < 1:
        chosen = np.abs(sizes / size_bytes - 1) < near
        if np.count_nonzero(chosen) >= JOBS_NEAR:
            slope, height = np.polyfit(sizes[chosen] - size_bytes, times[chosen], 1)
            return float(height) if np.isfinite(slope) else float(np.mean(times[chosen]))
        near *= 2
    raise CouldNotRun(f"of {jobs:,} documents hardly any has about {size_bytes:,.0f} B", "ask about smaller documents")


@lru_cache(maxsize=8)
def _jobs(text: str, jobs: int, seed: int) -> tuple[Array, Array]:
    """Sizes in bytes and response times in seconds, without the warm-up."""
    system = System(text)
    if len(system.classes) != 1 or len(system.classes[0].routes) != 1 or len(system.classes[0].routes[0].visits) != 1:
        raise CouldNotRun("the mean by size is simulated at one station with one class", "ask a solver, or for `mean`")
    (only,), (station,) = system.classes, system.stations
    document, rate = system.document(only.name), only.rate_per_second
    if document is None or rate is None or station.state_dependent:
        raise CouldNotRun("the mean by size needs open arrivals, documents and one speed", "see docs/models.md")
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, jobs))
    sizes = document.sample(jobs, seed)
    ((demands,),) = system.demands(only.name, sizes)
    limit = station.servers if station.discipline == "fifo" else station.r
    times = simulate_station(arrivals, demands, limit, servers=station.servers) + only.latency_seconds
    begin = int(jobs * WARM_UP)
    return sizes[begin:], times[begin:]
