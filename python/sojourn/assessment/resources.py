"""Limits of single resources: the access line, the helpers, and the rates of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn import _native

LINE_JOBS = 100_000
BISECTIONS = 20


@dataclass(frozen=True)
class Line:
    """The access line and what crosses it: an M/G/1 processor-sharing station (thesis, chapter 4)."""

    bits_per_second: float
    transfer_bytes: NDArray[np.float64]
    """Bytes of a response per request of the log, including heads; shape (requests,)."""

    def utilisation(self, rate: float) -> float:
        return rate * 8 * float(self.transfer_bytes.mean()) / self.bits_per_second

    def largest_rate(self, target_p95_seconds: float, seed: int) -> float:
        """The largest request rate with a p95 transfer time within the target; 0 if there is none."""
        random = np.random.default_rng(seed)
        sample = random.choice(self.transfer_bytes, LINE_JOBS)
        # The sample is scaled to the log's mean, so that it saturates the line at the same rate.
        transfers = 8 * sample / self.bits_per_second * (self.transfer_bytes.mean() / sample.mean())
        if np.quantile(transfers, 0.95) > target_p95_seconds:
            return 0.0
        gaps = np.cumsum(random.exponential(size=LINE_JOBS))

        def within(rate: float) -> bool:
            times = _native.simulate_station(gaps / rate, transfers, None)
            return float(np.quantile(times[LINE_JOBS // 10 :], 0.95)) <= target_p95_seconds

        return _bisect(within, 1.0 / float(transfers.mean()))


@dataclass(frozen=True)
class Helpers:
    """The activity of the server's helpers during the measurement."""

    count: int
    busy_seconds_per_request: float

    @property
    def limit(self) -> float:
        """The rate at which all helpers would be busy, by their reported busy time."""
        return self.count / self.busy_seconds_per_request

    def utilisation(self, rate: float) -> float:
        return rate * self.busy_seconds_per_request / self.count


@dataclass(frozen=True)
class LogRates:
    """Average and peak request rates of the log over all its requests, in requests per second."""

    average: float
    peak: float


def _bisect(within: Callable[[float], bool], saturation: float) -> float:
    low, high = 0.0, saturation
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low
