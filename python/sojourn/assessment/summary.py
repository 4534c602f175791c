"""The summary of an assessment: all its measured and computed figures, with units in their names.

`summary.json` in the run folder is this model as JSON; the report and the terminal summary are drawn from it alone, so
a report can be drawn again years later. A missing figure is `None`, with the reason in `notes`; never zero.
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
    """The log options that differ from their defaults."""
    think_scale: float
    think_scale_because: str | None
    repetitions: int
    seed: int
    processors: float | None = None
    """The server's share of its processor; None without a limit."""


class SystemUnderTest(Record):
    """The measured server, and its machine."""

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
    """Response time over clients: the thesis's work demand, valid if the server is saturated."""
    demand_by_cpu_seconds: float | None
    """CPU seconds of the server's processes per request."""
    server_core_busy_fraction: float | None
    generator_limited: bool


class DemandFit(Record):
    """g(x) = seconds_per_byte * x + fixed_seconds, and the cost of a new connection."""

    seconds_per_byte: Interval
    fixed_seconds: Interval
    connection_seconds: Interval | None
    basis: Literal["cpu", "response law"]
    points_used: int
    points_left_out: int
    relative_error_median: float


class Prediction(Record):
    """A solver's prediction of a step on an undisturbed core."""

    requests_per_second: float
    response_time_mean_seconds: float | None
    """None if the station is saturated: the open model has no steady state then."""
    response_time_p95_seconds: float | None
    response_time_mean_as_it_was_seconds: float | None = None
    """Includes the measured loss of the server's core to others; None where unknown."""
    response_time_mean_known_to: float | None = None
    """Half the width of the 95 % interval over repetitions, relative to the measured mean; None unless each
    repetition's own requests were simulated.
    """
    response_time_p95_known_to: float | None = None


class PredictionError(Record):
    """Predicted minus measured, relative to measured."""

    requests_per_second: float
    response_time_mean: float | None
    response_time_p95: float | None


class Undisturbed(Record):
    """A step over the windows of about 0.1 s in which no other program used the server's or the generator's core."""

    windows: int
    """The number of windows in all repetitions."""
    windows_total: int
    requests: int = 0
    requests_per_second: Spread
    response_time_mean_seconds: Spread
    response_time_p95_seconds: Spread
    response_time_mean_middle_seconds: float | None = None
    """The interquartile mean over repetitions, which varies less than the median and resists outliers."""
    response_time_p95_middle_seconds: float | None = None
    """The interquartile mean of the p95."""
    response_time_mean_known_to: float | None = None
    """Half the width of the mean's 95 % interval over the repetitions, relative; None for a single repetition."""
    response_time_p95_known_to: float | None = None
    time_to_first_byte_p95_seconds: Spread
    server_cpu_seconds_per_request: Spread | None


GENERATOR_BUSY_MAX = 0.8
"""The share of the generator's core above which its own queueing affects measured times."""
THROUGHPUT_REQUESTS_MIN = 10_000
"""Fewer requests determine a rate to no better than 1 %: the step over all windows has more."""


