"""Simulates the fitted station under the log's own sessions.

Sessions arrive as a Poisson process and are drawn from the trace, in progress ones included, exactly as the load
generator does it; a request enters the station when it is due and the one before it has been answered. The simulation
thus includes bursts and think times, which the closed form's Poisson requests do not. Requests and answers wait for the
generator, which sends and takes one after the other: its work on each is measured, and is part of every response time.

Of steps that were measured, the very requests of each repetition are simulated, and looked at in the same undisturbed
windows. What each core lost to others in a window is measured: the simulated server and generator stand still for as
long, so that a backlog is there, too, which an interruption leaves to an undisturbed window. And how fast each core was
is known from the CPU time that requests cost in a window: at 80 % utilisation a core that is a tenth slower doubles the
time that requests wait. Near the knee the mean response time of one draw of sessions may be twice that of another: what
both sides owe to the draw cancels, and the difference is known far better than either (correlated inspection; A. M.
Law, Simulation Modeling and Analysis, 2015, 5.6). Where they do not vary together, something else decided: then the
simulation of any requests is compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sojourn import _native
from sojourn.assessment import averages
from sojourn.assessment.model import R_CANDIDATES, Delays, Station, misfit
from sojourn.assessment.steps import ClimbStep, Sent
from sojourn.assessment.summary import Prediction, Step
from sojourn.calibration.estimate import FloatArray
from sojourn.engine.results import Unavailable
from sojourn.results.records import Spread

REQUESTS = 400_000
WARM_UP_FRACTION = 0.1
SENDING_SHARE = 0.5
"""The share of sending in the generator's work on a request that does not depend on its size.

