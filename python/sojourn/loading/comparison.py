"""Compares two runs, or two groups of repeated runs: the ratio of each metric with its confidence interval.

Runs of one server vary for two reasons: variation within a run, whose seconds are correlated (batches, see
`confidence`), and variation from run to run: different work, memory layout, temperature. Only repetitions show the
second, and it is the larger. The interval is Welch's on logarithms (B. Welch, Biometrika 34, 1947), with a group's
variance depending on how the runs were measured:

- alternately, first and second in turn: the variance between runs over their number. What changes on the machine in
  the meantime meets both groups.
- in sequence: the variance between runs, *not* over their number, as neighbouring runs resemble each other and what
  changed between the groups is in none of them.
- one run of one group: the variance between the runs of the other, with their degrees of freedom.
- one run of each: nothing is known of how runs differ. Batches stand for runs, times `CAUTION`, and no ratio within
  `SINGLE_RATIO` counts, or within `SINGLE_RATIO_SATURATED` if the clients took all that server and machine gave: what
  lies beyond is a difference, of all else the comparison "cannot say".

Each metric's interval stands by itself at 95 %. Regressions, which decide the exit code, are judged together by
Hommel's procedure (G. Hommel, Biometrika 75, 1988): in at most 5 % of the comparisons of identical servers is *any*
metric said to regress. That holds for metrics that are worse together (S. Sarkar, Annals of Statistics 26, 1998), as
those of a slower server are. docs/load-results.md has what pairs of identical servers gave.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sojourn.failure import CouldNotRun
from sojourn.loading import folder, metrics
from sojourn.loading.confidence import LEVEL, Spread, chance_above, over_runs, sections, student_t
from sojourn.loading.metric import Metric
from sojourn.loading.result import LoadResult
from sojourn.text import format

CAUTION = 1.5
"""The factor that widens the interval of single runs: runs some minutes apart differ more than batches do."""
SINGLE_RATIO = 1.25
"""Single runs of one server are known to differ by up to this factor."""
SINGLE_RATIO_SATURATED = 4.0
"""The same where clients hardly ever think: other work on the machine then changes the rate severalfold."""
SATURATED_IN_FLIGHT = 0.9
"""The share of its clients that a saturated closed loop has waiting for responses."""
REPETITIONS_MAX = 200
"""The most repetitions to propose."""

METRICS = ("rps", "mean", "p50", "p90", "p99", "p99.9", "ttfb.p50", "ttfb.p99", "server.cpu_per_request")
"""The compared metrics, in the order of the table."""

Finding = Literal["better", "worse", "no difference shown", "cannot say", "not measured"]
Regression = Literal["shown", "excluded", "open"]
Measured = Literal["alternately", "in sequence", "one against several", "single runs"]


@dataclass(frozen=True)
class Group:
    """Repetitions of one run, with the environments of the runs that have one."""

    name: str
    runs: Sequence[LoadResult]
    environments: Sequence[Mapping[str, object]] = ()

    @property
    def void_because(self) -> str | None:
        """The reason why the group's figures do not describe the server; None if they do."""
        for run in self.runs:
            if run.limited_because:
                return f"{self.name}: the generator was the limit: {run.limited_because}"
            if not run.complete:
                return f"{self.name}: not complete: {run.record.stopped_because}"
            if run.is_streams:
                continue
            if run.of_requests.failed_because:
                return f"{self.name}: {run.of_requests.failed_because}"
            if run.requests == 0:
                return f"{self.name}: no request got a good response"
        return None

    def value(self, metric: Metric) -> float:
        """The metric's value; for several runs their geometric mean."""
        values = [metric.of_run(run) for run in self.runs]
        if len(values) == 1:
            return values[0]
        known = all(value > 0 for value in values)
        return float(np.exp(np.mean(np.log(values)))) if known else math.nan

    def interval(self, metric: Metric) -> tuple[float, float] | None:
        """The 95 % interval of the group's figure, from the spread of its runs."""
        spread = over_runs([metric.of_run(run) for run in self.runs])
        if spread is None:
            return None
        half = student_t(LEVEL, spread.freedom) * math.sqrt(spread.variance)
        return math.exp(spread.centre - half), math.exp(spread.centre + half)

    def within(self, metric: Metric) -> Spread | None:
        """How the metric varies within runs: over batches of the only run, or of the run that varies most."""
        if metric.of_intervals is None or any(len(run.record.steps) > 1 for run in self.runs):
            return None
        found = [sections(run.intervals, metric.of_intervals) for run in self.runs]
        known = [each for each in found if each is not None]
        return max(known, key=lambda each: each.variance, default=None)

    def between(self, metric: Metric) -> Spread | None:
        """How one run's metric varies from run to run; None for a single run."""
        spread = over_runs([metric.of_run(run) for run in self.runs])
        if spread is None:
            return None
        return Spread(spread.centre, spread.variance * len(self.runs), spread.freedom)


