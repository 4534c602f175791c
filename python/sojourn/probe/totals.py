"""Usage between the first and the last sample: totals with their rates, levels with their range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from sojourn.engine.results import Counter, Machine, ProbeClocks, Record
from sojourn.probe.recording import Recording

LAST_SAMPLES_MISSING_MAX = 2
"""A process that ends loses its last samples; with more missing samples a total would not cover the span."""


@dataclass(frozen=True)
class Used:
    """One counter over the recording: minimum, mean and maximum of a level, difference and rate of a total."""

    counter: Counter
    total: float | None = None
    per_second: float | None = None
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    unavailable: str | None = None
    """The reason for missing figures."""


def totals(recording: Recording) -> list[Used]:
    """All counters; those without values with the reason."""
    found = [_used(recording, counter) for counter in recording.counters]
    return found + [Used(each, unavailable=recording.unavailable[each.name]) for each in recording.refused]


class CounterUse(Record):
    """One counter's usage under the keys of a result; inapplicable keys are left out."""

    unit: str = ""
    kind: str = ""
    tier: str = ""
    source: str = ""
    meaning: str = ""
    total: float | None = None
    per_second: float | None = None
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    unavailable: str | None = None
    """The reason for missing figures, which are never 0."""

    @classmethod
    def of(cls, used: Used) -> Self:
        """Combines the counter's table row with its available figures."""
        figures = {name: value for name, value in vars(used).items() if name != "counter" and value is not None}
        return cls(**used.counter.model_dump(exclude={"name"}), **figures)


class ProbeSummary(Record):
    """A recording as one object."""

    tool: str
    version: str
    machine: Machine
    clocks: ProbeClocks
    pids: list[int]
    samples: int
    duration_seconds: float
    probe_cpu_fraction: float | None
    counters: dict[str, CounterUse]


def summary(recording: Recording) -> ProbeSummary:
    """All counters over the recording, and the cost of sampling."""
    span = _span(recording)
    return ProbeSummary(
        tool="probe",
        version=recording.version,
        machine=recording.machine,
        clocks=recording.clocks,
        pids=recording.pids,
        samples=len(recording.rows),
        duration_seconds=span,
        probe_cpu_fraction=sum(recording.sampling_seconds) / span if span else None,
        counters={each.counter.name: CounterUse.of(each) for each in totals(recording)},
    )


def _used(recording: Recording, counter: Counter) -> Used:
    values = recording.values(counter.name)
    known = np.flatnonzero(np.isfinite(values))
    if known.size == 0:
        return Used(counter, unavailable=recording.missing.get(counter.name, "no sample was taken"))
    if counter.kind == "level":
        seen = values[known]
        return Used(counter, minimum=float(seen.min()), mean=float(seen.mean()), maximum=float(seen.max()))
    if known.size == 1:
        return Used(counter, unavailable=recording.missing.get(counter.name, "a difference needs two samples"))
    if values.size - 1 - known[-1] > LAST_SAMPLES_MISSING_MAX:
        return Used(counter, unavailable=recording.missing[counter.name])
    first, last = known[0], known[-1]
    total = float(values[last] - values[first])
    elapsed = recording.time_seconds[last] - recording.time_seconds[first]
    return Used(counter, total=total, per_second=total / elapsed)


def _span(recording: Recording) -> float:
    return recording.time_seconds[-1] - recording.time_seconds[0] if recording.time_seconds else 0.0
