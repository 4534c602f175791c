"""The summary of an assessment: every figure it measured or computed, units in the names.

`summary.json` in the run folder is this model as JSON; the report and the terminal summary are drawn from
it alone, so a report can be drawn again years later. Figures that could not be had are `None` and the field
`notes` says why; nothing is ever filled in with a zero.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sojourn.engine.results import Machine
from sojourn.failure import CouldNotRun
from sojourn.loading.record import Saturation
from sojourn.machine.disturbance import Disturbance
from sojourn.results.records import Interval, Record, Spread
from sojourn.results.run_folder import RunFolder


class Settings(Record):
    """The options of the assessment."""

    server: str
    architecture: str | None
    target_p95_seconds: float
    access_line_bits_per_second: float | None
    session_gap_seconds: float
    log_options: list[str] = Field(default_factory=list)
    """Of the log's import, those that were not left at their defaults."""
    think_scale: float
    think_scale_because: str | None
    repetitions: int
    seed: int
    processors: float | None = None
    """Of its processor's time, what the server was allowed; None: all."""


class SystemUnderTest(Record):
    """Which server was measured, and where it ran."""

    name: str
    version: str
    command: list[str]
    server_core: int | None
    generator_core: int | None
    pinned: bool
    helpers: int | None


class DemandPoint(Record):
    """One closed-loop run on documents of a fixed size (seed thesis 2.2.3)."""

    size_bytes: int
    clients: int
    connection: Literal["keep-alive", "close"]
    requests: int
    errors: int
    requests_per_second: float
    response_time_mean_seconds: float
    demand_by_response_law_seconds: float
    """Response time over clients: the thesis's work demand, valid where the server is saturated."""
    demand_by_cpu_seconds: float | None
    """CPU seconds of the server's processes per request."""
    server_core_busy_fraction: float | None
    generator_limited: bool


class DemandFit(Record):
    """g(x) = seconds_per_byte * x + fixed_seconds, and what a new connection adds."""

    seconds_per_byte: Interval
    fixed_seconds: Interval
    connection_seconds: Interval | None
    basis: Literal["cpu", "response law"]
    points_used: int
    points_left_out: int
    relative_error_median: float


class Prediction(Record):
    """What one solver says of one step on a core that nobody else takes."""

    requests_per_second: float
    response_time_mean_seconds: float | None
    """None where the station is saturated: the open model has no steady state there."""
    response_time_p95_seconds: float | None
    response_time_mean_as_it_was_seconds: float | None = None
    """With what the server's core lost to others in the step added; None where that is not known."""
    response_time_mean_known_to: float | None = None
    """Half the width of the 95 % interval over repetitions, relative to the measured mean; None where each repetition's
    own requests were not simulated."""
    response_time_p95_known_to: float | None = None


class PredictionError(Record):
    """Predicted minus measured, relative to measured."""

    requests_per_second: float
    response_time_mean: float | None
    response_time_p95: float | None


class Undisturbed(Record):
    """A step over the windows of about 0.1 s in which nobody else took the server's or the generator's core."""

    windows: int
    """Of all repetitions together."""
    windows_total: int
    requests: int = 0
    requests_per_second: Spread
    response_time_mean_seconds: Spread
    response_time_p95_seconds: Spread
    response_time_mean_middle_seconds: float | None = None
    """The interquartile mean over repetitions: it varies less than the median, and outliers do not move it either."""
    response_time_p95_middle_seconds: float | None = None
    """The same of the p95."""
    response_time_mean_known_to: float | None = None
    """Half the width of the mean's 95 % interval over the repetitions, relative; None with one repetition."""
    response_time_p95_known_to: float | None = None
    time_to_first_byte_p95_seconds: Spread
    server_cpu_seconds_per_request: Spread | None


GENERATOR_BUSY_MAX = 0.8
"""Of the generator's core, its own work and the kernel threads'; what waits for a fuller one waits as long as for the
server."""
THROUGHPUT_REQUESTS_MIN = 10_000
"""Fewer requests tell a rate to more than 1 %: the step as it was has more."""


