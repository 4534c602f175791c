"""What solvers and simulations answer, as typed dictionaries: exactly the objects of `--format json`.

Keys carry their units. A figure that could not be had is None; half-widths are of 95 % confidence intervals.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class ResponseTime(TypedDict, total=False):
    """Mean and percentiles in seconds. An analytic answer has what its solver knows, a simulation all."""

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
    """Jobs that a full station turns away for good."""

    offered_per_second: float
    """Those that finish or are lost."""
    probability: float
    """The share of the offered jobs that is lost."""


class ClassAnswer(TypedDict):
    """A class of jobs in an analytic answer."""

    throughput_per_second: float
    """Of the jobs that finish, without the lost ones."""
    loss: PredictedLoss
    response_time_seconds: ResponseTime


class StationAnswer(TypedDict):
    """A station in an analytic answer; times are per visit."""

    utilisation: float | None
    queue_mean: float
    residence_time_seconds: float
    full_probability: float | None
    """That an arrival finds it full; None without a capacity."""


class SolverAnswer(TypedDict):
    """What one solver says, by name of class and of station."""

    classes: dict[str, ClassAnswer]
    stations: dict[str, StationAnswer]
    means: str
    """`exact`, or each approximation by name with the range of its error."""
    percentiles: str
    """What they rest on, `exact` or an approximation by name; or why there are none."""
    percentiles_relative_error: float | None
    """The proven bound of the relative error of each percentile; None where they are approximations."""


class Outcome(TypedDict):
    """An answer, or the reason why there is none."""

    basis: str
    answer: SolverAnswer | None
    refusal: str | None


class Bounds(TypedDict):
    """Asymptotic and balanced-job bounds of a single closed class (Lazowska et al. 1984)."""

    throughput_min_per_second: float
    throughput_max_per_second: float
    response_time_min_seconds: float
    response_time_max_seconds: float
    saturation_users: float
    """N*: with more users the slowest station must queue."""


class StationLoad(TypedDict):
    """The load that the mix of classes puts on a station."""

    demand_per_job_seconds: float
    saturation_throughput_per_second: float | None
    open_utilisation: float | None


class Bottleneck(TypedDict):
    """The resource that saturates first, and the one after it."""

    station: str | None
    next: str | None
    growth_factor_max: float | None
    """By how much open traffic can grow; None beside a closed class."""
    saturation_throughput_per_second: float | None
    stations: dict[str, StationLoad]


class Prediction(TypedDict):
    """What every analytic solver says of a system."""

    bottleneck: Bottleneck
    bounds: Bounds | None
    solvers: dict[str, Outcome]


Stop = Literal["half-width", "jobs-max", "trace-end", "interrupted"]


class Loss(PredictedLoss):
    """The same as simulated."""

    jobs: int
    probability_half_width: float | None


class Figure(TypedDict):
    """Whether one figure of the response time over all classes has converged."""

    asked_for: bool
    converged: bool
    relative_half_width: float | None
    reason: str | None
    """Why it has not converged, and what to do."""


class RouteSimulation(TypedDict):
    """A route of a class, such as hits."""

    jobs: int
    response_time_seconds: ResponseTime


class ClassSimulation(TypedDict):
    """A class of jobs."""

    jobs: int
    throughput_per_second: float
    """Of the jobs that finish, without the lost ones."""
    loss: Loss
    response_time_seconds: ResponseTime
    routes: dict[str, RouteSimulation]


class StationEstimate(TypedDict):
    """A station after the warm-up; times are per visit."""

    utilisation: float | None
    utilisation_half_width: float | None
    utilisation_expected: float | None
    """By the utilisation law: the estimate must approach it."""
    throughput_per_second: float
    throughput_half_width_per_second: float | None
    queue_mean: float
    queue_mean_half_width: float | None
    residence_time_seconds: float
    residence_time_half_width_seconds: float | None
    demand_seconds: float
    full_probability: float | None
    """The share of the arrivals that find it full; None without a capacity."""
    full_probability_half_width: float | None


class Simulated(TypedDict):
    """What every simulation says of itself and of the jobs."""

    complete: bool
    """False after Ctrl-C: the estimate so far."""
    converged: bool
    """Whether every figure asked for has converged."""
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