class Step(Record):
    """One level of offered load over all repetitions, with measurements and predictions."""

    offered_requests_per_second: float
    repetitions: int
    requests_per_second: Spread
    bytes_per_second: Spread
    time_to_first_byte_p95_seconds: Spread
    response_time_mean_seconds: Spread
    response_time_p50_seconds: Spread
    response_time_p90_seconds: Spread | None = None
    """None in folders of older versions, like the p99.9."""
    response_time_p95_seconds: Spread
    response_time_p99_seconds: Spread
    response_time_p999_seconds: Spread | None = None
    error_fraction: Spread
    connections_open_mean: Spread
    server_cpu_fraction: Spread | None
    server_cpu_seconds_per_request: Spread | None
    server_core_busy_fraction: Spread | None
    server_wakeups_per_request: float | None = None
    """How often the server's threads went to sleep per request: a busy server finds more work instead."""
    generator_cpu_fraction: Spread
    generator_limited: bool
    steady: bool
    within_target: bool
    undisturbed: Undisturbed | None = None
    undisturbed_unavailable: str | None = None
    """The reason why there are no figures over undisturbed windows."""
    server_core_lost_squared: float | None = None
    """Seconds: the squared losses of the server's core to others per window, summed, over the measured time."""
    server_core_usual_fraction: float | None = None
    """The share of the server's core lost in every window alike: kernel threads that work for the load."""
    generator_core_usual_fraction: float | None = None
    """The same for the generator's core."""
    server_core_speed: Spread | None = None
    """The speed of the server's core in the repetitions, by its CPU time per request; 1 is the step's usual one."""
    held_out: bool
    """True if the model was fitted without this step."""
    closed_form: Prediction | None
    simulation: Prediction | None
    closed_form_error: PredictionError | None
    simulation_error: PredictionError | None

    @property
    def is_generator_busy(self) -> bool:
        """True if response times may include the generator's queueing, because due requests wait for its core."""
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
        """The throughput for testing the model, in requests/s: undisturbed where available."""
        enough = self.undisturbed is not None and self.undisturbed.requests >= THROUGHPUT_REQUESTS_MIN
        return (self.undisturbed if enough and self.undisturbed else self).requests_per_second.median

    @property
    def mean_for_model(self) -> float:
        """The mean response time for fitting and testing the model, in seconds: undisturbed where available."""
        middle = self.undisturbed.response_time_mean_middle_seconds if self.undisturbed else None
        return middle or (self.undisturbed or self).response_time_mean_seconds.median

    @property
    def p95_for_model(self) -> float:
        """The same for the p95."""
        middle = self.undisturbed.response_time_p95_middle_seconds if self.undisturbed else None
        return middle or (self.undisturbed or self).response_time_p95_seconds.median

    def mean_known_to(self, said: Prediction | None) -> float | None:
        """Half the width of the mean's 95 % interval, relative: beside a simulation of the same requests, or alone.

        None for a single repetition.
        """
        known = [each.response_time_mean_known_to for each in (said, self.undisturbed) if each is not None]
        return next((each for each in known if each is not None), None)

    def p95_known_to(self, said: Prediction | None) -> float | None:
        """The same for the p95."""
        known = [each.response_time_p95_known_to for each in (said, self.undisturbed) if each is not None]
        return next((each for each in known if each is not None), None)

    @property
    def cpu_for_model(self) -> float | None:
        """CPU seconds per request, including kernel threads."""
        own, rate = self.own_cpu_for_model, self.requests_per_second.median
        return own + (self.server_core_usual_fraction or 0.0) / rate if own and rate else None

    @property
    def utilisation_for_model(self) -> float:
        """Utilisation of a processor: throughput times CPU time per request; 0 where unknown."""
        return self.throughput_for_model * (self.cpu_for_model or 0.0)

    @property
    def own_cpu_for_model(self) -> float | None:
        """CPU seconds per request of the server's processes alone.

        Over all windows: it changes with the core's speed, and the undisturbed third of them are the fast ones.
        """
        return None if self.server_cpu_seconds_per_request is None else self.server_cpu_seconds_per_request.median

    @property
    def own_cpu_undisturbed(self) -> float | None:
        """The same over undisturbed windows where available: a server with a quota was not throttled in them."""
        over = self.undisturbed.server_cpu_seconds_per_request if self.undisturbed else None
        found = over or self.server_cpu_seconds_per_request
        return None if found is None else found.median


class Knee(Record):
    """The largest load that the server sustains within the target."""

    requests_per_second: float
    low: float
    """The lowest load at which a repetition may have reached its knee."""
    high: float
    """The highest such load: loads between two steps were not measured."""
    per_repetition: list[float]
    others_fraction: float | None = None
    """The share of the server's core used by other work in the steps around the knee; None if unknown."""
    reason: Literal["throughput", "time to first byte", "errors", "generator", "server stopped", "not reached"]
    """The reason for the climb's end. "generator" and "not reached" make the figure a lower bound."""
    is_lower_bound: bool


class Withheld(Record):
    """A computed figure that is withheld because the measurements contradict it."""

    figure: str
    reason: str
    cure: str


