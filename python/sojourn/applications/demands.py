"""CPU time of each tier per request of each endpoint, by the utilisation law over steps whose mixes were varied.

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
"""That are tried: how much more CPU time a request takes on idle cores than on full ones, relative."""
WIDTH_MAX = 1.5
"""Of a demand's interval, over its estimate: a wider one tells it from little."""
CPU_MIN = 1e-4
"""Cores: a tier that uses less is idle."""


@dataclass(frozen=True)
class Measured:
    """What was found, and how well."""

    demands: list[Demand]
    errors: dict[str, float]
    """By tier, the median error of CPU use on steps held out."""
    falls: dict[str, float]
    """By tier: on idle cores a request takes so much more, relative."""
    warnings: list[str]
    """What could not be found out."""


def measure(
    steps: Sequence[StepFigures], endpoints: Sequence[str], tiers: Sequence[TierDescription], seed: int
) -> Measured:
    """The demands on full cores, and by how much more it is on idle ones.

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
    """By how much more CPU time per request is on idle cores: what fits best."""

    def left(fall: float) -> float:
        design = np.column_stack([throughputs * (1 + fall * idle)[:, np.newaxis], np.ones(len(busy))])
        # Steps with little load count as much as others: they are where it shows.
        weights = 1 / np.sqrt(busy)
        return float(nnls(design * weights[:, np.newaxis], busy * weights)[1])

    return float(min(FALLS, key=left))


def _idle(step: StepFigures, tier: TierDescription) -> float:
    """The share of a tier's cores that nobody used; none where that is not known."""
    if step.machine_busy_cores is None or not tier.cores:
        return 0.0
    return max(0.0, 1 - step.machine_busy_cores / len(tier.cores))


def _throughput(step: StepFigures, endpoint: str) -> float:
    return next((each.requests_per_second for each in step.endpoints if each.name == endpoint), 0.0)