class Step(Record):
    """One level of offered load over all repetitions; measured beside predicted."""

    offered_requests_per_second: float
    repetitions: int
    requests_per_second: Spread
    bytes_per_second: Spread
    time_to_first_byte_p95_seconds: Spread
    response_time_mean_seconds: Spread
    response_time_p50_seconds: Spread
    response_time_p90_seconds: Spread | None = None
    """None in folders of older versions, as the p99.9."""
    response_time_p95_seconds: Spread
    response_time_p99_seconds: Spread
    response_time_p999_seconds: Spread | None = None
    error_fraction: Spread
    connections_open_mean: Spread
    server_cpu_fraction: Spread | None
    server_cpu_seconds_per_request: Spread | None
    server_core_busy_fraction: Spread | None
    server_wakeups_per_request: float | None = None
    """How often the server's threads went to sleep for a request: a busy server finds more to do instead."""
    generator_cpu_fraction: Spread
    generator_limited: bool
    steady: bool
    within_target: bool
    undisturbed: Undisturbed | None = None
    undisturbed_unavailable: str | None = None
    """Why there are no figures over undisturbed windows."""
    server_core_lost_squared: float | None = None
    """Seconds: the squares of what the server's core lost to others in each window, summed, over the time measured."""
    server_core_usual_fraction: float | None = None
    """Of the server's core, what it lost in every window alike: kernel threads that work for the load."""
    generator_core_usual_fraction: float | None = None
    """The same of the generator's core."""
    held_out: bool
    """True: the model's parameters were fitted without this step."""
    closed_form: Prediction | None
    simulation: Prediction | None
    closed_form_error: PredictionError | None
    simulation_error: PredictionError | None

    @property
    def is_generator_busy(self) -> bool:
        """True if response times may be the generator's as much as the server's: what is due waits for its core."""
        return self._generator_busy > GENERATOR_BUSY_MAX

    @property
    def generator_seconds_per_request(self) -> float:
        """CPU time of the generator and of kernel threads on its core."""
        return self._generator_busy / self.requests_per_second.median

    @property
    def _generator_busy(self) -> float:
        return self.generator_cpu_fraction.median + (self.generator_core_usual_fraction or 0.0)

    @property
    def throughput_for_model(self) -> float:
        """The throughput that the model is tried on, in requests/s: undisturbed where that is known."""
        enough = self.undisturbed is not None and self.undisturbed.requests >= THROUGHPUT_REQUESTS_MIN
        return (self.undisturbed if enough and self.undisturbed else self).requests_per_second.median

    @property
    def mean_for_model(self) -> float:
        """The mean response time that the model is fitted and tried on, in seconds: undisturbed where that is known."""
        middle = self.undisturbed.response_time_mean_middle_seconds if self.undisturbed else None
        return middle or (self.undisturbed or self).response_time_mean_seconds.median

    @property
    def p95_for_model(self) -> float:
        """The same for the p95."""
        middle = self.undisturbed.response_time_p95_middle_seconds if self.undisturbed else None
        return middle or (self.undisturbed or self).response_time_p95_seconds.median

    @property
    def cpu_for_model(self) -> float | None:
        """CPU seconds per request, the kernel threads' too; over undisturbed windows where that is known."""
        own = self.own_cpu_for_model
        return own and own + (self.server_core_usual_fraction or 0.0) / self.requests_per_second.median

    @property
    def utilisation_for_model(self) -> float:
        """Of a processor: throughput times CPU time per request (the utilisation law); 0 where that is not known."""
        return self.throughput_for_model * (self.cpu_for_model or 0.0)

    @property
    def own_cpu_for_model(self) -> float | None:
        """The same of the server's processes alone, as a limit of their processor counts it."""
        over = self.undisturbed.server_cpu_seconds_per_request if self.undisturbed else None
        found = over or self.server_cpu_seconds_per_request
        return None if found is None else found.median