On the loopback interface the sender does the receiver's work in the kernel, too, and wakes it. This share explains
recorded runs of three servers better than 0.
"""


@dataclass(frozen=True)
class Sessions:
    """The sessions for the simulation."""

    trace: _native.Trace
    think_scale: float
    measured: Mapping[float, Sequence[ClimbStep]] = field(default_factory=dict)
    """The repetitions of each measured step, by offered requests/s."""


def with_speeds(sessions: Sessions, demands: FloatArray, usual_seconds: Mapping[float, float | None]) -> Sessions:
    """The sessions with the speed of the server's core in each repetition, as its CPU time per request tells it.

    On a virtual machine the same requests cost tens of per cent more while a neighbour uses the other half of a core or
    its caches. The speed is what remains once the sizes of the requests are accounted for.

    Args:
        sessions: with the measured steps.
        demands: the demand of each request of the log, in any unit; shape (requests,).
        usual_seconds: CPU seconds per request at speed 1, by offered requests/s; None where unknown.
    """

    def of(step: ClimbStep, usual: float | None) -> ClimbStep:
        if step.sent is None or not step.sent.work or not usual:
            return step
        sent = step.sent
        scaled = demands * (usual / float(demands.mean()))
        answered_at, _times, each = _native.simulate_step(*drawn(sessions, sent), scaled, 1, 0.0, sent.seed)
        speeds = []
        for work in sent.work:
            inside = each[(answered_at > work.begin) & (answered_at <= work.end)]
            if len(inside) and work.server_seconds > 0:
                speeds.append((work.begin, float(inside.mean()) * work.requests / work.server_seconds))
        return step.model_copy(update={"sent": replace(sent, server_speeds=tuple(speeds))})

    with ThreadPoolExecutor() as threads:
        measured = {
            rate: list(threads.map(partial(of, usual=usual_seconds.get(rate)), level))
            for rate, level in sessions.measured.items()
        }
    return replace(sessions, measured=measured)


def core_speed(sessions: Sessions, rate: float) -> Spread | None:
    """The spread over a step's repetitions of the mean speed of the server's core; None where unknown."""
    sent = [step.sent.server_speeds for step in sessions.measured.get(rate, ()) if step.sent is not None]
    means = [statistics.fmean(speed for _, speed in speeds) for speeds in sent if speeds]
    return Spread(median=statistics.median(means), minimum=min(means), maximum=max(means)) if means else None


def simulate(station: Station, sessions: Sessions, rate: float, seed: int) -> Prediction:
    """Predicts a rate by simulating about `REQUESTS` requests, under the station's quota if it has one.

    A saturated station has no steady state: only its throughput is predicted.
    """
    if not station.keeps_up(rate):
        return _saturated(station, rate)
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
        *_client(station, demands),
    )
    steady = (answered_at > WARM_UP_FRACTION * seconds) & (answered_at <= seconds)
    return Prediction(
        # All arrivals are answered; counting simulated arrivals would add the noise of their draw.
        requests_per_second=rate,
        response_time_mean_seconds=float(times[steady].mean()) + station.mean_delay(rate),
        response_time_p95_seconds=float(np.quantile(times[steady], 0.95)) + station.p95_delay(rate),
    )


def simulate_measured(station: Station, sessions: Sessions, step: Step, seed: int) -> Prediction:
    """Predicts a measured step by simulating its own requests, if they can be drawn again."""
    rate = step.offered_requests_per_second
    if not station.keeps_up(rate):
        return _saturated(station, rate)
    mean_delay, p95_delay = station.mean_delay(rate), station.p95_delay(rate)
    served = added(simulate(station, sessions, rate, seed), -mean_delay, -p95_delay)
    again = partial(_served_again, station, sessions, station.demands_at(rate))
    return added(by_own_requests(step, sessions, served, again), mean_delay, p95_delay)


def by_own_requests(
    step: Step, sessions: Sessions, usual: Prediction, again: Callable[[Sent], tuple[FloatArray, FloatArray]]
) -> Prediction:
    """Predicts a measured step by what a simulation of its own requests says in the same windows.

    Args:
        step: with the measured times.
        sessions: with the repetitions of the step.
        usual: the simulation of any requests at this rate.
        again: simulates the requests of a repetition; returns when each was answered, in seconds since the climb's
            start, and its response time in seconds, each of shape (requests,).

    Returns:
        The prediction; `usual` if no repetition can be drawn again.
    """
    measured = map(_times, sessions.measured.get(step.offered_requests_per_second, ()))
    repetitions = [each for each in measured if each is not None]
    with ThreadPoolExecutor() as threads:
        said = list(threads.map(lambda each: _in_windows(each.sent, *again(each.sent)), repetitions))
    pairs = [(seen, simulated) for seen, simulated in zip(repetitions, said, strict=True) if simulated is not None]
    if not pairs:
        return usual
    weights = [seen.requests for seen, _ in pairs]
    assert usual.response_time_mean_seconds is not None, "it has times"
    assert usual.response_time_p95_seconds is not None, "it has times"
    means = [(seen.mean, simulated[0]) for seen, simulated in pairs]
    p95s = [(seen.p95, simulated[1]) for seen, simulated in pairs]
    mean, mean_known_to = _beside(step.mean_for_model, means, usual.response_time_mean_seconds, weights)
    p95, p95_known_to = _beside(step.p95_for_model, p95s, usual.response_time_p95_seconds, weights)
    return Prediction(
        requests_per_second=usual.requests_per_second,
        response_time_mean_seconds=mean,
        response_time_p95_seconds=p95,
        response_time_mean_known_to=mean_known_to,
        response_time_p95_known_to=p95_known_to,
    )


def added(said: Prediction, mean_seconds: float, p95_seconds: float) -> Prediction:
    """A prediction with longer response times."""
    mean, p95 = said.response_time_mean_seconds, said.response_time_p95_seconds
    assert mean is not None
    assert p95 is not None
    return said.model_copy(
        update={"response_time_mean_seconds": mean + mean_seconds, "response_time_p95_seconds": p95 + p95_seconds}
    )


class _Times(NamedTuple):
    """The measured times of a repetition, in seconds, with its number of requests."""

    sent: Sent
    mean: float
    p95: float
    requests: int


def _times(step: ClimbStep) -> _Times | None:
    """The times over undisturbed windows, where available; None without any."""
    judged = None if isinstance(step.undisturbed, Unavailable) else step.undisturbed
    found = step.response_time_seconds if judged is None else judged.response_time_seconds
    requests = step.requests if judged is None else judged.requests
    if step.sent is None or found.mean is None or found.p95 is None or not requests:
        return None
    return _Times(step.sent, found.mean, found.p95, requests)


def _in_windows(sent: Sent, answered_at: FloatArray, times: FloatArray) -> tuple[float, float] | None:
    """Mean and p95 of the times in the step's windows; None without a response in them."""
    # A time inside a window has an odd number of edges before it, because windows do not overlap.
    inside = times[np.searchsorted(np.ravel(sent.windows), answered_at) % 2 == 1]
    return (float(inside.mean()), float(np.quantile(inside, 0.95))) if len(inside) else None