class Model(Record):
    """The fitted limited-processor-sharing model of the server."""

    jobs_in_service_limit: int | None
    """r of the LPS station; None for plain processor sharing."""
    mean_demand_seconds: float
    """The mean demand at a busy server."""
    demand_squared_coefficient_of_variation: float
    calibration_factor: Interval
    """CPU demand of the log's mix over the prediction of g(x), from the fitted steps."""
    latency_seconds: float
    interruption_seconds: float
    """nu E[H^2] of interruptions of the server's core, nu per second with length H."""
    latency_p95_seconds: float
    interruption_p95_seconds: float
    """The interruption term of the p95."""
    wakeup_latency_seconds: float = 0.0
    """The wake-up wait at an otherwise idle server; it falls with the square of the idle share."""
    wakeup_latency_p95_seconds: float = 0.0
    """The wake-up term of the p95."""
    processor_share: float = 1.0
    """The server's share of a processor."""
    wakeup_seconds: float = 0.0
    """The additional CPU time of a request that wakes the server; fitted for servers with a quota."""
    background_fraction: float = 0.0
    """The share of a processor used without requests; fitted for servers with a quota."""
    busy_capacity_requests_per_second: float
    """The throughput of a busy server without a backlog: its share of the processor over the mean demand."""
    capacity_requests_per_second: float
    """The throughput of the overloaded server."""
    steps_fitted: int
    steps_held_out: int
    held_out_error_requests_per_second: float | None
    """Largest absolute relative error over the held-out steps."""
    held_out_error_response_time_mean: float | None
    """The same, over held-out steps below the knee."""
    held_out_error_response_time_p95: float | None
    notes: list[str]

    def utilisation(self, step: Step) -> float:
        """Utilisation of the server's CPU share at a step: by the model's capacity or as measured, if larger.

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
    """The rate at which it alone would be the limit; None if it was not used."""
    utilisation: float | None
    evidence: str


class Doubling(Record):
    """The gain from doubling one resource."""

    resource: str
    requests_per_second: float
    gain_fraction: float


class Answer(Record):
    """The capacity, the bottleneck, and suggested changes."""

    largest_rate_requests_per_second: float
    low_requests_per_second: float
    """The capacity lies between this and `high_requests_per_second`."""
    high_requests_per_second: float | None
    """None if no upper bound is known."""
    interval_because: list[str]
    """The reasons for the interval's width."""
    is_lower_bound: bool
    lower_bound_because: str | None
    bottleneck: str | None
    """None if unknown, with the reason in `bottleneck_because`."""
    bottleneck_because: str
    """The evidence for the bottleneck, or the reason why it is unknown and a suggested fix."""
    next_bottleneck: str | None
    resources: list[Resource]
    doubling: list[Doubling]
    withheld: list[Withheld]
    log_average_requests_per_second: float
    log_peak_requests_per_second: float
    """Over all requests of the log, including those that a static copy cannot answer."""
    requests_fraction: float | None = None
    """The share of the log's requests that the static copy represents."""
    bytes_fraction: float | None = None
    headroom_over_log_peak: float | None
    """None if the log has no peak to compare with."""
    sentences: list[str]
    """The answer in words, most important first."""


Verdict = Literal["within the aims", "missed", "not decided", "disturbed", "not measured"]
"""The verdict on a verified prediction; disturbed measurements give none."""


class VerifiedLoad(Record):
    """One load on a changed system, predicted and measured."""

    offered_requests_per_second: float
    fraction_of_predicted_capacity: float
    predicted: Prediction
    unchanged: Prediction | None = None
    """What the unchanged server needed at this load, measured in alternation with the changed one; None if it was not,
    or the prediction is not of the assessed server.
    """
    judged: Prediction | None = None
    """What the error is of: the times that the same model gives for the very requests that were sent, on a machine as
    fast as the unchanged server showed it to be meanwhile, or the prediction itself where more than the server is
    modelled. None if not measured.
    """
    utilisation: float | None = None
    """The largest of the used part of the server's processor and the load relative to the measured capacity and to that
    of the model on the machine as it was.

    Errors are judged below 90 %.
    """
    measured: Prediction | None
    """The measured figures; None if the load was not reached, or the generator was the limit."""
    error: PredictionError | None


class Verification(Record):
    """A change that was made, with its prediction and measurement."""

    change: str
    says: str
    unmade_because: str | None
    """The reason why it was not made or not fully measured; existing figures are from before."""
    basis: str | None = None
    """The basis of the prediction."""
    predicted_at: str | None = None
    """When the prediction was written to the run's folder, before the measurement."""
    predicted_capacity_requests_per_second: Interval | None = None
    measured_knee: Knee | None = None
    capacity_error: float | None = None
    """Predicted minus measured, relative to measured; None if only a bound was measured."""
    is_within_interval: bool | None = None
    """Whether the measured capacity, with its interval, agrees with the predicted one; None if that has no width."""
    response_time_mean_error: float | None = None
    """The largest error over the loads that are judged and precise enough to tell."""
    response_time_p95_error: float | None = None
    loads: list[VerifiedLoad] = Field(default_factory=list)
    disturbed_because: list[str] = Field(default_factory=list)
    """Other work on the cores during this measurement or its prediction, which makes the comparison doubtful."""
    verdict: Verdict = "not measured"
    missed: list[str] = Field(default_factory=list)
    """The figures that missed their aims, with the amount."""
    undecided: list[str] = Field(default_factory=list)
    """The figures that were measured too imprecisely to tell whether they meet their aims."""


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
    """The native import's report; `workload.characteristics` knows its keys in every version."""
    characteristics: dict[str, Any]
    """The characteristics of the trace, likewise."""
    site_documents: int | None
    site_bytes: int | None
    system: SystemUnderTest | None
    machine: Machine | None = None
    """The machine of the run; folders of older versions have it only in `environment.json`."""
    disturbance: Disturbance | None = None
    """Disturbances of both cores before the first stage."""
    demand_points: list[DemandPoint]
    demand_fit: DemandFit | None
    steps: list[Step]
    knee: Knee | None
    model: Model | None
    answer: Answer | None
    saturation: Saturation | None = None
    """The server's resource that saturated first, with the evidence (`loading.saturation`)."""
    verification: list[Verification] | None = None
    """The changes made to verify predictions; None if not requested."""
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
    folder.write_text("summary.json", summary.model_dump_json(indent=2) + "\n")
