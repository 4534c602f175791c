"""The CPU time of a request by load: what an idle server spends more, and what a busy one would need.

Every request wakes an idle server, so its CPU time per request is fitted as a line in the wake-ups per request or in
the idle share of the core. A server with a share of a processor is throttled by all that it uses, so its CPU time is
split into requests, wake-ups and work in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sojourn.assessment.summary import Step
from sojourn.calibration.estimate import BOOTSTRAP_SAMPLES, FloatArray, percentile_interval
from sojourn.results.records import Interval

IDLE_RANGE_MIN = 0.05
"""If the steps' idle shares differ by less than this, they do not show how CPU time depends on idleness."""
WAKEUPS_RANGE_MIN = 0.05
"""If the wake-ups per request of the steps differ by less, the cost of one cannot be determined."""
BACKGROUND_MAX = 0.5
"""The largest background share of a server: with more it could not serve requests."""


@dataclass(frozen=True)
class ByRate:
    """A figure known at several rates."""

    rates: tuple[float, ...]
    """Requests/s, ascending."""
    values: tuple[float, ...]

    def at(self, rate: float) -> float:
        """Interpolates linearly, and extrapolates with the nearest value."""
        return float(np.interp(rate, self.rates, self.values))


@dataclass(frozen=True)
class Saving:
    """The demand of a request by the utilisation of the processor, relative to a busy server's."""

    utilisations: tuple[float, ...]
    """Ascending."""
    over_busy: tuple[float, ...]

    def busy_demand(self, rows: FloatArray) -> float:
        """CPU seconds per request of a busy server that saves as much, from rows of `by_idleness`."""
        return float(np.median(rows[:, 0] / np.interp(1.0 - rows[:, 1], self.utilisations, self.over_busy)))

    def by_rate(self, capacity: float) -> ByRate:
        """The same by rate, for a server that would be full at `capacity` requests/s."""
        rates = (used / factor * capacity for used, factor in zip(self.utilisations, self.over_busy, strict=True))
        return ByRate(tuple(rates), self.over_busy)


BUSY = ByRate((0.0,), (1.0,))
"""The same demand at every rate as of a busy server."""


class Spending(NamedTuple):
    """A server's CPU time in its parts."""

    per_request: float = 0.0
    per_wakeup: float = 0.0
    per_second: float = 0.0


def calibrate(predicted: float, rows: FloatArray, demand: Callable[[FloatArray], float], seed: int) -> Interval:
    """The ratio of measured to predicted demand, with an interval by resampling steps."""
    if len(rows) < 2:
        return Interval(estimate=1.0, low=1.0, high=1.0)
    random = np.random.default_rng(seed)
    samples = [demand(rows[random.integers(0, len(rows), len(rows))]) for _ in range(BOOTSTRAP_SAMPLES)]
    return percentile_interval(demand(rows) / predicted, np.array(samples) / predicted)


def by_idleness(steps: Sequence[Step]) -> FloatArray:
    """CPU seconds per request, idle share of the processor, wake-ups per request (or nan), rate; shape (steps, 4)."""
    known = [
        (cpu, 1.0 - step.server_cpu_fraction.median, step.server_wakeups_per_request, step.offered_requests_per_second)
        for step in steps
        if step.server_cpu_fraction is not None and (cpu := step.cpu_for_model) is not None
    ]
    return np.array(known, dtype=float).reshape(-1, 4)


def by_wakeups(steps: Sequence[Step]) -> FloatArray:
    """CPU seconds per request of the server alone, wake-ups per request, seconds per request; shape (steps, 3)."""
    known = [
        (cpu, step.server_wakeups_per_request or 0.0, 1.0 / step.throughput_for_model)
        for step in steps
        if (cpu := step.own_cpu_undisturbed) is not None
    ]
    return np.array(known, dtype=float).reshape(-1, 3)


def fit_spending(rows: FloatArray, share: float) -> Spending:
    """Fits the plane cpu = request + wake-up * wake-ups + second * seconds, with points of equal relative precision."""
    if not len(rows):
        return Spending()
    from scipy.optimize import lsq_linear

    cpu, wakeups, seconds = rows.T
    # If all steps have similar wake-ups, their cost cannot be separated from the request's.
    told = wakeups if np.ptp(wakeups) >= WAKEUPS_RANGE_MIN else np.zeros_like(wakeups)
    design = np.column_stack([np.ones_like(cpu), told, seconds])
    bounds = (0, [np.inf, np.inf, BACKGROUND_MAX * share])
    return Spending(*map(float, lsq_linear(design / cpu[:, None], np.ones_like(cpu), bounds=bounds).x))


def at_most(calibration: Interval, factor: float) -> Interval:
    """Limits the factor to what the processor's time allows."""
    low, estimate, high = (min(value, factor) for value in (calibration.low, calibration.estimate, calibration.high))
    return Interval(low=low, estimate=estimate, high=high)


class _Line(NamedTuple):
    """CPU seconds per request as a line in what a busy server saves."""

    at_busy: float
    at_rows: FloatArray
    """The line's value at each row; shape (rows,)."""


def busy_demand(rows: FloatArray) -> float:
    """CPU seconds per request of an always busy server, from rows of `by_idleness`."""
    return _demand_line(rows).at_busy


def _demand_line(rows: FloatArray) -> _Line:
    cpu, idle, wakeups, _rates = rows.T
    if np.ptp(idle) < IDLE_RANGE_MIN * (idle.max() + 1e-9):
        median = float(np.median(cpu))
        return _Line(median, np.full_like(cpu, median))
    if np.isnan(wakeups).any():
        return _line(cpu, idle)
    # A busy server sleeps as often as the idle share predicts: with a single loop hardly ever, so that it saves
    # wake-ups. Threads that hand work to each other sleep as often as before, and save in proportion to the idle share.
    _slope, at_busy = np.polyfit(idle, wakeups, 1)
    left = float(np.clip(at_busy, 0.0, wakeups.min()))
    return _line(cpu, idle if left > 0.5 * wakeups.max() else wakeups - left)


def _line(cpu: FloatArray, saved: FloatArray) -> _Line:
    """Fits cpu = demand + cost * saved, both non-negative, with points of equal relative precision."""
    from scipy.optimize import lsq_linear

    design = np.column_stack([np.ones_like(saved), saved])
    found = lsq_linear(design / cpu[:, None], np.ones_like(cpu), bounds=(0, np.inf))
    return _Line(float(found.x[0]), design @ found.x)


def demand_by_rate(rows: FloatArray, capacity: float) -> ByRate:
    """The demand at the rows' rates, up to a busy server's capacity, relative to a busy server's demand."""
    if len(rows) < 2 or not (line := _demand_line(rows)).at_busy:
        return ByRate((capacity,), (1.0,))
    rates = rows[:, 3]
    kept = np.argsort(rates)[: np.count_nonzero(rates < capacity)]
    factors = np.maximum(line.at_rows[kept] / line.at_busy, 1.0)
    return ByRate((*rates[kept].tolist(), capacity), (*factors.tolist(), 1.0))
