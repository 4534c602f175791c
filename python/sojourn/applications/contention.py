"""The stretch of CPU time where tiers share cores, by a layered approximation.

Below are the cores, above them those that use them: processes that take turns at their own requests (nginx, Node,
Python under its lock) and tiers with a process or thread per request. Who runs has min(1, c / k) of a core among k that
could. A task's stretch is the mean of max(1, k / c) over those beside it: a process that takes turns is at most one of
them, the others are Poisson. Utilisations above give who could run below, and the stretch below gives the utilisations
above: the two are solved in turn (the method of layers of Rolia and Sevcik, 1995, with two).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sojourn.calibration.estimate import FloatArray

ROUNDS_MAX = 100
"""The iteration starts from an idle system; without convergence after this many rounds it counts as saturated."""
CONVERGED = 1e-4
COUNTED = 64
"""The most runnable tasks considered; with half as many on average the cores are saturated."""
_FACTORIALS = np.cumsum(np.log(np.maximum(1, np.arange(COUNTED))))


@dataclass(frozen=True)
class Load:
    """A tier's load on the cores."""

    busy_cores: float
    """Its throughput times its CPU time per request."""
    processes: int | None
    """The number of processes that take turns, one core each; None for a process or thread per request."""


def utilisation(loads: Sequence[Load], falls: Sequence[float], cores: float, background: float) -> float:
    """Returns the utilisation of the cores, where CPU time per request falls with it.

    An endpoint needs 1 + its entry in `falls` times its CPU time at full cores if the cores are idle.
    """
    used = sum(load.busy_cores * (1 + fall) for load, fall in zip(loads, falls, strict=True)) + background
    return used / (cores + sum(load.busy_cores * fall for load, fall in zip(loads, falls, strict=True)))


@dataclass(frozen=True)
class Stretch:
    """The factor on a tier's CPU time."""

    of_core: float
    """The factor on CPU time from sharing cores, including the effect of idleness."""
    utilisation: float | None
    """The utilisation of each process that takes turns; its requests also wait for each other, by 1 / (1 -
    utilisation).
    """

    @property
    def whole(self) -> float:
        """The total factor on CPU time; infinite when saturated."""
        if self.utilisation is None:
            return self.of_core
        return self.of_core / (1 - self.utilisation) if self.utilisation < 1 else math.inf


def stretches(loads: Sequence[Load], cores: float, background: float) -> list[Stretch] | None:
    """The stretch of each tier; None if the cores or a tier's processes are saturated.

    Args:
        loads: of the tiers that share the cores.
        cores: how many.
        background: cores that others use of them.
    """
    found = _solved(tuple(loads), cores, background)
    return None if found is None else list(found)


@lru_cache(maxsize=16_384)
def _solved(loads: tuple[Load, ...], cores: float, background: float) -> tuple[Stretch, ...] | None:
    # Cached: the same loads recur with other waits and other places.
    if sum(load.busy_cores for load in loads) + background >= cores:
        return None
    factors, others = [1.0] * len(loads), 1.0
    for _ in range(ROUNDS_MAX):
        sources = [_runnable(load, factor) for load, factor in zip(loads, factors, strict=True)]
        sources.append((background * others, None))
        if sum(each[0] for each in sources) > COUNTED / 2 or any(_is_full(*each) for each in sources):
            return None
        wanted = _seen_stretches(sources, cores)
        moved = max(abs(new - old) / old for new, old in zip(wanted, [*factors, others], strict=True))
        factors, others = wanted[:-1], wanted[-1]
        if moved < CONVERGED:
            return tuple(_stretch(load, factor) for load, factor in zip(loads, factors, strict=True))
    return None


def _stretch(load: Load, factor: float) -> Stretch:
    return Stretch(factor, None if load.processes is None else load.busy_cores * factor / load.processes)


Source = tuple[float, int | None]
"""A tier's mean number of runnable tasks, and the maximum if it has one."""


def _runnable(load: Load, factor: float) -> Source:
    return load.busy_cores * factor, load.processes


def _is_full(mean: float, most: int | None) -> bool:
    return most is not None and mean >= most


def _seen_stretches(sources: Sequence[Source], cores: float) -> list[float]:
    """The mean of max(1, k / c) as seen by an additional task of each tier."""
    slowed = np.maximum(1.0, (np.arange(COUNTED) + 1) / cores)
    counts = [_counts(*each) for each in sources]
    everybody = _together(counts)
    found = []
    for place, (mean, most) in enumerate(sources):
        if most is None:
            # A Poisson arrival sees time averages.
            found.append(float(everybody @ slowed))
            continue
        # A process of the tier does not see itself among the others.
        beside = [*counts[:place], *counts[place + 1 :], _counts(mean * (most - 1) / most, most - 1)]
        found.append(float(_together(beside) @ slowed))
    return found


def _together(counts: Sequence[FloatArray]) -> FloatArray:
    """The distribution of the total number of runnable tasks."""
    found = counts[0]
    for each in counts[1:]:
        found = np.convolve(found, each)[:COUNTED]
    return found


def _counts(mean: float, most: int | None) -> FloatArray:
    numbers = np.arange(COUNTED)
    if most == 0 or mean <= 0:
        return np.where(numbers == 0, 1.0, 0.0)
    if most is None:
        poisson: FloatArray = np.exp(numbers * math.log(mean) - mean - _FACTORIALS)
        return poisson
    share, found = mean / most, np.zeros(COUNTED)
    for count in range(min(most + 1, COUNTED)):
        found[count] = math.comb(most, count) * share**count * (1 - share) ** (most - count)
    return found
