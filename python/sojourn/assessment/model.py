"""The model of the server: limited processor sharing, fitted on some of the steps, tried on the others.

A request for a document of x bytes needs g(x) = a x + b seconds of the server, c more if it opens the connection.
Five figures join g to a live server, each fitted on every other step below the knee, the last on the highest step:

- the calibration factor: CPU seconds per request of the log's mix, extrapolated to a busy server, over what g says.
  What kernel threads do for the load on the server's core is part of it. Per request an idle server spends more, since
  every request wakes it, so the CPU time is fitted as a line in the wake-ups per request or in the idle share of the
  core, whichever explains it better. At a lower load the demand is the line's, so that rate times demand is the
  utilisation that was measured;
- a latency that no load changes: the network stack, the generator's own turn;
- a wait for the core to wake up, which a request meets less and less as the core is idle less: wake-ups per request
  were seen to fall about as the square of the idle share, since a core that was just busy is looked at again soon;
- the interruptions of the server's core that its counters do not show, as nu E[H^2]: preemptive work of a higher
  class that comes nu times a second for H seconds adds nu E[H^2] / (2 (1 - rho)) to every response (M/G/1 with
  preemptive-resume priorities);
- the overloaded capacity: a server whose requests have waited finds its caches cold, and is slower than a busy one
  that keeps up. The backlog an interruption leaves is taken to be worked off half at the one speed, half at the other.

A server with a share of a processor is throttled by what it uses in all, so that its CPU time per request is fitted as
a line in the wake-ups per request and in the time between requests: a demand, a wake-up of each request that finds the
server asleep, and work in the background. The simulation stops such a server when its share of a period is used up.

The p95 has a latency and an interruption term of its own, of the same form: both have tails.

Times and demands are those over undisturbed windows, where the generator could tell them. What others took of the core
is measured, not fitted: the same formula adds it to a prediction of the step as it was.

r, the limit of jobs in service, is the candidate that explains the fitted steps best. Delays and r are fitted twice: to
the closed form, whose requests come one by one, and to the simulation, whose requests come in the log's sessions.
Everything else is predicted: the steps left out, and all steps beyond the knee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn import _native
from sojourn.assessment.cpu_demand import (
    BUSY,
    ByRate,
    Saving,
    Spending,
    at_most,
    busy_demand,
    by_idleness,
    by_wakeups,
    calibrate,
    demand_by_rate,
    fit_spending,
)
from sojourn.assessment.held_out import UTILISATION_MAX
from sojourn.assessment.summary import DemandFit, Prediction, Step
from sojourn.calibration.estimate import FloatArray
from sojourn.machine.confinement import PROCESSOR_PERIOD_SECONDS
from sojourn.results.records import Interval

R_CANDIDATES: tuple[int | None, ...] = (1, 2, 4, 8, 16, None)
"""None means r = infinity: plain processor sharing."""
DELAY_SECONDS_MAX = 1e-2
KNOWN_WELL = 0.1
"""A time with at least this relative precision has full weight in the fit."""
COLD_FRACTION_MIN = 0.7
"""An overloaded server delivers at least this share of a busy server's capacity; with less, it has another limit."""


@dataclass(frozen=True)
class Mix:
    """The requests of the log as they affect the server."""

    sizes_bytes: FloatArray
    """Body bytes per request; shape (requests,)."""
    opens_connection: NDArray[np.bool_]
    """True if the request is its session's first; shape (requests,)."""

    def demands(self, fit: DemandFit) -> FloatArray:
        """Seconds of the server per request by g and the connection's cost; shape (requests,)."""
        opening = fit.connection_seconds.estimate if fit.connection_seconds else 0.0
        demands: FloatArray = (
            fit.seconds_per_byte.estimate * self.sizes_bytes
            + fit.fixed_seconds.estimate
            + opening * self.opens_connection
        )
        return demands


class Quota(NamedTuple):
    """A CPU quota: the processor stands still for the rest of a period whose quota is used up."""

    seconds: float
    period_seconds: float

    @property
    def share(self) -> float:
        """The share of the processor's time."""
        return self.seconds / self.period_seconds


def quota(processors: float) -> Quota:
    """The quota of a control group for this share of a processor (`machine.confinement`)."""
    return Quota(processors * PROCESSOR_PERIOD_SECONDS, PROCESSOR_PERIOD_SECONDS)


