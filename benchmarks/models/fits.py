"""Measures how often the intervals of `sojourn fit` cover, with synthetic measurements of known true values.

The cases are demands by size with scatter, the utilisation law with errors in the throughputs, and the steps that an
assessment of an application makes at its lowest effort. The tests run the same with fewer seeds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.applications import synthetic
from benchmarks.applications.synthetic import MadeUp
from sojourn.assessment.choices import EffortName
from sojourn.calibration import service_demand, utilisation_law

COVERED_MIN = 0.90
SIZES = np.repeat([200.0, 1e3, 5e3, 2e4, 5e4, 2e5, 1e6, 5e6], 3)
FIXED_SECONDS, SECONDS_PER_BYTE = 5e-6, 1e-10
DEMANDS_SECONDS, BACKGROUND = (2e-3, 5e-3), 0.03
SCATTER = (("gamma", 0.1), ("log-normal", 0.3), ("log-normal", 0.5), ("gamma", 1.0), ("log-normal", 1.0))
"""Laws and coefficients of variation."""
INTERVALS = 40
DEMAND_SECONDS_MIN, DEMAND_FRACTION_MIN = 1e-3, 0.02
"""Smaller demands of an application, or parts of a request's CPU time, are not told from nothing in seconds."""

Trial = Callable[[int], Sequence[bool]]
"""For a seed: whether the interval of each figure covers."""


@dataclass(frozen=True)
class Case:
    """One kind of measurement, and the fitted figures."""

    what: str
    figures: Sequence[str]
    trial: Trial


def cases() -> Iterator[Case]:
    for law, variation in SCATTER:
        what = f"`sizes`: 24 demands of 8 sizes, {law} scatter of {variation:g}"
        yield Case(what, ("fixed part", "per byte"), partial(_sizes, law, variation))
    for wrong in (0.0, 0.05, 0.1, 0.2):
        what = f"`intervals`: {INTERVALS} of them, two classes, throughputs wrong by {wrong:.0%}, utilisation by 2 %"
        yield Case(what, ("first demand", "second demand", "background"), partial(_intervals, wrong))
    for name, application in (("the shop", synthetic.SHOP), ("the shop without an index", synthetic.MISSING_INDEX)):
        pairs = _demands(application)
        figures = [f"{endpoint} in {tier}" for endpoint, tier in pairs]
        figures += [f"{each} told from the others" for each in figures]
        yield Case(f"`assess --effort quick`: {name}", figures, partial(_application, application))


def table(seeds: int) -> tuple[str, list[str]]:
    """Returns the shares as Markdown, and the figures below 90 %."""
    lines = ["| fit | seeds | intervals that cover |", "|---|---|---|"]
    failed = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for case in cases():
            covered = np.mean(list(pool.map(case.trial, range(seeds), chunksize=8)), axis=0)
            shares = zip(case.figures, covered, strict=True)
            lines.append(
                f"| {case.what} | {seeds} | " + ", ".join(f"{name} {share:.1%}" for name, share in shares) + " |"
            )
            if covered.min() < COVERED_MIN:
                failed.append(case.what)
    return "\n".join(lines), failed


def _sizes(law: str, variation: float, seed: int) -> Sequence[bool]:
    demands = (FIXED_SECONDS + SECONDS_PER_BYTE * SIZES) * _scattered(law, variation, seed)
    found = service_demand.fit(SIZES, demands, seed, 1)
    fixed, last = found.fixed_seconds, found.seconds_per_byte[-1]
    return fixed.low <= FIXED_SECONDS <= fixed.high, last.low <= SECONDS_PER_BYTE <= last.high


def _scattered(law: str, variation: float, seed: int) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    if law == "gamma":
        return random.gamma(variation**-2, variation**2, len(SIZES))
    sigma = np.sqrt(np.log1p(variation**2))
    return random.lognormal(-(sigma**2) / 2, sigma, len(SIZES))


def _demands(application: MadeUp) -> list[tuple[str, str]]:
    return [
        (endpoint, tier)
        for endpoint, whole in application.milliseconds.items()
        for tier in application.tiers
        if application.seconds(endpoint, tier) >= max(DEMAND_SECONDS_MIN, DEMAND_FRACTION_MIN * sum(whole) / 1e3)
    ]


def _application(application: MadeUp, seed: int) -> Sequence[bool]:
    found = {(each.endpoint, each.tier): each for each in application.measured(EffortName.quick, seed).demands}
    chosen = _demands(application)
    covers = [found[pair].seconds.low <= application.seconds(*pair) <= found[pair].seconds.high for pair in chosen]
    return [*covers, *(found[pair].identifiable for pair in chosen)]


def _intervals(wrong: float, seed: int) -> Sequence[bool]:
    random = np.random.default_rng(seed)
    throughputs = random.uniform(10, 100, (INTERVALS, 2))
    busy = (throughputs @ DEMANDS_SECONDS + BACKGROUND) * random.normal(1, 0.02, INTERVALS)
    measured = throughputs * random.normal(1, wrong, (INTERVALS, 2))
    found = utilisation_law.fit(measured, busy / 2, ["first", "second"], 2, seed)
    intervals = (*found.demands_seconds, found.background_utilisation)
    return [
        each.low <= truth <= each.high for each, truth in zip(intervals, (*DEMANDS_SECONDS, BACKGROUND), strict=True)
    ]
