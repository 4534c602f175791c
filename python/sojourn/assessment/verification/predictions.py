"""Predicts a changed system with the fitted model: its capacity with an interval, and response times at a rate.

- A processor with a quota is as fast as the whole one until the quota of a period (50 ms) is used up, and then stands
  still until the period ends (`machine.confinement`): demands stay, the capacity is the quota's share. Doubled demands
  would be wrong at every load: twice the response time at light loads, and none of the waiting for the next period.
  What an idle server spends more on a request is the wake-up of one that finds it asleep.
- A slower line is full by what crosses it: bodies, response heads, and the headers of the packets (`packet_line`). The
  server adds its mean response time.
- Another server has its own service demands, measured on documents of fixed sizes, and what the log's mix costs beyond
  them, and latencies, fitted at light loads. What share of a busy processor's capacity is reached at the knee is taken
  from the assessed server.
- Workers that keep a connection until it ends are servers of an M/G/N station whose jobs are sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.assessment.cpu_demand import BUSY
from sojourn.assessment.model import Delays, Mix, Station, fit_station, quota, with_times
from sojourn.assessment.simulation import Sessions, added, simulate, with_simulated_delays
from sojourn.assessment.summary import DemandFit, Prediction, Step
from sojourn.assessment.verification.assessed import Assessed
from sojourn.assessment.verification.packet_line import Line, congestion_control, window_limit
from sojourn.calibration.estimate import FloatArray
from sojourn.failure import CouldNotRun
from sojourn.results.records import Interval

RESPONSE_HEAD_BYTES = 250
"""The approximate size of a response head."""
SEGMENT_BYTES = 1448
"""The response's part of a 1,500-byte packet, with TCP timestamps."""
PACKET_HEADER_BYTES = 52
CONNECTION_BYTES = 3 * PACKET_HEADER_BYTES
"""The overhead of opening and closing a connection and of acknowledging requests."""
LINE_LOST_FRACTION = 0.05
"""The share of a full line that retransmissions and gaps may take."""


@dataclass(frozen=True)
class Expectation:
    """The prediction of a change."""

    capacity: Interval
    """The capacity in requests/s."""
    at: Callable[[float], Prediction]
    """Predicts one load, in requests/s."""
    basis: str
    """The basis of the prediction in a sentence."""
    station: Station | None = None
    """The changed server, if it alone determines the response times."""
    is_assessed_server: bool = False
    """True if the station is that of the assessed server with other resources."""
    line: Line | None = None
    """The line that determines the response times together with the assessed server."""


def scaled(capacity: float, factors: tuple[float, float]) -> Interval:
    """A capacity with an interval given by factors."""
    return Interval(estimate=capacity, low=capacity * factors[0], high=capacity * factors[1])


def processor_share(
    station: Station,
    sessions: Sessions,
    light: Sequence[Step],
    processors: float,
    capacity: Interval,
    seed: int,
    basis: str,
) -> Expectation:
    """Predicts the server with a share of its processor.

    Args:
        station: the whole processor's.
        sessions: with the repetitions of the whole processor's steps.
        light: steps that the whole processor kept up with, by ascending load.
        processors: the share.
        capacity: the predicted capacity in requests/s.
        seed: of the simulations.
        basis: what the prediction rests on.
    """
    kept = [step for step in light if step.offered_requests_per_second < capacity.estimate] or light[:1]
    woken = with_simulated_delays(by_wakeup(station), sessions, with_times(kept), seed)
    limited = replace(woken, capacity=processors * station.capacity, quota=quota(processors))

    def at(rate: float) -> Prediction:
        if rate >= min(capacity.estimate, limited.busy_capacity):
            return _saturated(capacity.estimate)
        return simulate(limited, sessions, rate, seed)

    return Expectation(capacity, at, basis, limited, is_assessed_server=True)


def by_wakeup(station: Station) -> Station:
    """The station whose requests cost more where they wake the server, not all of them at a light load.

    A throttled server finds work on resuming, so it saves its wake-ups at loads at which a whole processor does not.
    The rest of the measured times is to be added again (`with_simulated_delays`).
    """
    idle = np.array([1.0 - rate * station.demand_at(rate) for rate in station.over_busy.rates])
    beyond = float(station.demands.mean()) * (np.array(station.over_busy.values) - 1.0)
    wakeup = float(idle @ beyond / (idle @ idle)) if idle.any() else 0.0
    bare = replace(station, over_busy=BUSY, mean_delays=Delays(), p95_delays=Delays())
    return replace(bare, wakeup_seconds=max(station.wakeup_seconds, wakeup))