@dataclass(frozen=True)
class Delays:
    """Times added to the station's response time, in seconds."""

    latency_seconds: float = 0.0
    interruption_seconds: float = 0.0
    """The term for the mean: nu E[H^2]."""
    wakeup_seconds: float = 0.0
    """The wake-up wait of a request at an otherwise idle server."""

    def times(self, factor: float) -> Delays:
        """All of them longer by a factor."""
        return Delays(factor * self.latency_seconds, factor * self.interruption_seconds, factor * self.wakeup_seconds)


@dataclass(frozen=True)
class Station:
    """The fitted station; times in seconds, rates in requests per second."""

    demands: FloatArray
    """Calibrated demand of each request of the log at a busy server; shape (requests,)."""
    r: int | None
    calibration: Interval
    capacity: float
    """Throughput of the overloaded server, requests/s."""
    mean_delays: Delays = Delays()
    p95_delays: Delays = Delays()
    quota: Quota | None = None
    """The server's CPU quota; None without a limit."""
    wakeup_seconds: float = 0.0
    """The additional demand of a request that wakes a server with a quota."""
    background_fraction: float = 0.0
    """The share of the processor that a server with a quota uses without requests."""
    client_seconds: float = 0.0
    """The generator's CPU time per request, including kernel threads; proportional to the size of the response."""
    kept_up: float = 0.0
    """The highest rate that the server sustained, in requests/s."""
    over_busy: ByRate = BUSY
    """The demand of a request at a rate, relative to a busy server's; at least 1."""

    def demands_at(self, rate: float) -> FloatArray:
        """The demand of each request of the log at a rate; shape (requests,)."""
        return self.demands * self.over_busy.at(rate)

    def demand_at(self, rate: float) -> float:
        """The mean demand at a rate."""
        return float(self.demands_at(rate).mean())

    def slowed(self, factor: float) -> Station:
        """The station on a machine on which everything takes longer by a factor."""
        return replace(
            self,
            demands=factor * self.demands,
            wakeup_seconds=factor * self.wakeup_seconds,
            capacity=self.capacity / factor,
            mean_delays=self.mean_delays.times(factor),
            p95_delays=self.p95_delays.times(factor),
        )

    @property
    def saving(self) -> Saving:
        """What it saves on a request as it gets busier."""
        rates = self.over_busy.rates
        return Saving(tuple(rate * self.demand_at(rate) for rate in rates), self.over_busy.values)

    @property
    def quota_of_requests(self) -> Quota | None:
        """The quota left by background work."""
        if self.quota is None:
            return None
        return self.quota._replace(seconds=self.quota.seconds - self.background_fraction * self.quota.period_seconds)

    @property
    def busy_capacity(self) -> float:
        """The throughput of an always busy server without a backlog, in requests/s."""
        quota = self.quota_of_requests
        return (quota.share if quota else 1.0) / float(self.demands.mean())

    def keeps_up(self, rate: float) -> bool:
        """Returns true if the server sustains this rate."""
        busy = self.busy_capacity
        limit = busy if self.capacity >= COLD_FRACTION_MIN * busy else max(self.capacity, self.kept_up)
        # Between the last step that kept up and the busy server, a request may be taken to need more than there is.
        return rate * self.over_busy.at(rate) < busy and rate <= limit

    def closed_form(self, rate: float) -> Prediction:
        """Eq. 2.2 of the thesis with the added delays; for the p95 the waiting time is taken as exponential.

        It has no times for a processor with a quota.
        """
        if not self.keeps_up(rate) or self.quota:
            return Prediction(
                requests_per_second=rate if self.keeps_up(rate) else min(rate, self.capacity),
                response_time_mean_seconds=None,
                response_time_p95_seconds=None,
            )
        return Prediction(
            requests_per_second=rate,
            response_time_mean_seconds=_lps_mean(rate, self.demands_at(rate), self.r) + self.mean_delay(rate),
            response_time_p95_seconds=_lps_p95(rate, self.demands_at(rate), self.r) + self.p95_delay(rate),
        )

    def mean_delay(self, rate: float) -> float:
        """The delay added to the mean response time at a rate."""
        return self._delay(self.mean_delays, rate)

    def p95_delay(self, rate: float) -> float:
        """The delay added to the p95 of the response time at a rate."""
        return self._delay(self.p95_delays, rate)

    def interrupted(self, rate: float, lost_squared: float | None) -> float | None:
        """The delay that other users of the core add to the mean response time, in seconds.

        Args:
            rate: requests/s.
            lost_squared: nu E[H^2] as it was measured, in seconds; None: not measured.
        """
        if lost_squared is None or rate * self.demand_at(rate) >= 1:
            return None
        return lost_squared * self._interruption_weight(rate)

    def usable(self, below: Sequence[Step]) -> Sequence[Step]:
        """The steps below the knee whose times are used for fitting."""
        told = [step for step in with_times(below) if self.keeps_up(step.offered_requests_per_second)]
        light = UTILISATION_MAX * (self.quota.share if self.quota else 1.0)
        return [
            step
            for step in told
            if (rate := step.offered_requests_per_second) * self.demand_at(rate) < light
            and step.utilisation_for_model < light
        ] or told

    def with_delays(self, steps: Sequence[Step]) -> Station:
        """The station with delays fitted to the steps' response times."""
        if not steps:
            return self
        return self.with_delays_beyond(steps, [self.closed_form(step.offered_requests_per_second) for step in steps])

    def with_delays_beyond(self, steps: Sequence[Step], served: Sequence[Prediction]) -> Station:
        """The station with delays fitted to the differences between measured and simulated times."""
        felt = np.array([self._weights(step.offered_requests_per_second) for step in steps])
        of_means = [_mean_of(*pair) for pair in zip(steps, served, strict=True)]
        of_p95s = [_p95_of(*pair) for pair in zip(steps, served, strict=True)]
        return replace(self, mean_delays=_delays(of_means, felt), p95_delays=_delays(of_p95s, felt))

    def _delay(self, delays: Delays, rate: float) -> float:
        interrupted, asleep = self._weights(rate)
        return delays.latency_seconds + delays.interruption_seconds * interrupted + delays.wakeup_seconds * asleep

    def _weights(self, rate: float) -> tuple[float, float]:
        """The weights of the interruption and wake-up terms at a rate."""
        return self._interruption_weight(rate), (1.0 - rate * self.demand_at(rate)) ** 2

    def _interruption_weight(self, rate: float) -> float:
        return 0.5 / (1.0 - rate * self.demand_at(rate))


