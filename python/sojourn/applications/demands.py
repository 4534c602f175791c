"""CPU time of each tier per request of each endpoint, by the utilisation law over steps whose mixes were varied.

The law, its intervals and what it says of throughputs that cannot be told apart are `calibration.utilisation_law`'s.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.applications.summary import Demand, StepFigures
from sojourn.calibration import utilisation_law
from sojourn.failure import CouldNotRun

WIDTH_MAX = 1.5
"""Of a demand's interval, over its estimate: a wider one tells it from little."""
CPU_MIN = 1e-4
"""Cores: a tier that uses less is idle."""


def measure(
    steps: Sequence[StepFigures], endpoints: Sequence[str], tiers: Sequence[str], seed: int
) -> tuple[list[Demand], dict[str, float], list[str]]:
    """The demands, the median error per tier on steps held out, and what could not be found out.

    Args:
        steps: with whatever mix; those beyond the knee left out.
        endpoints: names, in the order of the results.
        tiers: names.
        seed: of the bootstrap.
    """
    demands, errors, warnings = list[Demand](), dict[str, float](), list[str]()
    for tier in tiers:
        known = [step for step in steps if (step.tiers[tier].cpu_cores or 0.0) > CPU_MIN]
        if len(known) < len(steps) / 2:
            warnings.append(f"Tier {tier} used too little CPU time, or it could not be measured: no demands.")
            continue
        throughputs = np.array([[_throughput(step, name) for name in endpoints] for step in known])
        busy = np.array([step.tiers[tier].cpu_cores for step in known], dtype=float)
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
    return demands, errors, warnings


def _throughput(step: StepFigures, endpoint: str) -> float:
    return next((each.requests_per_second for each in step.endpoints if each.name == endpoint), 0.0)
