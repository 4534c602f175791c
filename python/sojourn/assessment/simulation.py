"""Simulates the fitted station under the log's own sessions.

Sessions arrive as a Poisson process and are drawn from the trace, in progress ones included, exactly as the load
generator does it; a request enters the station when it is due and the one before it has been answered. So the
simulation feels bursts and think times, which the closed form's Poisson requests do not. Answers wait for the
generator, which takes one after the other: its work on each is measured, and is part of every response time that it
measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn import _native
from sojourn.assessment.model import R_CANDIDATES, Delays, Station, misfit
from sojourn.assessment.summary import Prediction, Step

REQUESTS = 400_000
WARM_UP_FRACTION = 0.1


@dataclass(frozen=True)
class Sessions:
    """The sessions that the simulation replays."""

    trace: _native.Trace
    think_scale: float


def simulate(station: Station, sessions: Sessions, rate: float, seed: int) -> Prediction:
    """Foretells one step by simulation of about `REQUESTS` requests, under the station's quota if it has one.

    A saturated station has no steady state: only its throughput is predicted then.
    """
    if not station.keeps_up(rate):
        return Prediction(
            requests_per_second=station.capacity,
            response_time_mean_seconds=None,
            response_time_p95_seconds=None,
        )
    seconds, demands = REQUESTS / rate, station.demands_at(rate)
    answered_at, times = _native.simulate_sessions(
        sessions.trace,
        rate,
        seconds,
        sessions.think_scale,
        demands,
        station.r,
        station.mean_delays.latency_seconds,
        seed,
        station.quota_of_requests,
        station.wakeup_seconds,
        station.client_seconds / float(demands.mean()),
    )
    steady = (answered_at > WARM_UP_FRACTION * seconds) & (answered_at <= seconds)
    return Prediction(
        # What comes is answered; how much came of so many simulated requests would add the noise of their draw.
        requests_per_second=rate,
        response_time_mean_seconds=float(times[steady].mean()) + station.mean_delay(rate),
        response_time_p95_seconds=float(np.quantile(times[steady], 0.95)) + station.p95_delay(rate),
    )


def fit_to_simulation(station: Station, sessions: Sessions, below: Sequence[Step], seed: int) -> Station:
    """The station with r and the delays that explain the steps best by its simulated times."""
    usable = station.usable(below)
    if not usable:
        return station
    fitted = []
    for r in R_CANDIDATES:
        bare = replace(station, r=r, mean_delays=Delays(), p95_delays=Delays())
        said = [simulate(bare, sessions, step.offered_requests_per_second, seed) for step in usable]
        served = [
            (each.response_time_mean_seconds, each.response_time_p95_seconds)
            for each in said
            if each.response_time_mean_seconds is not None and each.response_time_p95_seconds is not None
        ]
        tried = bare.with_delays_beyond(usable, served)
        with_delays = [
            _with_delays(each, tried, step.offered_requests_per_second) for each, step in zip(said, usable, strict=True)
        ]
        fitted.append((misfit(usable, with_delays), tried))
    return min(fitted, key=lambda each: each[0])[1]


def _with_delays(said: Prediction, station: Station, rate: float) -> Prediction:
    mean, p95 = said.response_time_mean_seconds, said.response_time_p95_seconds
    assert mean is not None
    assert p95 is not None
    return said.model_copy(
        update={
            "response_time_mean_seconds": mean + station.mean_delay(rate),
            "response_time_p95_seconds": p95 + station.p95_delay(rate),
        }
    )


def with_simulated_delays(station: Station, sessions: Sessions, steps: Sequence[Step], seed: int) -> Station:
    """The station with the latency that measured response times have beyond the simulated ones, at the median."""
    beyond = []
    for index, step in enumerate(steps):
        said = simulate(station, sessions, step.offered_requests_per_second, seed + index)
        mean, p95 = said.response_time_mean_seconds, said.response_time_p95_seconds
        if mean is not None and p95 is not None:
            beyond.append((step.mean_for_model - mean, step.p95_for_model - p95))
    if not beyond:
        return station
    mean, p95 = np.clip(np.median(beyond, axis=0), 0.0, None)
    return replace(station, mean_delays=Delays(float(mean)), p95_delays=Delays(float(p95)))
