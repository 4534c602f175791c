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
    capacity_requests_per_second: float
    factor: float


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


class HeldOutStep(Record):
    """A step that the model was not fitted on."""

    offered_requests_per_second: float
    measured_seconds: float
    predicted_seconds: float


class Model(Record):
    """The network that was fitted, and how well it predicts steps that it did not see."""

    workers: int | None
    """Limited places that requests hold until they are answered; None: no limit was seen."""
    system_file: str
    capacity_requests_per_second: float | None
    held_out: list[HeldOutStep]
    held_out_error_median: float | None
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
    knee: Knee | None = None
    bottleneck: Cause | None = None
    next_bottleneck: Cause | None = None
    changes: list[Change] = Field(default_factory=list)
    objectives: list[ObjectiveAnswer] = Field(default_factory=list)
    model: Model | None = None
    warnings: list[str] = Field(default_factory=list)