@dataclass(frozen=True)
class Difference:
    """The ratio of one metric, second group over first."""

    metric: Metric
    first: float
    second: float
    ratio: float
    spread: Spread | None = None
    """How the ratio's logarithm varies; None where the data are insufficient."""
    least: float = 0.0
    """The least half-width of its interval: what single runs are known to differ by."""
    run_deviation: float | None = None
    """The standard deviation of one run's logarithm, if repetitions show it."""

    @property
    def low(self) -> float | None:
        """The lower bound of the ratio's 95 % confidence interval; None where the data are insufficient."""
        return None if self.spread is None else self.ratio * math.exp(-self._half_width(self.spread))

    @property
    def high(self) -> float | None:
        """The upper bound of the ratio's 95 % confidence interval; None where the data are insufficient."""
        return None if self.spread is None else self.ratio * math.exp(self._half_width(self.spread))

    def _half_width(self, spread: Spread) -> float:
        return max(self.least, student_t(LEVEL, spread.freedom) * math.sqrt(spread.variance))

    @property
    def finding(self) -> Finding:
        """The verdict: better or worse only if the interval excludes a ratio of 1."""
        if self.low is None or self.high is None:
            return "not measured"
        if self.low <= 1 <= self.high:
            return "cannot say" if self.run_deviation is None else "no difference shown"
        return "better" if (self.high < 1) == (self.metric.better == "lower") else "worse"

    def chance(self, limit: float) -> float:
        """The probability of a ratio this bad or worse if the second were worse by exactly the limit."""
        if self.spread is None:
            return 1.0
        lower_is_better = self.metric.better == "lower"
        worse = math.log(self.ratio) if lower_is_better else -math.log(self.ratio)
        beyond = worse - (math.log1p(limit) if lower_is_better else -math.log1p(-min(limit, 1 - 1e-9)))
        if beyond <= self.least:
            return 1.0
        return chance_above(beyond, self.spread)

    def excludes(self, limit: float) -> bool:
        """Returns true if, by the interval, the second is not worse by more than the limit."""
        if self.low is None or self.high is None:
            return False
        return (self.high - 1 if self.metric.better == "lower" else 1 - self.low) <= limit

    def repetitions_for(self, share: float, judged: int = 1) -> int | None:
        """The alternating runs of each side needed to detect a difference of this share; None where unknown.

        They suffice even if this is the only one that differs of the metrics that are `judged` together.
        """
        if self.run_deviation is None or share <= 0:
            return None
        level = 1 - (1 - LEVEL) / judged
        for runs in range(2, REPETITIONS_MAX + 1):
            if student_t(level, 2 * runs - 2) * self.run_deviation * math.sqrt(2 / runs) <= math.log1p(share):
                return runs
        return None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return "not known: too short, or not observed"
        if self.finding in ("no difference shown", "cannot say"):
            return f"{self.finding} ({_signed(self.low)} to {_signed(self.high)})"
        least, most = sorted((abs(self.low - 1), abs(self.high - 1)))
        more = "more" if self.low > 1 else "less"
        return f"{self.finding}: {format.number(least * 100, 2)} to {format.number(most * 100, 2)} % {more}"

    def as_json(self) -> dict[str, object]:
        """The JSON object of `--format json`."""
        numbers = {"first": self.first, "second": self.second, "ratio": self.ratio}
        known = {key: None if math.isnan(value) else value for key, value in numbers.items()}
        bounds = {"ratio_low": self.low, "ratio_high": self.high, "run_deviation": self.run_deviation}
        return {"metric": self.metric.name, **known, **bounds, "finding": self.finding}


