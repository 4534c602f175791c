"""Fits CPU time of each tier per request of each endpoint, by the utilisation law over steps with varied mixes.

A request takes less CPU time where cores are busy, or the process that it queues for: fewer wake-ups, warmer caches. By
how much less is fitted, too.
What a tier uses without any request (heartbeats, background processes) is no request's: it was measured before the
load, and stands in the fit as steps without requests. The law, its intervals and what it says of throughputs that
cannot be told apart are `calibration.utilisation_law`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.applications.diagnosis import busy_cores
from sojourn.applications.summary import Demand, StepFigures, TierDescription
from sojourn.calibration import utilisation_law
from sojourn.calibration.estimate import FloatArray
from sojourn.failure import CouldNotRun
from sojourn.loading.confidence import student_t

FALLS = np.arange(0.0, 1.55, 0.1)
"""The values tried for the additional CPU time of a request on idle cores, relative to busy ones."""
SHOWN = 0.95
"""The confidence with which there is any."""
WIDTH_MAX = 1.5
"""A demand whose interval is wider than this multiple of its estimate is not identifiable."""
CPU_MIN = 1e-4
"""A tier that uses fewer cores is idle."""
SCATTER_CORES = 0.005
"""The standard deviation of a tier's CPU usage at any load, because of the moments that background work falls on, and
of the clock's ticks.
"""
SCATTER_FRACTION = 0.03
"""The scatter of a usage at a load, relative to it: caches, the processor's frequency, other programs."""
VARIANCE_ROUNDS = 3
DATABASES = ("postgres", "mysqld", "mariadbd", "redis-server", "memcached", "mongod")
"""Programs that are asked several times for a request."""
CALLS_MAX = 12
"""More calls are taken for so many."""


@dataclass(frozen=True)
class Measured:
    """The fitted demands with their errors."""

    demands: list[Demand]
    errors: dict[str, float]
    """The median error of CPU usage on held-out steps, by tier."""
    falls: dict[str, float]
    """The additional CPU time of a request on idle cores, relative, by tier."""
    warnings: list[str]
    """Demands that could not be determined."""


def measure(
    steps: Sequence[StepFigures],
    endpoints: Sequence[str],
    tiers: Sequence[TierDescription],
    seed: int,
    processes: Mapping[str, int],
) -> Measured:
    """Fits the demands on fully busy cores, and the additional demand on idle ones.

    Args:
        steps: with whatever mix; those beyond the knee left out.
        endpoints: names, in the order of the results.
        tiers: as they were declared.
        seed: of the bootstrap.
        processes: of the tiers whose processes take turns.
    """
    demands, errors, falls, warnings = list[Demand](), dict[str, float](), dict[str, float](), list[str]()
    for description in tiers:
        tier = description.name
        known = [step for step in steps if (step.tiers[tier].cpu_cores or 0.0) > CPU_MIN]
        unloaded = [] if description.idle is None else description.idle.parts_cpu_cores
        if len(known) < len(steps) / 2:
            warnings.append(f"Tier {tier} used too little CPU time, or it could not be measured: no demands.")
            continue
        nothing = [[0.0] * len(endpoints)] * len(unloaded)
        throughputs = np.array([*([_throughput(step, name) for name in endpoints] for step in known), *nothing])
        busy = np.array([*(step.tiers[tier].cpu_cores for step in known), *unloaded], dtype=float)
        unused = np.array(
            [*(_unused(step, description, processes.get(tier)) for step in known), *(1.0 for _ in unloaded)]
        )
        seconds = np.array([*(step.measured_seconds or 1.0 for step in known), *(1.0 for _ in unloaded)])
        weights = 1 / _deviations(throughputs, busy, seconds)
        falls[tier] = _fall(throughputs, busy, unused, weights)
        throughputs *= (1 + falls[tier] * unused)[:, np.newaxis]
        try:
            fit = utilisation_law.fit(throughputs, busy, endpoints, 1, seed, weights, designed=True)
        except CouldNotRun as failure:
            warnings.append(f"Tier {tier}: {failure.what}.")
            continue
        errors[tier] = fit.held_out.relative_error_median
        without_load = fit.background_utilisation
        for name, interval, inflation, most in zip(
            endpoints, fit.demands_seconds, fit.inflation_factors, throughputs.max(axis=0), strict=True
        ):
            told = inflation <= utilisation_law.INFLATION_FACTOR_MAX and interval.low > 0
            told = told and interval.high - interval.low <= WIDTH_MAX * interval.estimate
            # Even at the highest load it may be what the tier uses anyway.
            told = told and interval.estimate * most > (without_load.high - without_load.low) / 2
            demands.append(Demand(endpoint=name, tier=tier, seconds=interval, identifiable=told))
    return Measured(demands, errors, falls, warnings)


