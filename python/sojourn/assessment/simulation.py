"""Simulates the fitted station under the log's own sessions.

Sessions arrive as a Poisson process and are drawn from the trace, in progress ones included, exactly as the load
generator does it; a request enters the station when it is due and the one before it has been answered. So the
simulation feels bursts and think times, which the closed form's Poisson requests do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sojourn import _native
from sojourn.assessment.model import Station
from sojourn.assessment.summary import Prediction

REQUESTS = 400_000
WARM_UP_FRACTION = 0.1


@dataclass(frozen=True)
class Sessions:
    """The sessions that the simulation replays."""

    trace: _native.Trace
    think_scale: float


class Quota(NamedTuple):
    """A processor that stands still for the rest of each period in which it has worked for so long."""

    seconds: float
    period_seconds: float

    @property
    def share(self) -> float:
        """Of the processor's time."""
        return self.seconds / self.period_seconds


def simulate(station: Station, sessions: Sessions, rate: float, seed: int, quota: Quota | None = None) -> Prediction:
    """Foretells one step by simulation of about `REQUESTS` requests, at less than the quota's share of the capacity.

    A saturated station has no steady state: only its throughput is predicted then.
    """
    if not station.keeps_up(rate):
        return Prediction(
            requests_per_second=station.capacity,
            response_time_mean_seconds=None,
            response_time_p95_seconds=None,
        )
    seconds = REQUESTS / rate
    answered_at, times = _native.simulate_sessions(
        sessions.trace,
        rate,
        seconds,
        sessions.think_scale,
        station.demands,
        station.r,
        station.mean_delays.latency_seconds,
        seed,
        quota,
    )
    steady = (answered_at > WARM_UP_FRACTION * seconds) & (answered_at <= seconds)
    return Prediction(
        requests_per_second=float(np.count_nonzero(steady) / ((1 - WARM_UP_FRACTION) * seconds)),
        response_time_mean_seconds=float(times[steady].mean()) + station.mean_delay(rate),
        response_time_p95_seconds=float(np.quantile(times[steady], 0.95)) + station.p95_delay(rate),
    )
