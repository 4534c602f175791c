"""The steps of a run, each with the confidence intervals of its own figures.

A step is judged as a whole run is: its intervals are cut into batches (see `confidence`). A step with fewer than
`BATCHES_MIN` intervals, or whose rate moves while it is measured, has figures without intervals, and says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn import _native
from sojourn.loading import metrics
from sojourn.loading.confidence import BATCHES_MIN, LEVEL, Estimate
from sojourn.loading.metric import Metric
from sojourn.loading.result import Interval, LoadResult
from sojourn.loading.saturation import Setting, find
from sojourn.text import format

METRICS = ("rps", "mean", "p50", "p90", "p99", "ttfb.p50", "ttfb.p99")
"""What every step's confidence is given for."""


@dataclass(frozen=True)
class StepResult:
    """One step: the engine's record of it, its latencies and its intervals."""

    number: int
    """Counted from one."""
    record: Mapping[str, Any]
    latencies: Mapping[str, _native.Histogram]
    intervals: Sequence[Interval]

    @property
    def offered(self) -> str:
        """What was offered, as people say it."""
        if self.record.get("clients") is not None:
            return f"{self.record['clients']:,} clients"
        rate = self.record.get("offered_requests_per_second")
        said = "as logged" if rate is None else f"{format.number(rate, 4)}/s"
        return f"{said}, mean of a ramp" if self.record.get("ramp") else said

    @property
    def load(self) -> float:
        """What was offered, as a number by which steps of a run can be put in order."""
        offered = self.record.get("clients") or self.record.get("offered_requests_per_second")
        return float(offered or self.number)

    def estimate(self, metric: Metric) -> Estimate:
        """The metric with its interval; NaN where the step does not hold it."""
        return metric.estimate_of(self.as_run(), None if self.no_interval_because else self.intervals)

    @property
    def no_interval_because(self) -> str | None:
        """Why no figure of the step has an interval, if none can have one."""
        if self.record.get("ramp"):
            return "the load changed within the step"
        if len(self.intervals) < BATCHES_MIN:
            return f"{len(self.intervals)} intervals, and fewer than {BATCHES_MIN} batches say nothing"
        return None

    def as_run(self) -> LoadResult:
        """The step as if it had been the whole run."""
        rows = [(tag, 0.0, float(self.record["duration_seconds"]), each) for tag, each in self.latencies.items()]
        record = {**self.record, "complete": True, "steps": [self.record]}
        return LoadResult(record, {}, _native.write_interval_log(0.0, rows), "")

    def confidence(self) -> dict[str, Any]:
        """For the JSON object: each metric's value and bounds, or why it has none."""
        because = self.no_interval_because
        found: dict[str, Any] = {"level": LEVEL}
        for name in METRICS:
            estimate = self.estimate(metrics.find(name))
            if math.isnan(estimate.value):
                found[name] = {"unavailable": "nothing was answered"}
            elif estimate.low is None:
                why = because or "its batches hang together: the step is too short"
                found[name] = {"value": estimate.value, "unavailable": why}
            else:
                bounds = {"low": estimate.low, "high": estimate.high, "batches": estimate.batches}
                found[name] = {"value": estimate.value, **bounds}
        return found


def steps_of(result: LoadResult) -> list[StepResult]:
    """The steps of a run in order."""
    records = result.record.get("steps", ())
    return [
        StepResult(number, record, latencies, _within(result.intervals, record))
        for number, (record, latencies) in enumerate(zip(records, result.step_latencies, strict=False), 1)
    ]


def with_confidence(result: LoadResult) -> LoadResult:
    """The run with `confidence` in the record of every step."""
    found = steps_of(result)
    if not found:
        return result
    steps = [{**step.record, "confidence": step.confidence()} for step in found]
    record = {**result.record, "steps": [*steps, *result.record["steps"][len(steps) :]]}
    return replace(result, record=record)


def with_saturation(result: LoadResult, line_bits_per_second: float | None = None) -> LoadResult:
    """The run with `saturation` in its record: which resource of the server was full first, step by step."""
    probe = result.record.get("probe") or {}
    setting = Setting(cores=probe.get("cores"), line_bits_per_second=line_bits_per_second)
    points = [(step.load, step.offered, [step.record]) for step in steps_of(result)]
    found = find(points, setting)
    return result if found is None else replace(result, record={**result.record, "saturation": found.as_json()})


def _within(intervals: Sequence[Interval], step: Mapping[str, Any]) -> list[Interval]:
    """The intervals whose middle lies in the step."""
    start = float(step["start_seconds"])
    end = start + float(step["duration_seconds"])
    middles = ((each.start_seconds + each.length_seconds / 2, each) for each in intervals)
    return [each for middle, each in middles if start <= middle <= end]