class Knee(Record):
    """The largest load the server takes within the target."""

    requests_per_second: float
    low: float
    """The lowest load at which a repetition may have reached its knee."""
    high: float
    """The highest: what lies between two steps of load was not measured."""
    per_repetition: list[float]
    others_fraction: float | None = None
    """Of the server's core, what other work had in the steps around the knee; None: not known."""
    reason: Literal["throughput", "time to first byte", "errors", "generator", "server stopped", "not reached"]
    """What ended the climb. "generator" and "not reached": the figure is a lower bound, not the server's knee."""
    is_lower_bound: bool


class Withheld(Record):
    """A figure that was computed and is not printed, since the measurements contradict it."""

    figure: str
    reason: str
    cure: str


class Model(Record):
    """The fitted limited-processor-sharing model of the server."""

    jobs_in_service_limit: int | None
    """r of the LPS station; None stands for plain processor sharing."""
    mean_demand_seconds: float
    """Of a busy server."""
    demand_squared_coefficient_of_variation: float
    calibration_factor: Interval
    """CPU demand of the log's mix over what g(x) foretells, from the steps that were not held out."""
    latency_seconds: float
    interruption_seconds: float
    """nu E[H^2] of what interrupts the server's core nu times a second for H seconds."""
    latency_p95_seconds: float
    interruption_p95_seconds: float
    """The same two terms as they show in the p95."""
    wakeup_latency_seconds: float = 0.0
    """What a request waits longer at a server that does nothing else; it falls as the square of the idle share."""
    wakeup_latency_p95_seconds: float = 0.0
    """The same as it shows in the p95."""
    processor_share: float = 1.0
    """Of a processor's time, what the server may use."""
    wakeup_seconds: float = 0.0
    """CPU time that a request costs more if it finds the server asleep; fitted for a share of a processor."""
    background_fraction: float = 0.0
    """Of a processor, what the server uses without requests; fitted for a share of a processor."""
    busy_capacity_requests_per_second: float
    """What a busy server that keeps up would deliver: its share of the processor over the mean demand."""
    capacity_requests_per_second: float
    """What the overloaded server delivers."""
    steps_fitted: int
    steps_held_out: int
    held_out_error_requests_per_second: float | None
    """Largest absolute relative error over the held-out steps."""
    held_out_error_response_time_mean: float | None
    """The same, over held-out steps below the knee."""
    held_out_error_response_time_p95: float | None
    notes: list[str]

    def utilisation(self, step: Step) -> float:
        """Of the server's processor, or its share of one, at a step: by the model's capacity or as measured, if more.

        A server with a share spends on waking up what a busy one serves requests with.
        """
        by_capacity = step.offered_requests_per_second / self.busy_capacity_requests_per_second
        if self.processor_share >= 1:
            return max(by_capacity, step.utilisation_for_model)
        used = step.server_cpu_fraction.median if step.server_cpu_fraction is not None else 0.0
        return max(by_capacity, used / self.processor_share)


class Resource(Record):
    """One resource at the answer's rate."""

    name: str
    limit_requests_per_second: float | None
    """The rate at which it alone would bound the system; None: it was not used at all."""
    utilisation: float | None
    evidence: str


class Doubling(Record):
    """What twice as much of one resource would give."""

    resource: str
    requests_per_second: float
    gain_fraction: float


