"""The results of an application's assessment, stored in the run's folder as the report's only source."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from sojourn.engine.results import Summary
from sojourn.results.records import Interval, Record
from sojourn.tiers.watch import DatabaseUse, TierUse

SCHEMA = "sojourn-application-1"
SUMMARY = "application.json"
"""The name of its file."""
CLIMB = "climb"
"""The kind of steps with the log's mix around the knee."""
MIX, RECOVERY = "mix", "recovery"
"""The kinds of steps with other mixes, and of those that show whether the system is still there."""
ERRORS_MAX: Mapping[str, float] = {"throughput": 0.05, "mean": 0.15, "p95": 0.25}
"""Largest relative errors of a credible model beyond chance, in the median over endpoints and held-out loads."""


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
    """The 5 %, 10 %, ... 95 % quantiles, which give the shape of the distribution."""
    requests: int | None = None
    """Due in the step's time, as drawn: answered, failed, unanswered or abandoned."""
    failed_by: dict[str, int] = Field(default_factory=dict)
    abandoned: int = 0
    """Never sent, because a request before them in their iteration had failed."""
    first_failure: str | None = None
    """The first answer that was not as it should be: what was asked, what came, what of it is wrong."""
    server_timing_seconds: dict[str, Summary] = Field(default_factory=dict)
    """What the answers' `Server-Timing` fields say, by metric."""
    due_seconds: list[float] = Field(default_factory=list)
    """When its requests were due, from the begin of the measured time, negative before."""
    response_seconds: list[float | None] = Field(default_factory=list)
    """Their response times, in the same order; null for one that failed or was not answered."""


class Login(Record):
    """The login, which users make once, before the load."""

    users: int
    """The number of logged-in users."""
    requests: list[EndpointFigures]


class CpuWindows(Record):
    """The tiers' CPU usage in successive windows of a step, from its begin."""

    seconds: float
    """How long a window is."""
    cores: dict[str, list[float]]
    """CPU time per time, by tier; empty where it is not known."""


class StepFigures(Record):
    """One step of the load."""

    kind: str
    """`explore` and `climb` have the log's mix, `mix` others, `overload` the log's beyond the knee; `recovery` is a low
    load after one that failed: is the system still there?"""
    offered_requests_per_second: float
    requests_per_second: float
    failed_fraction: float
    response_time_mean_seconds: float | None
    response_time_p95_seconds: float | None
    in_system: float
    """The mean number of requests in the system: throughput times response time."""
    endpoints: list[EndpointFigures]
    tiers: dict[str, TierUse]
    database: DatabaseUse | None = None
    levels: dict[str, float] = Field(default_factory=dict)
    machine_busy_cores: float | None = None
    busy_by_core: dict[int, float] = Field(default_factory=dict)
    """By the number of each core of this machine, the share of the time in which it was busy, whatever used it."""
    generator_cpu_cores: float = 0.0
    generator_limited: str | None = None
    """Why the generator, not the system, was the limit."""
    failed_because: str | None = None
    """The reason why the step is beyond the knee; None if it is not."""
    predicted_response_time_mean_seconds: float | None = None
    """The prediction of a model that did not see this step."""
    users: int | None = None
    """The number of users in a closed loop; None where iterations arrived at a rate."""
    measured_seconds: float | None = None
    cpu_windows: CpuWindows | None = None
    """None where it was not measured."""
    stalled_cpu_seconds: float | None = None
    """CPU time that was lost to its requests, as when a hypervisor takes the cores; None where there is no model."""

    @property
    def tells_the_knee(self) -> bool:
        """True if it has the log's own mix, and does not only show whether the system is still there."""
        return self.kind not in (MIX, RECOVERY)

    @property
    def failed_by_generator(self) -> bool:
        """True if it failed while the generator was the limit, so that it tells nothing of the system."""
        return self.failed_because is not None and self.generator_limited is not None


