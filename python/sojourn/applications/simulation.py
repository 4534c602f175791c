"""Simulates the very requests of a step, many times."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn import _native
from sojourn.applications.network import Network
from sojourn.applications.stalls import Stalls
from sojourn.applications.system_file import DISK, OTHERS, OTHERS_SECONDS, UNIT_BYTES, class_of, for_requests
from sojourn.calibration.estimate import FloatArray

HALF_WIDTH = 0.02
JOBS_MAX = 400_000
REPLICATIONS = 40
"""Of a step's requests. Their spread tells how far a measurement may be from the model if the model is right."""


Times = Sequence[float] | FloatArray


@dataclass(frozen=True)
class Figures:
    """An endpoint's response times in each replication of a step, in seconds; shape (replications,)."""

    means: FloatArray
    p95s: FloatArray


def simulated(
    network: Network,
    due: Mapping[str, Times],
    seconds: float,
    seed: int,
    stalled: Stalls | None = None,
    beside: Mapping[str, Times] | None = None,
    replications: int | None = None,
) -> dict[str, Figures] | None:
    """The response times of requests that are due at these times, by endpoint; None if others have all cores.

    The system is empty at the first of them: a load near capacity, or above it, has no steady state within a step.

    Args:
        network: as fitted, with the cores that others use.
        due: by endpoint, from the begin of the measured time; those due before it, or after its end, are there for
            the others to wait for.
        seconds: how long it is measured.
        seed: of the requests' sizes and times.
        stalled: when all cores stood still.
        beside: further requests whose times do not count.
        replications: `REPLICATIONS` if None.
    """
    beside, replications = beside or {}, replications or REPLICATIONS
    within = [
        (name, each) for times in (due, beside) for name, row in times.items() for each in row if 0 <= each < seconds
    ]
    rates = {name: count / seconds for name, count in Counter(name for name, _ in within).items()}
    taken = network.background.at(sum(rates.values()))
    if sum(rates.values()) <= 0 or any(taken >= group.cores for group in network.groups):
        return None
    arrivals: dict[str, tuple[str, FloatArray]] = {}
    for index, name in enumerate(network.endpoints):
        times = np.sort(np.array(due.get(name, ())))
        measured = (times >= 0) & (times < seconds)
        # A class of its own has those whose times do not count.
        others = np.sort(np.concatenate([times[~measured], beside.get(name, ())]))
        parts = {class_of(index): times[measured], f"unmeasured{index}": others}
        arrivals |= {class_name: (name, part) for class_name, part in parts.items() if part.size}
    classes = {class_name: name for class_name, (name, _) in arrivals.items()}
    text = for_requests(network, rates, classes)
    ends = min(times[0] for _, times in arrivals.values()), max(times[-1] for _, times in arrivals.values())
    random, said = np.random.default_rng(seed), defaultdict[str, list[tuple[float, float]]](list)
    for replication in range(replications):
        traces = {each: (times, _sizes(network, name, times.size, random)) for each, (name, times) in arrivals.items()}
        traces |= _of_others(network, taken, ends, stalled, random) | _of_the_disk(network, arrivals.values(), random)
        found = _native.simulate_system(
            text, HALF_WIDTH, JOBS_MAX, seed + replication, targets=["mean", "p95"], traces=traces
        )
        for index, name in enumerate(network.endpoints):
            times = found["classes"].get(class_of(index), {}).get("response_time_seconds")
            if times and times["mean"] is not None and times["p95"] is not None:
                said[name].append((times["mean"], times["p95"]))
    return {name: Figures(*np.array(each).T) for name, each in said.items() if len(each) == replications}


def _sizes(network: Network, name: str, count: int, random: np.random.Generator) -> FloatArray:
    shape = network.cpu_shape(name)
    if not shape:
        return random.exponential(UNIT_BYTES, count)
    return random.choice(np.array(shape), count) * (UNIT_BYTES / float(np.mean(shape)))


def _of_the_disk(
    network: Network, arrivals: Iterable[tuple[str, FloatArray]], random: np.random.Generator
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """When the disk gets work, which is with each request that uses it, and how much, as sizes."""
    named = [(times, network.disk_seconds(name)) for name, times in arrivals]
    parts = [(times, np.full(times.size, seconds)) for times, seconds in named if seconds > 0]
    if not parts:
        return {}
    times, works = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(times)
    return {DISK: (times[order], works[order] * random.exponential(UNIT_BYTES, times.size))}


def _of_others(
    network: Network, taken: float, ends: tuple[float, float], stalled: Stalls | None, random: np.random.Generator
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """When other programs, or the hypervisor, want a core of each group, and for how long, as sizes."""
    found, begins, stopped = {}, np.empty(0), np.empty(0)
    if stalled is not None and stalled.begins.size:
        # All cores at once: they are often those of one core of the machine below.
        stopped = stalled.stopped_seconds
        begins = stalled.begins + random.uniform(0, np.maximum(0.0, stalled.window_seconds - stopped))
    for place, group in enumerate(network.groups):
        count = int(random.poisson(taken / OTHERS_SECONDS * (ends[1] - ends[0])))
        times = np.concatenate([random.uniform(*ends, count), *[begins] * math.ceil(group.cores)])
        seconds = np.concatenate([random.exponential(OTHERS_SECONDS, count), *[stopped] * math.ceil(group.cores)])
        if times.size:
            order = np.argsort(times)
            found[f"{OTHERS}{place}"] = (times[order], seconds[order] * (UNIT_BYTES / OTHERS_SECONDS))
    return found
