"""The record of a load run: the engine's result, and what is added to it here.

A run of requests and a run of viewers have different figures; what they have in common has the same names in both.
"""

from __future__ import annotations

from pydantic import Field

from sojourn.engine.results import (
    LoadRecord,
    Machine,
    Record,
    StepReport,
    StreamRecord,
    StreamStep,
    Unavailable,
)
from sojourn.loading.confidence import LEVEL
from sojourn.loading.search import Ending, Phase
from sojourn.probe.totals import CounterUse


class ProbeUse(Record):
    """What a probed server used, in a run or in a step."""

    unavailable: str | None = None
    """Why there is nothing."""
    pids: list[int] = Field(default_factory=list)
    samples: int = 0
    duration_seconds: float | None = None
    probe_cpu_fraction: float | None = None
    counters: dict[str, CounterUse] = Field(default_factory=dict)
    offset_seconds: float = 0.0
    """What was added to the recording's times."""
    cores: int | None = None
    """On how many the processes may run."""
    cpu_seconds_per_request: float | Unavailable | None = None
    cpu_user_seconds_per_request: float | Unavailable | None = None
    cpu_system_seconds_per_request: float | Unavailable | None = None
    cpu_seconds_per_stream_second: float | Unavailable | None = None
    cpu_user_seconds_per_stream_second: float | Unavailable | None = None
    cpu_system_seconds_per_stream_second: float | Unavailable | None = None


class Use(Record):
    """A resource at every load; a figure that is not known is None."""

    name: str
    criterion: str
    limit: float
    unit: str
    """`share`, or what is counted."""
    values: list[float | None]

    def is_saturated(self, place: int) -> bool:
        """Returns true if the resource was saturated at that load."""
        value = self.values[place]
        return value is not None and value >= self.limit


class Saturation(Record):
    """The resource that saturates first, with its evidence."""

    loads: list[str]
    """What was offered, from the least."""
    uses: list[Use]
    first: str | None
    """The resource that was saturated first; None: not shown."""
    at: str | None
    """The load at which."""
    sentence: str
    rates: list[float] = Field(default_factory=list)
    """The loads as numbers, in the same order; results of older versions have none."""


class TrialRecord(Record):
    """A run of a search."""

    load: float
    passed: bool
    void_because: str | None = None
    phase: Phase = "bracket"
    values: dict[str, float | None] = Field(default_factory=dict)


class LoadTried(Record):
    """All runs at one load of a search."""

    load: float
    runs: int
    passed: int
    pass_fraction_monotone: float


class SearchRecord(Record):
    """A search for the largest load: what was asked, and what is known."""

    varied: str
    unit: str
    options: list[str]
    thresholds: list[str]
    ending: Ending
    capacity: float | None = None
    low: float | None = None
    high: float | None = None
    confidence_level: float = LEVEL
    loads: list[LoadTried] = Field(default_factory=list)
    trials: list[TrialRecord] = Field(default_factory=list)
    saturation: Saturation | None = None


class Bounds(Record):
    """A metric of a step with its 95 % confidence interval, or why it has none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    batches: int | None = None
    unavailable: str | None = None


class Judged(Record):
    """A threshold and whether the run passed it."""

    metric: str
    operator: str
    limit: float
    value: float | None
    low: float | None
    high: float | None
    passed: bool
    clear: bool | None


class MachineShare(Record):
    """One of the machines that made a load together."""

    host: str
    share: float
    machine: Machine | None = None
    failed_because: str | None = None
    clock_offset_seconds: float = 0.0
    round_trip_seconds: float = 0.0
    requests: int | None = None
    requests_per_second: float | None = None
    errors: int | None = None
    generator_cpu_fraction: float | None = None
    send_lag_p99_seconds: float | None = None
    limited: bool | None = None
    limited_because: str | None = None
    complete: bool = False


class Step(StepReport):
    """A step of requests."""

    probe: ProbeUse | None = None
    confidence: dict[str, float | Bounds] | None = None
    """By metric; `level` is that of all."""


class StreamsStep(StreamStep):
    """The step of a run of viewers."""

    probe: ProbeUse | None = None


class _Added(Record):
    """What is known beside the engine's result."""

    probe: ProbeUse | None = None
    saturation: Saturation | None = None
    """Which resource of the server was full first."""
    options: list[str] = Field(default_factory=list)
    """The engine's options that were given."""
    thresholds: list[Judged] = Field(default_factory=list)


class RequestsRecord(LoadRecord, _Added):
    """A run of requests."""

    steps: list[Step] = Field(default_factory=list)  # type: ignore[assignment]  # they have more than the engine's
    machines: list[MachineShare] = Field(default_factory=list)
    """Where several made the load."""


class StreamsRecord(StreamRecord, _Added):
    """A run of viewers."""

    steps: list[StreamsStep] = Field(default_factory=list)  # type: ignore[assignment]  # they have more, too


RunRecord = RequestsRecord | StreamsRecord
AnyStep = Step | StreamsStep


def parse(text: str | bytes) -> RunRecord:
    """The record of a file, of either kind.

    Raises:
        ValidationError: it is neither.
    """
    kind = _Kind.model_validate_json(text).kind
    return (StreamsRecord if kind == STREAMS else RequestsRecord).model_validate_json(text)


STREAMS = "streams"


class _Kind(Record):
    kind: str | None = None