class IdleUse(Record):
    """A tier's CPU usage without any request, measured before the load."""

    cpu_cores: Interval
    """The mean, with a 95 % interval from its spread."""
    parts_cpu_cores: list[float]
    """In successive parts of the time."""
    seconds: float
    """How long it was measured."""


class TierDescription(Record):
    """A tier as found on its machine."""

    name: str
    declared: str
    command: str | None = None
    cores: list[int] = Field(default_factory=list)
    """The cores available to it; empty where unknown."""
    port: int | None = None
    idle: IdleUse | None = None
    """None where it was not measured."""


class Demand(Record):
    """CPU time of one tier per request of one endpoint."""

    endpoint: str
    tier: str
    seconds: Interval
    """Seconds on fully busy cores."""
    identifiable: bool
    """False where the measurements cannot separate it from other demands or from zero."""


class Cause(Record):
    """A cause of saturation."""

    tier: str | None
    cause: str
    """`cpu`, `workers`, `connections`, `lock`, `disk`, `outside`, or `unknown`."""
    because: str
    """The evidence in a sentence."""
    limit_requests_per_second: float | None = None
    """The limit in requests/s of the log's mix, where it can be computed."""


class Change(Record):
    """The predicted effect of a change."""

    what: str
    setting: str
    """The setting for `--change`."""
    capacity: Interval
    """The capacity in requests/s of the log's mix."""
    factor: float
    """The capacity relative to the knee."""
    limited_by: str
    """The resource that saturates first after the change."""
    cost: str | None = None
    """The cost according to the given prices."""


class VerifiedChange(Record):
    """A change that was made, with its predicted and measured effect."""

    setting: str
    what: str
    command: str | None
    """The command that made it; None if Sojourn limited a tier's cores."""
    predicted: Interval | None = None
    """Requests/s, written to the run's folder before the change was made."""
    limited_by: str | None = None
    not_predicted_because: str | None = None
    measured: Interval | None = None
    is_lower_bound: bool = False
    """True if the load did not reach the knee."""
    error: float | None = None
    """The relative error of the prediction."""
    others_cores: float | None = None
    """Cores used by other programs during the measurement, if very different from before."""
    predicted_beside_others: Interval | None = None
    """The same model's prediction with these cores taken, computed after the measurement."""
    error_beside_others: float | None = None
    not_measured_because: str | None = None
    not_restored_because: str | None = None
    """Why the system is not as it was before the change."""
    steps: list[StepFigures] = Field(default_factory=list)


class ObjectiveAnswer(Record):
    """An objective, with the load of the log's mix up to which it holds."""

    objective: str
    capacity: Interval | None
    """Requests per second in all; None if even the lowest step missed it."""
    is_lower_bound: bool
    """True if no step missed it."""
    holds: bool | None
    """Whether it holds at the required load; None if that is not decided, as the assessment is incomplete, or the load
    never came there.
    """


class CapacityChange(Record):
    """A capacity now and in an earlier run."""

    what: str
    """`capacity`, which is the knee, or an objective."""
    before: Interval
    now: Interval
    change: float | None
    """Relative, of the estimates; None where a load did not reach its end."""
    change_low: float | None
    change_high: float | None
    fell: bool | None
    """By more than chance and what is allowed; None where that cannot be said."""


class Comparison(Record):
    """The run against an earlier one."""

    baseline: str
    differences: list[str]
    """In what the runs differ beside the system."""
    changes: list[CapacityChange]


class Verdict(Record):
    """One of those that decide the exit code."""

    name: str
    passed: bool | None
    """None: it cannot be said, which fails nothing."""
    because: str


class Knee(Record):
    """The load of the log's mix that the system sustains."""

    requests_per_second: Interval
    is_lower_bound: bool
    stopped_because: str
    users: Interval | None = None
    """The users of a scenario with think times who make as many requests and do not wait for each other."""


