"""The results of solvers and simulations as typed dictionaries, equal to the objects of `--format json`.

Keys carry their units. A missing figure is None; half-widths are of 95 % confidence intervals.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class ResponseTime(TypedDict, total=False):
    """Mean and percentiles in seconds; an analytic answer may lack some, a simulation has all."""

    mean: float
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None
    mean_half_width: float | None
    p50_half_width: float | None
    p90_half_width: float | None
    p95_half_width: float | None
    p99_half_width: float | None
    p999_half_width: float | None


class PredictedLoss(TypedDict):
    """Jobs lost for good because a station was full."""

    offered_per_second: float
    """Jobs finished or lost, per second."""
    probability: float
    """The share of the offered jobs that is lost."""


class ClassAnswer(TypedDict):
    """A class of jobs in an analytic answer."""

    throughput_per_second: float
    """Jobs finished per second, without lost jobs."""
    loss: PredictedLoss
    response_time_seconds: ResponseTime


class StationAnswer(TypedDict):
    """A station in an analytic answer; times are per visit."""

    utilisation: float | None
    queue_mean: float
    residence_time_seconds: float
    full_probability: float | None
    """The probability that an arrival finds it full; None without a capacity."""


class SolverAnswer(TypedDict):
    """One solver's answer, by name of class and station."""

    classes: dict[str, ClassAnswer]
    stations: dict[str, StationAnswer]
    means: str
    """`exact`, or each approximation with its error range."""
    percentiles: str
    """The basis of the percentiles: `exact`, an approximation, or the reason why there are none."""
    percentiles_relative_error: float | None
    """The proven bound of the relative error of each percentile; None for approximations."""


class Outcome(TypedDict):
    """A solver's answer, or the reason why there is none."""

    basis: str
    answer: SolverAnswer | None
    refusal: str | None


class Bounds(TypedDict):
    """Bounds of a single closed class (Lazowska et al. 1984), of balanced jobs where those hold."""

    throughput_min_per_second: float
    throughput_max_per_second: float
    response_time_min_seconds: float
    response_time_max_seconds: float
    saturation_users: float
    """N*: with more users, jobs must queue at the slowest station."""


class StationLoad(TypedDict):
    """The load that the mix of classes puts on a station."""

    demand_per_job_seconds: float
    saturation_throughput_per_second: float | None
    open_utilisation: float | None


class Bottleneck(TypedDict):
    """The station that saturates first, and the next one."""

    station: str | None
    next: str | None
    growth_factor_max: float | None
    """The factor by which open traffic can grow; None if there is a closed class, or only held places are limited."""
    saturation_throughput_per_second: float | None
    stations: dict[str, StationLoad]


class Prediction(TypedDict):
    """All analytic solvers' results for a system."""

    bottleneck: Bottleneck
    bounds: Bounds | None
    solvers: dict[str, Outcome]


Stop = Literal["half-width", "jobs-max", "trace-end", "interrupted"]


class Loss(PredictedLoss):
    """Lost jobs in a simulation."""

    jobs: int
    probability_half_width: float | None


class Figure(TypedDict):
    """The convergence of one figure of the response time over all classes."""

    asked_for: bool
    converged: bool
    relative_half_width: float | None
    reason: str | None
    """Why it has not converged, and the remedy."""


class RouteSimulation(TypedDict):
    """A route of a class, such as hits."""

    jobs: int
    response_time_seconds: ResponseTime


class ClassSimulation(TypedDict):
    """A class of jobs in a simulation."""

    jobs: int
    throughput_per_second: float
    """Jobs finished per second, without lost jobs."""
    throughput_half_width_per_second: float | None
    loss: Loss
    response_time_seconds: ResponseTime
    routes: dict[str, RouteSimulation]


class StationEstimate(TypedDict):
    """A station after the warm-up; times are per visit."""

    utilisation: float | None
    utilisation_half_width: float | None
    utilisation_expected: float | None
    """The utilisation law's value, which the estimate must approach."""
    throughput_per_second: float
    throughput_half_width_per_second: float | None
    queue_mean: float
    queue_mean_half_width: float | None
    residence_time_seconds: float
    residence_time_half_width_seconds: float | None
    demand_seconds: float
    full_probability: float | None
    """The share of arrivals that find it full; None without a capacity."""
    full_probability_half_width: float | None


class Simulated(TypedDict):
    """Common figures of all simulations."""

    complete: bool
    """False after Ctrl-C: the estimates then rest on fewer jobs."""
    converged: bool
    """True if every requested figure has converged."""
    figures: dict[str, Figure]
    """By the keys of `response_time_seconds`."""
    stop: Stop
    seed: int
    replications: int
    jobs: int
    warm_up_jobs: int
    simulated_seconds: float
    response_time_seconds: ResponseTime
    throughput_per_second: float
    little_relative_error: float


class Simulation(Simulated):
    """A simulated system."""

    throughput_half_width_per_second: float | None
    loss: Loss
    lag_one: float
    classes: dict[str, ClassSimulation]
    stations: dict[str, StationEstimate]
    bottleneck: str | None


class StationSimulation(Simulated):
    """One simulated station under Poisson arrivals."""

    utilisation: float
    utilisation_half_width: float | None
    utilisation_expected: float
    queue_mean: float
    queue_mean_half_width: float | None
    workload_seconds: float | None
    workload_expected_seconds: float | None
    """λ E[S²] / 2(1−ρ), exact under every discipline that never idles."""
    variance_reduction: float
    lag_one: float