class Answer(Record):
    """How much traffic fits, the bottleneck, and what to change."""

    largest_rate_requests_per_second: float
    low_requests_per_second: float
    """The capacity lies between this and `high_requests_per_second`."""
    high_requests_per_second: float | None
    """None: how far above the lower end is not known."""
    interval_because: list[str]
    """What the interval's width comes from."""
    is_lower_bound: bool
    lower_bound_because: str | None
    bottleneck: str | None
    """None: not known, for the reason in `bottleneck_because`."""
    bottleneck_because: str
    """The evidence for the bottleneck; without one why it is not known, and the cure."""
    next_bottleneck: str | None
    resources: list[Resource]
    doubling: list[Doubling]
    withheld: list[Withheld]
    log_average_requests_per_second: float
    log_peak_requests_per_second: float
    """Over all requests of the log, those that a static copy cannot answer included."""
    requests_fraction: float | None = None
    """Of the log's requests, those that the static copy stands for."""
    bytes_fraction: float | None = None
    headroom_over_log_peak: float | None
    """None: the log has no peak to compare with."""
    sentences: list[str]
    """The answer in words, most important first."""


Verdict = Literal["within the aims", "missed", "disturbed", "not measured"]
"""On a prediction that was tried; over disturbed measurements there is none."""


class VerifiedLoad(Record):
    """One load offered to a changed system, predicted and measured."""

    offered_requests_per_second: float
    fraction_of_predicted_capacity: float
    predicted: Prediction
    measured: Prediction | None
    """The same figures as they were measured; None: the load was not reached, or the generator limited it."""
    error: PredictionError | None


class Verification(Record):
    """A change that was made: predicted first, then measured."""

    change: str
    says: str
    unmade_because: str | None
    """Why it was not made, or not measured to its end; the figures that are there were had before."""
    basis: str | None = None
    """From what it was predicted."""
    predicted_at: str | None = None
    """When the prediction was in the run's folder: before the measurement."""
    predicted_capacity_requests_per_second: Interval | None = None
    measured_knee: Knee | None = None
    capacity_error: float | None = None
    """Predicted minus measured, relative to measured; None where only a bound was measured."""
    is_within_interval: bool | None = None
    """Whether the measured capacity, with its own interval, meets the predicted one; None where that has no width."""
    response_time_mean_error: float | None = None
    """The largest over the loads, either way."""
    response_time_p95_error: float | None = None
    loads: list[VerifiedLoad] = Field(default_factory=list)
    disturbed_because: list[str] = Field(default_factory=list)
    """What makes the comparison doubtful: other work on the cores, while this was measured or its prediction was."""
    verdict: Verdict = "not measured"
    missed: list[str] = Field(default_factory=list)
    """Which figures missed their aims, and by how much."""


class Summary(Record):
    """An assessment from log to answer; parts not reached are `None`."""

    sojourn_version: str
    started_at: str
    duration_seconds: float
    complete: bool
    incomplete_because: str | None
    log_name: str
    settings: Settings
    log_import: dict[str, Any]
    """What the native import said; `workload.characteristics` knows the keys, of every version."""
    characteristics: dict[str, Any]
    """Of the trace, in the same way."""
    site_documents: int | None
    site_bytes: int | None
    system: SystemUnderTest | None
    machine: Machine | None = None
    """Where it was measured; folders of older versions have it in `environment.json` alone."""
    disturbance: Disturbance | None = None
    """Of both cores, before the first stage."""
    demand_points: list[DemandPoint]
    demand_fit: DemandFit | None
    steps: list[Step]
    knee: Knee | None
    model: Model | None
    answer: Answer | None
    saturation: Saturation | None = None
    """Which resource of the server was full first, with the evidence (`loading.saturation`)."""
    verification: list[Verification] | None = None
    """The changes that were made to check what is predicted of them; None: not asked for."""
    warnings: list[str]


def read_summary(folder: RunFolder) -> Summary:
    """Reads `summary.json`.

    Raises:
        CouldNotRun: if another version of sojourn wrote it.
    """
    try:
        return Summary.model_validate_json((folder.path / "summary.json").read_text())
    except ValueError as error:
        raise CouldNotRun(
            f"{folder.path / 'summary.json'} does not fit this version: {error}",
            "run sojourn assess again, or use the version named in the file",
        ) from error


def write_summary(folder: RunFolder, summary: Summary) -> None:
    """Writes `summary.json`."""
    folder.write_text("summary.json", summary.model_dump_json(indent=2) + "\n")