def same_processor(
    station: Station,
    sessions: Sessions,
    capacity: Interval,
    seed: int,
    basis: str,
    *,
    is_assessed_server: bool,
) -> Expectation:
    """Predicts a server with the assessed processor, up to another capacity."""

    def at(rate: float) -> Prediction:
        return _saturated(capacity.estimate) if rate >= capacity.estimate else simulate(station, sessions, rate, seed)

    return Expectation(capacity, at, basis, station, is_assessed_server)


def slower_line(station: Station, mix: Mix, bits_per_second: float, seed: int, basis: str) -> Expectation:
    """Predicts the server behind a line that is its bottleneck."""
    packet_bits = 8 * (SEGMENT_BYTES + PACKET_HEADER_BYTES)
    line = Line(
        8 * bytes_on_the_line(mix) / bits_per_second,
        packets_of(mix),
        window_limit(bits_per_second, packet_bits, congestion_control()),
    )
    full = line.capacity
    capacity = Interval(estimate=full, low=(1 - LINE_LOST_FRACTION) * full, high=full)

    def at(rate: float) -> Prediction:
        if rate >= full:
            return _saturated(full)
        served = served_at(station, rate)
        return added(line.at(rate, seed), served, served)

    return Expectation(capacity, at, basis, line=line)


def served_at(station: Station, rate: float) -> float:
    """The mean response time of the server in front of a line, in seconds."""
    return station.closed_form(rate).response_time_mean_seconds or 0.0


def packets_of(mix: Mix) -> FloatArray:
    """Packets per response of the log; shape (requests,)."""
    packets: FloatArray = np.ceil((mix.sizes_bytes + RESPONSE_HEAD_BYTES) / SEGMENT_BYTES)
    return packets


def bytes_on_the_line(mix: Mix) -> FloatArray:
    """Bytes on the line per request of the log, towards the clients; shape (requests,)."""
    response = mix.sizes_bytes + RESPONSE_HEAD_BYTES
    carried: FloatArray = response + PACKET_HEADER_BYTES * packets_of(mix) + CONNECTION_BYTES * mix.opens_connection
    return carried


def other_server(assessed: Assessed, own: DemandFit, light: Sequence[Step]) -> Station:
    """The station of another server, fitted to steps at light loads.

    It is assumed to save as much on a request as it gets busier, and to reach the same share of a busy server's
    capacity as the assessed server: extrapolated from light loads, the saving would be several times wrong.
    """
    usable = [step for step in light if step.within_target and not step.generator_limited]
    if not usable:
        raise CouldNotRun("the other server did not keep up even with light loads", "assess that server itself")
    station = fit_station(assessed.mix, own, usable, None, assessed.seed, saving=assessed.station.saving)
    kept = assessed.capacity * float(assessed.station.demands.mean())
    return replace(
        station,
        capacity=kept / float(station.demands.mean()),
        client_seconds=assessed.station.client_seconds,
    )


def few_workers(
    station: Station, sessions: Sessions, workers: int, capacity: Interval, seed: int, basis: str
) -> Expectation:
    """Predicts a server with fewer workers than concurrent sessions, each worker holding one session."""
    per_session = sessions.trace.mean_requests_per_session
    held = sessions.trace.mean_session_duration_seconds * sessions.think_scale

    def at(rate: float) -> Prediction:
        if rate >= capacity.estimate:
            return _saturated(capacity.estimate)
        served = simulate(station, sessions, rate, seed)
        assert served.response_time_mean_seconds is not None
        wait = mean_wait(rate / per_session, held, workers)
        # The first request of a session waits for a worker; the others do not.
        return served.model_copy(
            update={"response_time_mean_seconds": served.response_time_mean_seconds + wait / per_session}
        )

    return Expectation(capacity, at, basis)


def mean_wait(rate: float, service_seconds: float, servers: int) -> float:
    """Erlang's C: the mean waiting time in M/M/N, in seconds; infinite if overloaded."""
    offered = rate * service_seconds
    if offered >= servers:
        return float("inf")
    blocked = 1.0
    for present in range(1, servers + 1):
        blocked = offered * blocked / (present + offered * blocked)
    waits = blocked / (1 - offered / servers * (1 - blocked))
    return waits * service_seconds / (servers - offered)


def _saturated(capacity: float) -> Prediction:
    return Prediction(requests_per_second=capacity, response_time_mean_seconds=None, response_time_p95_seconds=None)