def _served_again(
    station: Station, sessions: Sessions, demands: FloatArray, sent: Sent
) -> tuple[FloatArray, FloatArray]:
    answered_at, times, _demands = _native.simulate_step(
        *drawn(sessions, sent),
        demands,
        station.r,
        station.mean_delays.latency_seconds,
        sent.seed,
        station.quota_of_requests,
        station.wakeup_seconds,
        *_client(station, demands),
        sent.server_interruptions,
        sent.generator_interruptions,
        sent.server_speeds,
        _client_speeds(station, sent),
    )
    return answered_at, times


def drawn(sessions: Sessions, sent: Sent) -> tuple[_native.Trace, list[float], float, float, float]:
    """What `_native.simulate_step` draws the requests of a step from, together with their seed."""
    return sessions.trace, list(sent.rates), sent.step_seconds, sent.settle_seconds, sessions.think_scale


def _client(station: Station, demands: FloatArray) -> tuple[float, float]:
    """The generator's work on an answer per second of its demand, and seconds to send a request."""
    fixed = float(demands.min() / demands.mean())
    sending = SENDING_SHARE * fixed * station.client_seconds
    return (station.client_seconds - sending) / float(demands.mean()), sending


def _client_speeds(station: Station, sent: Sent) -> list[tuple[float, float]]:
    return [
        (work.begin, station.client_seconds * work.requests / work.generator_seconds)
        for work in sent.work
        if station.client_seconds and work.generator_seconds > 0
    ]


def _beside(
    measured: float, pairs: Sequence[tuple[float, float]], usual: float, weights: Sequence[int]
) -> tuple[float, float | None]:
    """A figure by what the simulation has beyond the repetitions, measured and simulated, and what it is known to.

    As far as both vary together, it is the simulation of each repetition's own requests, else of any (control
    variates).
    """
    own = _varying_together(pairs)
    beyond = [(own * simulated + (1 - own) * usual) / seen - 1 for seen, simulated in pairs]
    middle = averages.middle(list(zip(beyond, weights, strict=True)))
    assert middle is not None, "repetitions without a request are left out"
    return measured * (1 + middle), averages.half_width(beyond)


def _varying_together(pairs: Sequence[tuple[float, float]]) -> float:
    """How far measured figures follow the simulated ones: the slope of their line, from 0 to 1; 1 for want of three.

    Both are taken as logarithms, because one repetition of an almost full core may take a hundred times as long.
    """
    if len(pairs) < 3:
        return 1.0
    seen, simulated = np.log(pairs).T
    spread = float(simulated.var())
    slope = float(np.mean((seen - seen.mean()) * (simulated - simulated.mean()))) / spread if spread else 1.0
    return min(1.0, max(0.0, slope))


def _saturated(station: Station, rate: float) -> Prediction:
    return Prediction(
        requests_per_second=min(rate, station.capacity),
        response_time_mean_seconds=None,
        response_time_p95_seconds=None,
    )


def fit_to_simulation(station: Station, sessions: Sessions, below: Sequence[Step], seed: int) -> Station:
    """The station with the r and the delays whose simulated times fit the steps best."""
    usable = station.usable(below)
    if not usable:
        return station
    fitted = []
    for r in R_CANDIDATES:
        bare = replace(station, r=r, mean_delays=Delays(), p95_delays=Delays())
        served = [simulate_measured(bare, sessions, step, seed) for step in usable]
        tried = bare.with_delays_beyond(usable, served)
        rates = [step.offered_requests_per_second for step in usable]
        said = [
            added(each, tried.mean_delay(rate), tried.p95_delay(rate)) for each, rate in zip(served, rates, strict=True)
        ]
        fitted.append((misfit(usable, said), tried))
    return min(fitted, key=lambda each: each[0])[1]


def with_simulated_delays(station: Station, sessions: Sessions, steps: Sequence[Step], seed: int) -> Station:
    """The station with the median difference between measured and simulated response times as latency."""
    beyond = []
    for index, step in enumerate(steps):
        said = simulate_measured(station, sessions, step, seed + index)
        mean, p95 = said.response_time_mean_seconds, said.response_time_p95_seconds
        if mean is not None and p95 is not None:
            beyond.append((step.mean_for_model - mean, step.p95_for_model - p95))
    if not beyond:
        return station
    mean, p95 = np.clip(np.median(beyond, axis=0), 0.0, None)
    return replace(station, mean_delays=Delays(float(mean)), p95_delays=Delays(float(p95)))