def idle(tiers: Sequence[TierDescription]) -> float:
    """Cores that the tiers use without any request."""
    return sum(tier.idle.cpu_cores.estimate for tier in tiers if tier.cores and tier.idle is not None)


def calls(
    steps: Sequence[StepFigures], endpoints: Sequence[str], tiers: Sequence[TierDescription]
) -> dict[tuple[str, str], int]:
    """How often a request of each endpoint asks each database, where it asks more than once.

    A database's process waits for the next query after each answer, so that it is switched as often. Being interrupted,
    as in a long query, is no such wait.
    """
    from scipy.optimize import nnls

    found = dict[tuple[str, str], int]()
    for tier in tiers:
        known = [step for step in steps if step.tiers[tier.name].voluntary_switches_per_second]
        if not (tier.command or "").startswith(DATABASES) or len(known) <= len(endpoints):
            continue
        switches = np.array([step.tiers[tier.name].voluntary_switches_per_second for step in known], dtype=float)
        throughputs = np.array([[_throughput(step, name) for name in endpoints] for step in known])
        # Counts vary by their square root; some are of background work.
        weights = 1 / np.sqrt(switches)
        design = np.column_stack([throughputs, np.ones(len(known))]) * weights[:, np.newaxis]
        for name, count in zip(endpoints, nnls(design, switches * weights)[0], strict=False):
            if round(count) > 1:
                found[name, tier.name] = min(CALLS_MAX, round(count))
    return found


def _deviations(throughputs: FloatArray, busy: FloatArray, seconds: FloatArray) -> FloatArray:
    """How far each step's CPU usage may be from its mean (one standard deviation).

    The CPU time of random requests varies by the square of their demands, taken as exponential: a few long ones vary by
    more than many short ones that use as many cores. What the demands are is found in rounds.
    """
    from scipy.optimize import nnls

    design = np.column_stack([throughputs, np.ones(len(busy))])
    fixed = SCATTER_CORES**2 + (SCATTER_FRACTION * busy) ** 2
    variances = fixed + busy * float(busy.sum() / max(throughputs.sum(), 1e-9)) / seconds
    for _ in range(VARIANCE_ROUNDS):
        weights = 1 / np.sqrt(variances)
        found = nnls(design * weights[:, np.newaxis], busy * weights)[0][:-1]
        variances = fixed + 2 * throughputs @ found**2 / seconds
    deviations: FloatArray = np.sqrt(variances)
    return deviations


def _fall(throughputs: FloatArray, busy: FloatArray, unused: FloatArray, weights: FloatArray) -> float:
    """The best-fitting additional CPU time per request on idle cores; 0 unless the steps show that there is any."""
    from scipy.optimize import nnls

    def left(fall: float) -> float:
        design = np.column_stack([throughputs * (1 + fall * unused)[:, np.newaxis], np.ones(len(busy))])
        return float(nnls(design * weights[:, np.newaxis], busy * weights)[1]) ** 2

    best = float(min(FALLS, key=left))
    freedom = max(1, len(busy) - throughputs.shape[1] - 2)
    # The likelihood ratio, as an F test of one parameter: F with one degree of freedom is the square of Student's t.
    is_shown = left(0.0) > left(best) * (1 + student_t(SHOWN, freedom) ** 2 / freedom)
    return best if is_shown else 0.0


def _unused(step: StepFigures, tier: TierDescription, processes: int | None) -> float:
    """The unused share of a tier's cores, or of its processes that take turns: the smaller; 0 where unknown."""
    busy = busy_cores(step, [tier])
    if busy is None or not tier.cores:
        return 0.0
    own = (step.tiers[tier.name].cpu_cores or 0.0) / processes if processes else 0.0
    return max(0.0, 1 - max(own, busy / len(tier.cores)))


def _throughput(step: StepFigures, endpoint: str) -> float:
    return next((each.requests_per_second for each in step.endpoints if each.name == endpoint), 0.0)
