"""Fits CPU time of each tier per request of each endpoint, by the utilisation law over steps with varied mixes.

A request takes less CPU time where cores are busy: fewer wake-ups, warmer caches. By how much less is fitted, too.
The law, its intervals and what it says of throughputs that cannot be told apart are `calibration.utilisation_law`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from sojourn.applications.summary import Demand, StepFigures, TierDescription
from sojourn.calibration import utilisation_law
from sojourn.calibration.estimate import FloatArray
from sojourn.failure import CouldNotRun

FALLS = np.arange(0.0, 1.55, 0.1)
"""The values tried for the additional CPU time of a request on idle cores, relative to busy ones."""
WIDTH_MAX = 1.5
"""A demand whose interval is wider than this multiple of its estimate is not identifiable."""
CPU_MIN = 1e-4
"""A tier that uses fewer cores is idle."""


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
    steps: Sequence[StepFigures], endpoints: Sequence[str], tiers: Sequence[TierDescription], seed: int
) -> Measured:
    """Fits the demands on fully busy cores, and the additional demand on idle ones.

    Args:
        steps: with whatever mix; those beyond the knee left out.
        endpoints: names, in the order of the results.
        tiers: as they were declared.
        seed: of the bootstrap.
    """
    demands, errors, falls, warnings = list[Demand](), dict[str, float](), dict[str, float](), list[str]()
    for description in tiers:
        tier = description.name
        known = [step for step in steps if (step.tiers[tier].cpu_cores or 0.0) > CPU_MIN]
        if len(known) < len(steps) / 2:
            warnings.append(f"Tier {tier} used too little CPU time, or it could not be measured: no demands.")
            continue
        throughputs = np.array([[_throughput(step, name) for name in endpoints] for step in known])
        busy = np.array([step.tiers[tier].cpu_cores for step in known], dtype=float)
        idle = np.array([_idle(step, description) for step in known])
        falls[tier] = _fall(throughputs, busy, idle)
        throughputs *= (1 + falls[tier] * idle)[:, np.newaxis]
        try:
            fit = utilisation_law.fit(throughputs, busy, endpoints, 1, seed)
        except CouldNotRun as failure:
            warnings.append(f"Tier {tier}: {failure.what}.")
            continue
        errors[tier] = fit.held_out.relative_error_median
        for name, interval, inflation in zip(endpoints, fit.demands_seconds, fit.inflation_factors, strict=True):
            told = inflation <= utilisation_law.INFLATION_FACTOR_MAX and interval.estimate > 0
            told = told and interval.high - interval.low <= WIDTH_MAX * interval.estimate
            demands.append(Demand(endpoint=name, tier=tier, seconds=interval, identifiable=told))
    return Measured(demands, errors, falls, warnings)


def _fall(throughputs: FloatArray, busy: FloatArray, idle: FloatArray) -> float:
    """Chooses the best-fitting additional CPU time per request on idle cores."""

    def left(fall: float) -> float:
        design = np.column_stack([throughputs * (1 + fall * idle)[:, np.newaxis], np.ones(len(busy))])
        # Steps with little load have the same weight as others, because they show the effect.
        weights = 1 / np.sqrt(busy)
        return float(nnls(design * weights[:, np.newaxis], busy * weights)[1])

    return float(min(FALLS, key=left))


def _idle(step: StepFigures, tier: TierDescription) -> float:
    """The unused share of a tier's cores; 0 where unknown."""
    if step.machine_busy_cores is None or not tier.cores:
        return 0.0
    return max(0.0, 1 - step.machine_busy_cores / len(tier.cores))


def _throughput(step: StepFigures, endpoint: str) -> float:
    return next((each.requests_per_second for each in step.endpoints if each.name == endpoint), 0.0)
