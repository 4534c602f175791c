"""Throughput against clients: fits the universal scalability law, with its error on held-out numbers of clients.

X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)); `queueing.fit_usl` solves it. The standard deviation of a
throughput is proportional to it, so each has its inverse square as weight. If the interval of beta includes zero, no
peak was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn import queueing
from sojourn.calibration.estimate import FloatArray, HeldOut, IndexArray, cross_validated, folds
from sojourn.calibration.stages import UNSEEN, Stages, followed
from sojourn.failure import CouldNotRun
from sojourn.queueing import UslFit

LEVELS_MIN = 5
"""Three coefficients, one held-out level, and one for an error estimate."""
FOLDS_MAX = 10


@dataclass(frozen=True)
class ScalabilityFit:
    """The law's coefficients and its peak."""

    law: UslFit
    held_out: HeldOut
    warnings: tuple[str, ...]


def fit(clients: FloatArray, throughputs: FloatArray, seed: int, stages: Stages = UNSEEN) -> ScalabilityFit:
    """Fits the law; its intervals are by profile.

    Args:
        clients: N at each point, one or more; shape (points,).
        throughputs: requests/s; shape (points,).
        seed: of the folds.
        stages: shows how far it is.
    """
    levels = len(np.unique(clients))
    if levels < LEVELS_MIN:
        raise CouldNotRun(
            f"{levels} levels of clients are too few for the scalability law: at least {LEVELS_MIN} are needed",
            "measure with more numbers of clients, some beyond the peak",
        )

    def predicted(fitted: IndexArray, out: IndexArray) -> FloatArray:
        return throughput(clients[out], _fit(clients[fitted], throughputs[fitted]))

    law = _fit(clients, throughputs)
    method = "each number of clients in turn" if levels <= FOLDS_MAX else f"numbers of clients in {FOLDS_MAX} parts"
    splits = folds([float(each) for each in clients], seed, min(levels, FOLDS_MAX))
    parts = followed(stages, "held out", splits, len(splits))
    error = cross_validated("throughput", method, parts, throughputs, predicted)
    return ScalabilityFit(law, error, _warnings(law, float(clients.max())))


def throughput(clients: FloatArray, law: UslFit) -> FloatArray:
    """X(N) in requests/s; shape of `clients`."""
    gamma, alpha, beta = (law[name]["estimate"] for name in ("gamma", "alpha", "beta"))
    return gamma * clients / (1 + alpha * (clients - 1) + beta * clients * (clients - 1))


def _fit(clients: FloatArray, throughputs: FloatArray) -> UslFit:
    return queueing.fit_usl(clients, throughputs, throughputs**-2)


def _warnings(law: UslFit, most: float) -> tuple[str, ...]:
    if law["beta"]["low"] <= 0:
        return ("The interval of beta holds zero: the measurements show no peak.",)
    peak = law["peak_load"]
    if peak is not None and peak > most:
        return (f"The peak at {peak:.0f} clients lies beyond the {most:.0f} measured: it is an extrapolation.",)
    return ()