def fit_station(
    mix: Mix,
    demand_fit: DemandFit,
    below: Sequence[Step],
    overloaded: Step | None,
    seed: int,
    quota: Quota | None = None,
    saving: Saving | None = None,
) -> Station:
    """Fits the station on steps below the knee and, if there is one, on an overloaded step.

    Times of steps outside the tests are not fitted either: near capacity they depend more on the length of the
    measurement than on the server. With a quota it has no delays yet, because no closed form exists to fit. With the
    `saving` of another server, what a busy server saves is that server's, not extrapolated from these steps.
    """
    demands = mix.demands(demand_fit)
    fastest = max(step.requests_per_second.median for step in (*below, *([overloaded] if overloaded else [])))
    kept_up = max(step.offered_requests_per_second for step in below)
    if quota is None:
        rows = by_idleness(below)
        busy_seconds = saving.busy_demand if saving else busy_demand
        spending, calibration = Spending(), calibrate(float(demands.mean()), rows, busy_seconds, seed)
    else:
        rows = by_wakeups(below)
        spending = fit_spending(rows, quota.share)
        calibration = calibrate(
            float(demands.mean()), rows, lambda rows: fit_spending(rows, quota.share).per_request, seed
        )
    share = (quota.share if quota else 1.0) - spending.per_second
    calibration = at_most(calibration, share / fastest / float(demands.mean()))
    demands = demands * calibration.estimate
    busy = share / float(demands.mean())
    capacity = busy if overloaded is None else min(busy, overloaded.requests_per_second.median)
    if quota is not None:
        return Station(
            demands,
            1,
            calibration,
            capacity,
            quota=quota,
            wakeup_seconds=spending.per_wakeup,
            background_fraction=spending.per_second,
            kept_up=kept_up,
        )
    client = min(step.generator_seconds_per_request for step in below)
    busy_rate = 1.0 / float(demands.mean())
    over_busy = saving.by_rate(busy_rate) if saving else demand_by_rate(rows, busy_rate)
    bare = [
        Station(demands, r, calibration, capacity, client_seconds=client, kept_up=kept_up, over_busy=over_busy)
        for r in R_CANDIDATES
    ]
    usable = bare[0].usable(below)
    return min(
        (station.with_delays(usable) for station in bare),
        key=lambda station: misfit(usable, [station.closed_form(step.offered_requests_per_second) for step in usable]),
    )


