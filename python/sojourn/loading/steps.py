"""The steps of a run, each with the confidence intervals of its figures.

A step is treated like a whole run: its intervals are cut into batches (see `confidence`). A step with fewer than
`BATCHES_MIN` intervals, or whose rate changes during the step, has figures without intervals, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sojourn import _native
from sojourn.loading import metrics
from sojourn.loading.confidence import BATCHES_MIN, LEVEL, Estimate
from sojourn.loading.metric import Metric
from sojourn.loading.record import AnyStep, Bounds, RequestsRecord, Step, StreamsRecord
from sojourn.loading.result import Interval, LoadResult
from sojourn.loading.saturation import Setting, find
from sojourn.text import format

METRICS = ("rps", "mean", "p50", "p90", "p99", "ttfb.p50", "ttfb.p99")
"""The metrics whose confidence intervals every step reports."""


@dataclass(frozen=True)
class StepResult:
    """A step: the engine's record, its latencies and its intervals."""

    number: int
    """The step's number, from one."""
    record: AnyStep
    latencies: Mapping[str, _native.Histogram]
    intervals: Sequence[Interval]

    @property
    def of_requests(self) -> Step:
        """The record, for a step of requests."""
        assert isinstance(self.record, Step), "viewers made it"
        return self.record

    @property
    def offered(self) -> str:
        """The offered load in words."""
        if self.record.clients is not None:
            return f"{self.record.clients:,} clients"
        rate = self.record.offered_requests_per_second if isinstance(self.record, Step) else None
        said = "as logged" if rate is None else f"{format.number(rate, 4)}/s"
        return f"{said}, mean of a ramp" if self._is_ramp else said

    @property
    def load(self) -> float:
        """The offered load as a number, for sorting the steps of a run."""
        rate = self.record.offered_requests_per_second if isinstance(self.record, Step) else None
        return float(self.record.clients or rate or self.number)

    @property
    def _is_ramp(self) -> bool:
        return isinstance(self.record, Step) and self.record.ramp

    def estimate(self, metric: Metric) -> Estimate:
        """The metric with its interval; NaN if the step does not contain it."""
        return metric.estimate_of(self.as_run(), None if self.no_interval_because else self.intervals)

    @property
    def no_interval_because(self) -> str | None:
        """The reason why no figure of the step has an interval; None if they can."""
        if self._is_ramp:
            return "the load changed within the step"
        if len(self.intervals) < BATCHES_MIN:
            return f"{len(self.intervals)} intervals, but an interval needs {BATCHES_MIN} batches"
        return None

    def as_run(self) -> LoadResult:
        """The step as if it were a whole run."""
        rows = [(tag, 0.0, self.record.duration_seconds, each) for tag, each in self.latencies.items()]
        # Fields that only a whole run has, such as its URL, are not used for a step.
        kind = RequestsRecord if isinstance(self.record, Step) else StreamsRecord
        record = kind.model_construct(**{**dict(self.record), "complete": True, "steps": [self.record]})
        return LoadResult(record, {}, _native.write_interval_log(0.0, rows), "")

    def confidence(self) -> dict[str, float | Bounds]:
        """For the JSON object: each metric's value and bounds, or the reason why it has none."""
        because = self.no_interval_because
        found: dict[str, float | Bounds] = {"level": LEVEL}
        for name in METRICS:
            estimate = self.estimate(metrics.find(name))
            if math.isnan(estimate.value):
                found[name] = Bounds(unavailable="there was no response")
            elif estimate.low is None:
                why = because or "its batches are correlated: the step is too short"
                found[name] = Bounds(value=estimate.value, unavailable=why)
            else:
                found[name] = Bounds(
                    value=estimate.value, low=estimate.low, high=estimate.high, batches=estimate.batches
                )
        return found


def steps_of(result: LoadResult) -> list[StepResult]:
    """The steps of a run in order."""
    records: Sequence[AnyStep] = result.record.steps
    return [
        StepResult(number, record, latencies, _within(result.intervals, record))
        for number, (record, latencies) in enumerate(zip(records, result.step_latencies, strict=False), 1)
    ]


def with_confidence(result: LoadResult) -> LoadResult:
    """Adds `confidence` to the record of every step."""
    found = steps_of(result)
    if not found:
        return result
    steps = [step.record.model_copy(update={"confidence": step.confidence()}) for step in found]
    whole = [*steps, *result.record.steps[len(steps) :]]
    return replace(result, record=result.record.model_copy(update={"steps": whole}))


def with_saturation(result: LoadResult, line_bits_per_second: float | None = None) -> LoadResult:
    """Adds `saturation` to the run's record: the server's resource that saturated first, by step."""
    cores = result.record.probe.cores if result.record.probe else None
    setting = Setting(cores=cores, line_bits_per_second=line_bits_per_second)
    points = [(step.load, step.offered, [step.record]) for step in steps_of(result)]
    found = find(points, setting)
    return result if found is None else replace(result, record=result.record.model_copy(update={"saturation": found}))


def _within(intervals: Sequence[Interval], step: AnyStep) -> list[Interval]:
    """The intervals whose midpoint lies in the step."""
    start, end = step.start_seconds, step.start_seconds + step.duration_seconds
    middles = ((each.start_seconds + each.length_seconds / 2, each) for each in intervals)
    return [each for middle, each in middles if start <= middle <= end]