class HeldOutFigure(Record):
    """One endpoint at a load to which the model was not fitted."""

    offered_requests_per_second: float
    """The rate of all endpoints together."""
    endpoint: str
    measured_per_second: float
    predicted_per_second: float | None
    """None if the model predicts that the load exceeds the capacity."""
    measured_mean_seconds: float | None
    predicted_mean_seconds: float | None
    measured_p95_seconds: float | None
    predicted_p95_seconds: float | None
    measured_mean_known_to: float | None = None
    """How far, relative, the mean of so few requests may be from what the model says of them (95 %)."""
    measured_p95_known_to: float | None = None


class Model(Record):
    """The fitted network, with its errors at held-out loads."""

    places: list[str]
    """The limited numbers of concurrent requests found."""
    processes: dict[str, int]
    """Tiers whose processes take turns, with the number that share the work."""
    waits_seconds: dict[str, float]
    """By endpoint, the time that is not CPU time of a tier."""
    system_file: str
    limits_requests_per_second: dict[str, float]
    """Each resource's limit for the log's mix."""
    held_out: list[HeldOutFigure]
    errors: dict[str, float]
    """Median relative errors of `throughput`, `mean` and `p95`, over endpoints and loads."""
    judged: dict[str, int] = Field(default_factory=dict)
    """Over how many figures each of them is the median."""
    errors_by_chance: dict[str, Interval] = Field(default_factory=dict)
    """The median errors that chance alone gives a model that is right."""
    errors_beyond_chance: dict[str, Interval] = Field(default_factory=dict)
    """What is left of the errors without chance: the model's own."""
    believed: bool
    """True if each error was shown to be as small as is aimed at."""

    def meets(self, what: str) -> bool | None:
        """Whether the model's own error is as small as is aimed at; None if chance is too large to tell."""
        own = self.errors_beyond_chance.get(what)
        if own is None and what in self.errors:
            # A run of before: its errors are of figures that chance could move by less than is aimed at.
            return self.errors[what] <= ERRORS_MAX[what]
        if own is None or own.low <= ERRORS_MAX[what] < own.high:
            return None
        return own.high <= ERRORS_MAX[what]


class LeftOutRequests(Record):
    """Requests of the log that are left out."""

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
    scenario_name: str | None = None
    """The scenario that was made in place of the log's requests."""
    peak_requests_per_second: float | None
    """The log's busiest minute, as far as the load stands for it; None without a log."""
    required_requests_per_second: float | None
    """At which the objectives have to hold."""
    sessions: int | None = None
    """How many sessions of the log made its mix; None where its requests were made independently."""
    required_users: int | None = None
    """With whom the objectives have to hold, where that was asked for; then the rate is theirs."""
    login: Login | None = None
    endpoints: list[EndpointDescription]
    left_out: list[LeftOutRequests]
    tiers: list[TierDescription]
    steps: list[StepFigures] = Field(default_factory=list)
    demands: list[Demand] = Field(default_factory=list)
    demand_errors: dict[str, float] = Field(default_factory=dict)
    """Median relative error of CPU usage on held-out steps, by tier."""
    demand_falls: dict[str, float] = Field(default_factory=dict)
    """Additional CPU time per request on idle cores compared with busy ones, relative, by tier."""
    knee: Knee | None = None
    bottleneck: Cause | None = None
    next_bottleneck: Cause | None = None
    changes: list[Change] = Field(default_factory=list)
    objectives: list[ObjectiveAnswer] = Field(default_factory=list)
    model: Model | None = None
    verification: list[VerifiedChange] = Field(default_factory=list)
    abandoned_fraction: float | None = None
    """The share of requests, in steps of the log's mix below the knee, never sent because an earlier one had failed."""
    comparison: Comparison | None = None
    verdicts: list[Verdict] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """True if a verdict is a failure, or an objective was not shown to hold: exit code 1."""
        return any(each.passed is False for each in self.verdicts) or not all(each.holds for each in self.objectives)