@dataclass(frozen=True)
class Comparison:
    """Two groups, metric by metric."""

    first: Group
    second: Group
    measured: Measured
    differences: Sequence[Difference]
    void_because: Sequence[str]
    """The reason why there is no verdict; None if there is one."""
    warnings: Sequence[str]

    def repetitions_for(self, each: Difference, limit: float) -> int | None:
        """The alternating runs of each side that show this regression; None where unknown."""
        return each.repetitions_for(limit, sum(other.spread is not None for other in self.differences))

    def as_json(self, limit: float | None = None) -> dict[str, object]:
        """The JSON object of `--format json`; with `limit`, including regressions beyond it."""
        differences = [each.as_json() for each in self.differences]
        if limit is not None:
            for each, row, found in zip(
                self.differences, differences, regressions(self.differences, limit), strict=True
            ):
                row |= {"regression": found, "repetitions_needed": self.repetitions_for(each, limit)}
        return {
            "first": self.first.name,
            "second": self.second.name,
            "runs": [len(self.first.runs), len(self.second.runs)],
            "measured": self.measured,
            "confidence_level": LEVEL,
            "max_regression": limit,
            "void_because": [*self.void_because],
            "warnings": [*self.warnings],
            "differences": differences,
        }


def read_group(places: Sequence[Path], name: str) -> Group:
    """Reads the runs of folders or JSON results; a folder of repetitions means all of its runs.

    Raises:
        CouldNotRun: there is no run, or one cannot be read.
    """
    paths = [run for place in places for run in folder.repetitions(place)]
    if not paths:
        raise CouldNotRun("there is no run to compare", "give two runs, as in sojourn compare runs/a runs/b")
    environments = [folder.environment(path) for path in paths if path.is_dir()]
    return Group(name, [folder.read(path) for path in paths], [each for each in environments if each])


def compare(first: Group, second: Group) -> Comparison:
    """Compares the second group with the first."""
    measured = how_measured(first, second)
    differences = [difference(metrics.find(name), first, second) for name in METRICS]
    found = [each for each in differences if not (math.isnan(each.first) and math.isnan(each.second))]
    void = [because for because in (first.void_because, second.void_because) if because]
    return Comparison(first, second, measured, found, void, [*_warnings(first, second, measured)])


def regressions(differences: Sequence[Difference], limit: float) -> list[Regression]:
    """For each difference, whether the second is worse by more than the limit, all judged together (Hommel)."""
    level = 1 - LEVEL
    chances = [each.chance(limit) for each in differences if each.spread is not None]
    # None is shown that its own two-sided interval leaves open.
    threshold = min(level / 2, level / max(1, _largest_unshown(chances, level)))

    def of(each: Difference) -> Regression:
        if each.chance(limit) <= threshold:
            return "shown"
        return "excluded" if each.excludes(limit) else "open"

    return [of(each) for each in differences]


def _largest_unshown(chances: Sequence[float], level: float) -> int:
    """The size of the largest set of metrics in which Simes's test (Biometrika 73, 1986) shows no regression."""
    ordered = sorted(chances)
    for size in range(len(ordered), 0, -1):
        weakest = ordered[-size:]
        if all(chance > rank * level / size for rank, chance in enumerate(weakest, 1)):
            return size
    return 0


def how_measured(first: Group, second: Group) -> Measured:
    """The order in which the runs of the two groups were measured."""
    counts = len(first.runs), len(second.runs)
    if max(counts) == 1:
        return "single runs"
    if min(counts) == 1:
        return "one against several"
    order = sorted((run.started_at, side) for side, group in enumerate((first, second)) for run in group.runs)
    pairs = zip(order[::2], order[1::2], strict=True) if counts[0] == counts[1] else ()
    in_turn = [one[1] != other[1] and one[0] < other[0] for one, other in pairs]
    return "alternately" if in_turn and all(in_turn) else "in sequence"


