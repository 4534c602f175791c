"""Thresholds, which a run passes or fails: `p99<250ms`, `error_rate<=1%`, `rps>=1000/s`, `login p95<300ms`."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

from sojourn.failure import CouldNotRun
from sojourn.loading import metrics
from sojourn.loading.confidence import Estimate
from sojourn.loading.metric import Metric
from sojourn.loading.record import Judged
from sojourn.loading.result import LoadResult

_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_GRAMMAR = re.compile(r"\s*(?P<metric>(?:\S.*[\s])?[A-Za-z_.0-9]+?)\s*(?P<operator><=|>=|<|>)\s*(?P<limit>.*?)\s*")
_EXAMPLE = "write METRIC OPERATOR LIMIT, as in p99<250ms or error_rate<1%; for one request: 'login p95<300ms'"


@dataclass(frozen=True)
class Threshold:
    """A condition: a metric, an operator and a limit."""

    metric: Metric
    operator: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """Parses a threshold.

        Raises:
            CouldNotRun: it does not follow the grammar, or there is no such metric.
        """
        match = _GRAMMAR.fullmatch(text)
        if match is None:
            raise CouldNotRun(f"{text!r} is not a threshold", _EXAMPLE)
        metric = metrics.find(match["metric"])
        return cls(metric, match["operator"], metric.parse(match["limit"]))

    def __str__(self) -> str:
        return f"{self.metric.name} {self.operator} {self.metric.write(self.limit)}"

    def holds(self, value: float) -> bool:
        """Returns true if a value satisfies the condition; a missing value does not."""
        return not math.isnan(value) and bool(_OPERATORS[self.operator](value, self.limit))

    def judge(self, result: LoadResult) -> Verdict:
        """Checks the run against the threshold."""
        found = self.metric.estimate(result)
        return Verdict(self, found, self.holds(found.value))


@dataclass(frozen=True)
class Verdict:
    """A threshold, the measured value, and whether the run passes."""

    threshold: Threshold
    estimate: Estimate
    passed: bool

    @property
    def is_clear(self) -> bool | None:
        """True if the whole confidence interval lies on the value's side of the limit; None without an interval."""
        low, high = self.estimate.low, self.estimate.high
        if low is None or high is None:
            return None
        return self.threshold.holds(low) == self.threshold.holds(high) == self.passed

    def __str__(self) -> str:
        write = self.threshold.metric.write
        found = self.estimate
        said = f"{'pass' if self.passed else 'FAIL'}  {self.threshold}: {write(found.value)}"
        if found.low is not None and found.high is not None:
            said += f" (95 %: {write(found.low)} to {write(found.high)})"
        return said + (", too close to call" if self.is_clear is False else "")

    @property
    def record(self) -> Judged:
        """The record of the run and of `--format json`."""
        found = self.estimate
        return Judged(
            metric=self.threshold.metric.name,
            operator=self.threshold.operator,
            limit=self.threshold.limit,
            value=None if math.isnan(found.value) else found.value,
            low=found.low,
            high=found.high,
            passed=self.passed,
            clear=self.is_clear,
        )
