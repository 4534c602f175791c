"""Two runs, or two groups of repeated runs, beside each other: the ratio of each metric with its confidence interval.

Between groups of repetitions the spread of whole runs decides (Welch's interval on logarithms: B. Welch, Biometrika
34, 1947). A group of a single run has only its own seconds to go by, cut into batches (see `confidence`); what
differs from one run to the next is then not in the interval, and the result says so. Each metric is judged by
itself at 95 %: of twenty metrics without any difference, one shows one by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sojourn.loading import metrics
from sojourn.loading.confidence import LEVEL, Spread, over_runs, sections, student_t
from sojourn.loading.metric import Metric
from sojourn.loading.result import LoadResult
from sojourn.text import format

METRICS = ("rps", "mean", "p50", "p90", "p99", "p99.9", "ttfb.p50", "ttfb.p99", "server.cpu_per_request")
"""What is compared, in the order of the table."""

Finding = Literal["better", "worse", "no difference shown", "not measured"]


@dataclass(frozen=True)
class Group:
    """Repetitions of one run; `environments` are those of the runs that have one."""

    name: str
    runs: Sequence[LoadResult]
    environments: Sequence[Mapping[str, object]] = ()

    @property
    def void_because(self) -> str | None:
        """Why the group's figures are not the server's, if they are not."""
        for run in self.runs:
            if run.limited_because:
                return f"{self.name}: the generator was the limit: {run.limited_because}"
            if not run.complete:
                return f"{self.name}: not complete: {run.record.stopped_because}"
        return None

    def value(self, metric: Metric) -> float:
        """The metric: of one run itself, of several the geometric mean."""
        values = [metric.of_run(run) for run in self.runs]
        if len(values) == 1:
            return values[0]
        known = all(value > 0 for value in values)
        return float(np.exp(np.mean(np.log(values)))) if known else math.nan

    def spread(self, metric: Metric) -> Spread | None:
        """The metric's spread over the group's runs, or over sections of its only run."""
        if len(self.runs) > 1:
            return over_runs([metric.of_run(run) for run in self.runs])
        run = self.runs[0]
        if metric.of_intervals is None or len(run.record.steps) > 1:
            return None
        return sections(run.intervals, metric.of_intervals)


@dataclass(frozen=True)
class Difference:
    """One metric of the second group over the first."""

    metric: Metric
    first: float
    second: float
    ratio: float
    low: float | None
    """The bounds of the ratio's 95 % confidence interval; None where there is too little to tell."""
    high: float | None

    @property
    def finding(self) -> Finding:
        """The interval's verdict: better or worse only where it excludes a ratio of 1."""
        if self.low is None or self.high is None:
            return "not measured"
        if self.low <= 1 <= self.high:
            return "no difference shown"
        return "better" if (self.high < 1) == (self.metric.better == "lower") else "worse"

    @property
    def worse_by(self) -> float:
        """By what share the second is worse at the least, as the interval shows; 0 where it shows nothing."""
        if self.finding != "worse" or self.low is None or self.high is None:
            return 0.0
        return self.low - 1 if self.low > 1 else 1 - self.high

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return "not known: too short, or not observed"
        if self.finding == "no difference shown":
            return f"no difference shown ({_signed(self.low)} to {_signed(self.high)})"
        least, most = sorted((abs(self.low - 1), abs(self.high - 1)))
        more = "more" if self.low > 1 else "less"
        return f"{self.finding}: {format.number(least * 100, 2)} to {format.number(most * 100, 2)} % {more}"

    def as_json(self) -> dict[str, object]:
        """The record as `--format json` prints it."""
        numbers = {"first": self.first, "second": self.second, "ratio": self.ratio}
        known = {key: None if math.isnan(value) else value for key, value in numbers.items()}
        bounds = {"ratio_low": self.low, "ratio_high": self.high}
        return {"metric": self.metric.name, **known, **bounds, "finding": self.finding}


@dataclass(frozen=True)
class Comparison:
    """Two groups, metric by metric."""

    first: Group
    second: Group
    differences: Sequence[Difference]
    void_because: Sequence[str]
    """Why there is no verdict, if there is none."""
    warnings: Sequence[str]

    def as_json(self) -> dict[str, object]:
        """The record as `--format json` prints it."""
        return {
            "first": self.first.name,
            "second": self.second.name,
            "runs": [len(self.first.runs), len(self.second.runs)],
            "confidence_level": LEVEL,
            "void_because": [*self.void_because],
            "warnings": [*self.warnings],
            "differences": [each.as_json() for each in self.differences],
        }


def compare(first: Group, second: Group) -> Comparison:
    """Compares the second group with the first."""
    differences = [difference(metrics.find(name), first, second) for name in METRICS]
    found = [each for each in differences if not (math.isnan(each.first) and math.isnan(each.second))]
    void = [because for because in (first.void_because, second.void_because) if because]
    return Comparison(first, second, found, void, [*_warnings(first, second)])


def difference(metric: Metric, first: Group, second: Group) -> Difference:
    """One metric: the ratio, with Welch's interval on logarithms."""
    values = first.value(metric), second.value(metric)
    ratio = values[1] / values[0] if values[0] > 0 else math.nan
    spreads = first.spread(metric), second.spread(metric)
    if spreads[0] is None or spreads[1] is None or not ratio > 0:
        return Difference(metric, *values, ratio, None, None)
    half = welch_half_width(spreads[0], spreads[1])
    return Difference(metric, *values, ratio, ratio * math.exp(-half), ratio * math.exp(half))


def welch_half_width(first: Spread, second: Spread) -> float:
    """Half the width of the interval of a difference, with the degrees of freedom of Welch and Satterthwaite."""
    variance = first.variance + second.variance
    if variance == 0:
        return 0.0
    freedom = variance**2 / (first.variance**2 / first.freedom + second.variance**2 / second.freedom)
    return student_t(LEVEL, freedom) * math.sqrt(variance)


_PLAN = ("connection", "tool", "version")
_NOT_PLAN = ("--output", "--histograms", "--timeline", "--intervals")


def _warnings(first: Group, second: Group) -> list[str]:
    said = []
    if min(len(first.runs), len(second.runs)) == 1:
        said.append(
            "a single run cannot show how runs differ from one another: its interval is that within the run;"
            " repeat each three times or more"
        )
    for what, values in (
        ("plan", (_plans(first), _plans(second))),
        ("environment", (_machines(first), _machines(second))),
    ):
        for key in sorted(values[0].keys() | values[1].keys()):
            one, other = (values[side].get(key, "not said") for side in (0, 1))
            if one != other:
                said.append(f"the {what}s differ in {key}: {one} and {other}")
    return said


def _plans(group: Group) -> dict[str, str]:
    """What was asked for; several answers within a group are listed."""
    found: dict[str, set[str]] = {}
    for run in group.runs:
        for key in _PLAN:
            found.setdefault(key, set()).add(str(getattr(run.record, key)))
        for step in run.record.steps:
            for key in ("clients", "offered_requests_per_second"):
                found.setdefault(key, set()).add(str(getattr(step, key, None)))
    return {key: ", ".join(sorted(values)) for key, values in found.items()}


def _machines(group: Group) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for environment in group.environments:
        for key, value in environment.items():
            found.setdefault(key, set()).add(str(value))
    return {key: ", ".join(sorted(values)) for key, values in found.items()}


def _signed(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")