def difference(metric: Metric, first: Group, second: Group) -> Difference:
    """One metric: the ratio, with Welch's interval on logarithms."""
    values = first.value(metric), second.value(metric)
    ratio = values[1] / values[0] if values[0] > 0 else math.nan
    measured = how_measured(first, second)
    spreads = _of_one_run(metric, first, second)
    if spreads is None or not ratio > 0:
        return Difference(metric, *values, ratio)
    averaged = len(first.runs) if measured == "alternately" else 1
    if measured == "one against several":
        # Both spreads come from the same repeated runs: one estimate does not get twice the degrees of freedom.
        spread = Spread(math.log(ratio), spreads[0].variance + spreads[1].variance, spreads[0].freedom)
    else:
        spread = _welch(*(Spread(each.centre, each.variance / averaged, each.freedom) for each in spreads))
    if measured == "single runs":
        cautious = Spread(spread.centre, CAUTION**2 * spread.variance, spread.freedom)
        return Difference(metric, *values, ratio, cautious, math.log(_single_ratio(first, second)))
    deviation = math.sqrt((spreads[0].variance + spreads[1].variance) / 2)
    return Difference(metric, *values, ratio, spread, run_deviation=deviation)


def _single_ratio(first: Group, second: Group) -> float:
    """The ratio within which single runs cannot say anything."""
    saturated = any(_is_saturated(run) for group in (first, second) for run in group.runs)
    return SINGLE_RATIO_SATURATED if saturated else SINGLE_RATIO


def _is_saturated(run: LoadResult) -> bool:
    def waits(step: object) -> bool:
        clients, in_flight = getattr(step, "clients", None), getattr(step, "in_flight_mean", None)
        return bool(clients and in_flight and in_flight >= SATURATED_IN_FLIGHT * clients)

    return any(waits(step) for step in run.record.steps)


def _of_one_run(metric: Metric, first: Group, second: Group) -> tuple[Spread, Spread] | None:
    """How one run's figure varies, in each group; a single run takes the variance of the other group's runs."""
    within = first.within(metric), second.within(metric)
    between = first.between(metric), second.between(metric)
    found = []
    for own, repeated, other in zip(within, between, reversed(between), strict=True):
        known = repeated or other
        if known is None and own is None:
            return None
        if known is None:
            assert own is not None
            # Treats the run as if it were one of its batches.
            found.append(Spread(own.centre, own.variance * (own.freedom + 1), own.freedom))
        else:
            # A few runs may agree by chance; their variance is at least the one within each.
            least = own.variance if own is not None else 0.0
            found.append(Spread(known.centre, max(known.variance, least), known.freedom))
    return found[0], found[1]


def _welch(first: Spread, second: Spread) -> Spread:
    """How the second's logarithm less the first's varies, with the degrees of freedom of Welch and Satterthwaite."""
    variance = first.variance + second.variance
    if variance == 0:
        return Spread(second.centre - first.centre, 0.0, first.freedom + second.freedom)
    freedom = variance**2 / (first.variance**2 / first.freedom + second.variance**2 / second.freedom)
    return Spread(second.centre - first.centre, variance, freedom)


_PLAN = ("connection", "tool", "version")
_NOT_PLAN = ("--output", "--histograms", "--timeline", "--intervals")


_SAID: dict[Measured, str] = {
    "alternately": "",
    "in sequence": (
        "the runs of each were measured in sequence: a change of the machine in between shows in neither, so only a"
        " difference larger than that of single runs counts; sojourn load --against measures alternately and sees less"
    ),
    "one against several": (
        "a single run is judged by the spread of the other's runs: repeat both with sojourn load --repeat 5"
    ),
    "single runs": (
        "single runs do not show how runs spread: only a difference far beyond the batches within a run, and above"
        " {ratio}, counts; repeat: sojourn load URL --against OTHER --repeat 5"
    ),
}


def _warnings(first: Group, second: Group, measured: Measured) -> list[str]:
    ratio = _single_ratio(first, second)
    shown = f"{ratio:g} times" if ratio >= 2 else format.percent(ratio - 1)
    said = [_SAID[measured].format(ratio=shown)] if _SAID[measured] else []
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
    """The engine options of the group's runs; different values are listed."""
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
