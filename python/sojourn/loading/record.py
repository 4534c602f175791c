"""The record of a load run: the engine's result with additions.

Runs of requests and of viewers have different figures; common ones have the same names in both.
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
    """A probed server's usage, in a run or a step."""

    unavailable: str | None = None
    """The reason why there are no figures."""
    pids: list[int] = Field(default_factory=list)
    samples: int = 0
    duration_seconds: float | None = None
    probe_cpu_fraction: float | None = None
    counters: dict[str, CounterUse] = Field(default_factory=dict)
    offset_seconds: float = 0.0
    """The offset added to the recording's times."""
    cores: int | None = None
    """The number of cores available to the processes."""
    cpu_seconds_per_request: float | Unavailable | None = None
    cpu_user_seconds_per_request: float | Unavailable | None = None
    cpu_system_seconds_per_request: float | Unavailable | None = None
    cpu_seconds_per_stream_second: float | Unavailable | None = None
    cpu_user_seconds_per_stream_second: float | Unavailable | None = None
    cpu_system_seconds_per_stream_second: float | Unavailable | None = None


class Use(Record):
    """A resource's usage at every load; None where unknown."""

    name: str
    criterion: str
    limit: float
    unit: str
    """`share`, or the unit of the count."""
    values: list[float | None]

    def is_saturated(self, place: int) -> bool:
        """Returns true if the resource was saturated at that load."""
        value = self.values[place]
        return value is not None and value >= self.limit


class Saturation(Record):
    """The resource that saturates first, with the evidence."""

    loads: list[str]
    """The offered loads, ascending."""
    uses: list[Use]
    first: str | None
    """The resource that saturated first; None if none is known to."""
    at: str | None
    """The load at which it saturated."""
    sentence: str
    rates: list[float] = Field(default_factory=list)
    """The loads as numbers, in the same order; empty in results of older versions."""


class TrialRecord(Record):
    """One run of a search."""

    load: float
    passed: bool
    void_because: str | None = None
    phase: Phase = "bracket"
    values: dict[str, float | None] = Field(default_factory=dict)


class LoadTried(Record):
    """All runs of a search at one load."""

    load: float
    runs: int
    passed: int
    pass_fraction_monotone: float


class Condition(Record):
    """A threshold as it was asked for."""

    metric: str
    operator: str
    limit: float


class SearchRecord(Record):
    """A capacity search: its options and result."""

    varied: str
    unit: str
    options: list[str]
    thresholds: list[str]
    conditions: list[Condition] = Field(default_factory=list)
    """The same for programs."""
    ending: Ending
    capacity: float | None = None
    low: float | None = None
    high: float | None = None
    confidence_level: float = LEVEL
    loads: list[LoadTried] = Field(default_factory=list)
    trials: list[TrialRecord] = Field(default_factory=list)
    saturation: Saturation | None = None


class Bounds(Record):
    """A step's metric with its 95 % confidence interval, or the reason why it has none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    batches: int | None = None
    unavailable: str | None = None


class Judged(Record):
    """A threshold with its verdict."""

    metric: str
    operator: str
    limit: float
    value: float | None
    low: float | None
    high: float | None
    passed: bool
    clear: bool | None


class MachineShare(Record):
    """One of the machines that generated a load."""

    host: str
    share: float
    machine: Machine | None = None
    failed_because: str | None = None
    clock_offset_seconds: float = 0.0
    round_trip_seconds: float = 0.0
    requests: int | None = None
    requests_per_second: float | None = None
    errors: int | None = None
    streams: int | None = None
    """Streams started, of viewers."""
    generator_cpu_fraction: float | None = None
    send_lag_p99_seconds: float | None = None
    limited: bool | None = None
    limited_because: str | None = None
    complete: bool = False


class Step(StepReport):
    """A step of a run of requests."""

    probe: ProbeUse | None = None
    confidence: dict[str, float | Bounds] | None = None
    """Confidence intervals by metric; `level` is their confidence level."""


class StreamsStep(StreamStep):
    """A step of a run of viewers."""

    probe: ProbeUse | None = None


class _Added(Record):
    """Additions to the engine's result."""

    probe: ProbeUse | None = None
    saturation: Saturation | None = None
    """The server's resource that saturated first."""
    options: list[str] = Field(default_factory=list)
    """The engine options of the run."""
    thresholds: list[Judged] = Field(default_factory=list)
    machines: list[MachineShare] = Field(default_factory=list)
    """The machines, if several generated the load."""


class RequestsRecord(LoadRecord, _Added):
    """A run of requests."""

    steps: list[Step] = Field(default_factory=list)  # type: ignore[assignment]  # they add fields to the engine's


class StreamsRecord(StreamRecord, _Added):
    """A run of viewers."""

    steps: list[StreamsStep] = Field(default_factory=list)  # type: ignore[assignment]  # they have more, too


RunRecord = RequestsRecord | StreamsRecord
AnyStep = Step | StreamsStep


def parse(text: str | bytes) -> RunRecord:
    """Parses a record of either kind.

    Raises:
        ValidationError: it is of neither kind.
    """
    kind = _Kind.model_validate_json(text).kind
    return (StreamsRecord if kind == STREAMS else RequestsRecord).model_validate_json(text)


STREAMS = "streams"


class _Kind(Record):
    kind: str | None = None