def with_times(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps with undisturbed response times, if that is known for some.

    A busy generator queues requests before sending and responses after receiving.
    """
    idle = [step for step in steps if not step.is_generator_busy] or steps
    return [step for step in idle if step.undisturbed is not None] or idle


class _Compared(NamedTuple):
    """A measured time of a step, in seconds."""

    measured: float
    said: float
    trust: float
    """Its weight in the fit, at most 1: inversely proportional to the precision of the comparison."""


def _mean_of(step: Step, said: Prediction) -> _Compared:
    assert said.response_time_mean_seconds is not None, "steps that tell times are below the knee"
    return _Compared(step.mean_for_model, said.response_time_mean_seconds, _trust(step.mean_known_to(said)))


def _p95_of(step: Step, said: Prediction) -> _Compared:
    assert said.response_time_p95_seconds is not None, "steps that tell times are below the knee"
    return _Compared(step.p95_for_model, said.response_time_p95_seconds, _trust(step.p95_known_to(said)))


def _trust(known_to: float | None) -> float:
    return 1.0 if known_to is None else KNOWN_WELL / max(KNOWN_WELL, known_to)


def _delays(compared: Sequence[_Compared], felt: FloatArray) -> Delays:
    """Fits the delays; `felt` holds `Station._weights` of each step, shape (steps, 2)."""
    # SciPy takes longer to import than a report to draw.
    from scipy.optimize import least_squares

    measured, served, trust = np.array(compared).T
    # Three parameters cannot be determined from three steps: the wake-up term is then 0.
    told = 3 if len(measured) > 3 else 2
    design = np.column_stack([np.ones_like(measured), felt])[:, :told]

    def residuals(delays: FloatArray) -> FloatArray:
        relative: FloatArray = ((served + design @ delays) / measured - 1.0) * trust
        return relative

    # Residuals beyond 20 % count linearly, so that a disturbed step does not bend the curve.
    found = least_squares(
        residuals, np.full(told, 1e-5), bounds=(0.0, DELAY_SECONDS_MAX), x_scale=1e-5, loss="soft_l1", f_scale=0.2
    )
    return Delays(*map(float, found.x))


def misfit(steps: Sequence[Step], predictions: Sequence[Prediction]) -> float:
    """The squared relative errors of predicted times, weighted."""
    found = [of(*pair) for pair in zip(steps, predictions, strict=True) for of in (_mean_of, _p95_of)]
    return float(sum(((each.said / each.measured - 1.0) * each.trust) ** 2 for each in found))


def _lps_mean(rate: float, demands: FloatArray, r: int | None) -> float:
    mean, second = float(demands.mean()), float(np.mean(demands**2))
    return float(_native.lps_mean_response_time(rate, mean, second, r, 0.0))


def _lps_p95(rate: float, demands: FloatArray, r: int | None) -> float:
    # R given x is W + T(x) (Eq. 2.1). W is zero with probability 1 - rho^r, else taken as exponential with the mean
    # that makes E[W] right: exact for r = 1 and exponential demand, an approximation elsewhere.
    mean = float(demands.mean())
    load = rate * mean
    waits = load**r if r is not None else 0.0
    wait_mean = float(np.mean(demands**2)) / (2 * mean) / (1 - load)
    in_service = np.quantile(demands, np.linspace(0.0005, 0.9995, 1000)) * (1 - waits) / (1 - load)

    def share_within(time: float) -> float:
        left = time - in_service
        return float(np.mean(np.where(left >= 0, 1 - waits * np.exp(-np.maximum(left, 0) / wait_mean), 0.0)))

    low, high = 0.0, float(in_service[-1]) + 50 * wait_mean
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share_within(middle) < 0.95 else (low, middle)
    return high
