"""What an assessment of an application found: kept in the run's folder, drawn from there alone."""

from __future__ import annotations

from pydantic import Field

from sojourn.results.records import Interval, Record
from sojourn.tiers.watch import DatabaseUse, TierUse

SCHEMA = "sojourn-application-1"
SUMMARY = "application.json"
"""The name of its file."""


class EndpointFigures(Record):
    """One endpoint in one step."""

    name: str
    offered_requests_per_second: float
    requests_per_second: float
    failures: int
    unfinished: int
    response_time_mean_seconds: float | None
    response_time_p50_seconds: float | None
    response_time_p95_seconds: float | None
    response_time_p99_seconds: float | None
    response_time_quantiles_seconds: list[float] = Field(default_factory=list)
    """The 5 %, 10 %, ... 95 % quantiles: the shape that a model of it has to have."""
    failed_by: dict[str, int] = Field(default_factory=dict)


class StepFigures(Record):
    """One step of the load."""

    kind: str
    """`explore` and `climb` have the log's mix, `mix` others, `overload` the log's beyond the knee."""
    offered_requests_per_second: float
    requests_per_second: float
    failed_fraction: float
    response_time_mean_seconds: float | None
    response_time_p95_seconds: float | None
    in_system: float
    """Requests under way on average: throughput times response time."""
    endpoints: list[EndpointFigures]
    tiers: dict[str, TierUse]
    database: DatabaseUse | None = None
    levels: dict[str, float] = Field(default_factory=dict)
    machine_busy_cores: float | None = None
    generator_cpu_cores: float = 0.0
    failed_because: str | None = None
    """Why the step is beyond the knee; None: it is not."""
    predicted_response_time_mean_seconds: float | None = None
    """By a model that did not see this step."""


class TierDescription(Record):
    """A tier as it was found."""

    name: str
    declared: str
    command: str | None = None
    cores: list[int] = Field(default_factory=list)
    """On which it may run; empty where that is not known."""
    port: int | None = None


class Demand(Record):
    """CPU time of one tier per request of one endpoint."""

    endpoint: str
    tier: str
    seconds: Interval
    """Where the cores are full."""
    identifiable: bool
    """False where the measurements do not tell it from others' or from nothing."""


class Cause(Record):
    """What ends the system's growth."""

    tier: str | None
    cause: str
    """`cpu`, `workers`, `connections`, `lock`, `disk`, `outside`, or `unknown`."""
    because: str
    """The evidence, in a sentence."""
    limit_requests_per_second: float | None = None
    """Of the log's mix, where it can be computed."""


class Change(Record):
    """What a change would give."""

    what: str
    setting: str
    """As `--change` takes it."""
    capacity: Interval
    """Requests/s of the log's mix."""
    factor: float
    """Times the knee."""
    limited_by: str
    """What saturates first then."""
    cost: str | None = None
    """By the table of prices that was given."""


class VerifiedChange(Record):
    """A change that was carried out: what was predicted of it, and what was measured."""

    setting: str
    what: str
    command: str | None
    """None: Sojourn limited a tier's cores."""
    predicted: Interval | None = None
    """Requests/s; in the run's folder before the change was made."""
    limited_by: str | None = None
    not_predicted_because: str | None = None
    measured: Interval | None = None
    is_lower_bound: bool = False
    """True if the load did not reach the knee."""
    error: float | None = None
    """Of the prediction, relative."""
    others_cores: float | None = None
    """What other programs took of the cores meanwhile, where that was much more or less than before."""
    predicted_beside_others: Interval | None = None
    """By the same model, with what they took: computed after the measurement."""
    error_beside_others: float | None = None
    not_measured_because: str | None = None
    steps: list[StepFigures] = Field(default_factory=list)


class ObjectiveAnswer(Record):
    """One objective: up to which load of the log's mix it holds."""

    objective: str
    capacity: Interval | None
    """Requests per second in all; None: not even the lowest step met it."""
    is_lower_bound: bool
    """True if no step missed it."""
    holds: bool
    """At the load that is required."""


class Knee(Record):
    """The load of the log's mix that the system takes."""

    requests_per_second: Interval
    is_lower_bound: bool
    stopped_because: str


class HeldOutFigure(Record):
    """One endpoint at a load that the model was not fitted on."""

    offered_requests_per_second: float
    """Of all endpoints together."""
    endpoint: str
    measured_per_second: float
    predicted_per_second: float | None
    """None: the model says that the load is beyond what the system takes."""
    measured_mean_seconds: float | None
    predicted_mean_seconds: float | None
    measured_p95_seconds: float | None
    predicted_p95_seconds: float | None


class Model(Record):
    """The network that was fitted, and how well it predicts loads that it did not see."""

    places: list[str]
    """Limited numbers of requests at a time that were seen."""
    processes: dict[str, int]
    """Tiers whose processes take turns at their requests, with how many share the work."""
    waits_seconds: dict[str, float]
    """By endpoint what is no CPU time of a tier."""
    system_file: str
    limits_requests_per_second: dict[str, float]
    """What each resource would take of the log's mix."""
    held_out: list[HeldOutFigure]
    errors: dict[str, float]
    """Medians of the relative errors of `throughput`, `mean` and `p95`."""
    believed: bool


class LeftOutRequests(Record):
    """Requests of the log that are not made."""

    why: str
    requests: int
    fraction: float


class EndpointDescription(Record):
    """An endpoint of the log."""

    name: str
    requests: int
    fraction: float
    targets: int
    mean_bytes: float


class ApplicationSummary(Record):
    """The whole assessment."""

    schema_name: str = SCHEMA
    sojourn_version: str
    started_at: str
    duration_seconds: float = 0.0
    complete: bool = False
    incomplete_because: str | None = None
    log_name: str
    target: str
    log_requests: int
    covered_fraction: float
    peak_requests_per_second: float
    required_requests_per_second: float
    endpoints: list[EndpointDescription]
    left_out: list[LeftOutRequests]
    tiers: list[TierDescription]
    steps: list[StepFigures] = Field(default_factory=list)
    demands: list[Demand] = Field(default_factory=list)
    demand_errors: dict[str, float] = Field(default_factory=dict)
    """By tier the median relative error of CPU use on steps held out."""
    demand_falls: dict[str, float] = Field(default_factory=dict)
    """By tier: on idle cores a request takes so much more CPU time than on full ones, relative."""
    knee: Knee | None = None
    bottleneck: Cause | None = None
    next_bottleneck: Cause | None = None
    changes: list[Change] = Field(default_factory=list)
    objectives: list[ObjectiveAnswer] = Field(default_factory=list)
    model: Model | None = None
    verification: list[VerifiedChange] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
