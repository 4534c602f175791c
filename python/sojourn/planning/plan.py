"""Answers all planning questions for a system: levers, doublings, sweeps, the cheapest mix, growth.

Each search, each mix and each point of a sweep is a task with an evaluator of its own, so the answers are the same
whether they are found one after the other or side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sojourn.cluster.kept import returned
from sojourn.cluster.tasks import InProcess, Tasks, in_order
from sojourn.failure import CouldNotRun
from sojourn.planning.answers import Doubling, LargestTraffic, LeverAnswer, Now, Plan, Sweep, SweepPoint
from sojourn.planning.counts import valid_counts
from sojourn.planning.evaluation import Evaluator
from sojourn.planning.growth import grow
from sojourn.planning.mix import Priced, cheapest_mix, mixes_of
from sojourn.planning.parameters import Parameter, levers, parameter, values_between
from sojourn.planning.search import Found, largest_traffic, largest_traffic_unconfirmed, smallest
from sojourn.planning.system_document import SystemDocument, quantity
from sojourn.planning.target import Target
from sojourn.planning.validation import never_validated
from sojourn.queueing import predict

SWEEP_POINTS = 13
INFINITELY_FAST = 1e6
"""A speed at which the time in limited stations vanishes beside the delays."""

SEARCH_WORK = 30
"""About how many evaluations a search and its confirmations take; only the time left depends on it."""
DOUBLING_WORK = 17
"""The same of a doubling: one evaluation, and the largest traffic unconfirmed."""

Progress = Callable[[float, str], object]
"""Called with the share of the work that is done, and a description of what comes next."""


@dataclass(frozen=True)
class SweepRange:
    """A parameter with the range of its sweep."""

    parameter: Parameter
    low: float
    high: float
    count: int = SWEEP_POINTS


@dataclass(frozen=True)
class Questions:
    """The optional questions; levers and doublings are always answered."""

    sweeps: Sequence[SweepRange] = ()
    """Parameters to sweep; by default the traffic, and every lever around its answer."""
    priced: Sequence[Priced] = ()
    growth_per_year: float | None = None
    start: date | None = None
    settings: Sequence[str] = ()
    """The settings applied before the target's load, for the record."""


def parse_sweep(text: str, document: SystemDocument) -> SweepRange:
    """Parses a sweep such as `station.line.rate=1Mbit/s..8Mbit/s` or `class.members.routes.hit.probability=0..1`.

    Raises:
        CouldNotRun: if it is malformed, or its unit is not the parameter's.
    """
    path, _, ends = text.partition("=")
    low_text, dots, high_text = ends.partition("..")
    if not dots:
        raise CouldNotRun(f"{text!r} is not a sweep", "write it as in station.line.rate=1Mbit/s..8Mbit/s")
    swept = parameter(document, path.strip())
    (low, low_unit), (high, high_unit) = quantity(low_text), quantity(high_text)
    if {low_unit, high_unit} != {swept.unit}:
        unit = swept.unit or "no unit"
        raise CouldNotRun(f"{text!r}: {path} is in {unit}", f"write both ends in it, as in {swept.text(swept.present)}")
    if not low < high or low < 0:
        raise CouldNotRun(f"{text!r}: a sweep goes from a smaller to a larger value", "swap the ends")
    document.set(swept.setting(low), swept.setting(high))
    return SweepRange(swept, low, high)


@dataclass(frozen=True)
class _Job:
    """A question of its own: `function` gets an evaluator, then the arguments."""

    label: str
    function: Callable[..., Any]
    arguments: tuple[object, ...]
    work: float = 1.0
    """About how many evaluations it takes."""


class _Work:
    """How much of a plan is done, in evaluations: what is known to come is planned before it begins."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done, self._planned, self._label = 0.0, 0.0, ""

    def plan(self, work: float) -> None:
        self._planned += work

    def say(self, label: str) -> None:
        self._label = label
        self._tell()

    def did(self, work: float) -> None:
        self._done += work
        self._tell()

    def _tell(self) -> None:
        self._progress(self._done / self._planned if self._planned else 0.0, self._label)


def plan(
    document: SystemDocument,
    target: Target,
    evaluator: Evaluator,
    questions: Questions,
    progress: Progress = lambda share, what: None,
    tasks: Tasks | None = None,
) -> Plan:
    """Answers all questions, in this process unless `tasks` says where; `document` already has the target's load."""
    limit = target.limit_seconds
    tasks = tasks or InProcess()
    work = _Work(progress)

    def answered(jobs: Sequence[_Job]) -> list[Any]:
        def giving() -> Iterator[tuple[object, ...]]:
            for job in jobs:
                work.say(job.label)
                yield job, evaluator

        values = in_order(tasks.each(_answer, giving()), lambda done: work.did(jobs[done - 1].work))
        evaluator.simulations += sum(simulations for _, simulations in values)
        return [value for value, _ in values]

    prediction = predict(document.system, percentiles=False)
    everything = list(levers(document))
    doubled, not_doubled = _doubled(document, everything)
    work.plan(2 + SEARCH_WORK * (1 + len(everything)) + DOUBLING_WORK * len(doubled))
    work.plan(SWEEP_POINTS * (len(questions.sweeps) or 1 + len(everything)))
    mixes = mixes_of(evaluator, document, questions.priced) if questions.priced else None
    work.plan(0 if mixes is None else len(mixes))
    (now, now_seconds), (floor, because), traffic, *rest = answered(
        [
            _Job("now", _now, (document, limit)),
            _Job("floor", _floor, (document,)),
            _Job("largest traffic", largest_traffic, (document, limit), SEARCH_WORK),
            *(_Job(lever.label, smallest, (document, lever, limit), SEARCH_WORK) for lever in everything),
        ]
    )
    found: list[tuple[Parameter, Found]] = list(zip(everything, rest, strict=True))
    answers = [_lever(lever, each) for lever, each in found]
    doubling: list[Doubling] = answered(
        [
            _Job(f"doubling {lever.label}", _doubling, (document, lever, now_seconds, limit), DOUBLING_WORK)
            for lever in doubled
        ]
    )
    mix = None
    if mixes is not None:
        work.say("cheapest mix")
        mix = cheapest_mix(evaluator, document, questions.priced, mixes, limit, tasks, work.did)
    ranges = list(questions.sweeps) or list(_default_sweeps(document, found, traffic))
    points = [
        (swept, value)
        for swept in ranges
        for value in values_between(swept.low, swept.high, swept.count, swept.parameter.kind)
    ]
    evaluated: list[SweepPoint] = answered(
        [
            _Job(f"sweep of {swept.parameter.label}", _sweep_point, (document, swept.parameter, value))
            for swept, value in points
        ]
    )
    sweeps = [
        _sweep(swept, [point for (each, _), point in zip(points, evaluated, strict=True) if each is swept])
        for swept in ranges
    ]
    growth = None
    if questions.growth_per_year is not None:
        start = questions.start or date.today()
        growth = grow(document, questions.growth_per_year, start, traffic.value)
    largest = _largest(traffic)
    bottleneck, bounds = prediction["bottleneck"], prediction["bounds"]
    return Plan(
        system=document.system.name,
        target=target.text,
        metric=str(target.metric),
        limit_seconds=limit,
        loss_max=target.loss_max,
        load=target.load,
        settings=list(questions.settings),
        seed=evaluator.seed,
        simulations=evaluator.simulations,
        floor_seconds=floor,
        floor_because=because,
        reachable=floor <= limit,
        now=now,
        bottleneck=bottleneck["station"],
        next_bottleneck=bottleneck["next"],
        saturation_throughput_per_second=bottleneck["saturation_throughput_per_second"],
        saturation_users=bounds["saturation_users"] if bounds else None,
        levers=answers,
        largest_traffic=largest,
        doubling=doubling,
        not_doubled=not_doubled,
        sweeps=sweeps,
        mix=mix,
        growth=growth,
        never_validated=never_validated(document, questions.settings, target.metric, now, largest, answers),
    )


def _returned(job: _Job, evaluator: Evaluator) -> Any:
    """The type of the answer to a job."""
    return tuple[returned(job.function), int]  # type: ignore[misc]


def _answer(job: _Job, evaluator: Evaluator) -> tuple[Any, int]:
    """The answer to a job, and the number of simulations that it took."""
    own = evaluator.fresh()
    return job.function(own, *job.arguments), own.simulations


RETURNS = {_answer: _returned}
"""The types that this module's tasks return, for `kept`."""


def _now(evaluator: Evaluator, document: SystemDocument, limit: float) -> tuple[Now, float]:
    """The system as it is, and its metric as a search judges it."""
    evaluated, confirmed = evaluator.evaluate(document), evaluator.confirm(document)
    now = Now(
        seconds=evaluated.accepted_seconds,
        met=confirmed.seconds <= limit,
        by=evaluated.by,
        confirmed_seconds=confirmed.accepted_seconds,
        half_width_seconds=confirmed.half_width_seconds,
        confirmed_by=confirmed.by,
        throughput_per_second=confirmed.throughput_per_second,
        loss_probability=confirmed.loss_probability,
        unstable_station=confirmed.unstable_station,
    )
    return now, evaluated.seconds


def _floor(evaluator: Evaluator, document: SystemDocument) -> tuple[float, str]:
    """The part of the metric that no resource reduces: delays and latencies."""
    delays = [each.name for each in document.system.stations if each.is_delay]
    if any(each.latency_seconds > 0 for each in document.system.classes):
        delays.append("the classes' latency")
    if not delays:
        return 0.0, "nothing"
    seconds = evaluator.confirm(document.set(f"speed={INFINITELY_FAST}")).seconds
    return seconds, " and ".join(delays)


def _lever(lever: Parameter, found: Found) -> LeverAnswer:
    return LeverAnswer(
        parameter=lever.path,
        label=lever.label,
        present=lever.present,
        needed=found.value,
        unit=lever.unit,
        present_text=lever.text(lever.present),
        needed_text=None if found.value is None else lever.text(found.value),
        setting=None if found.value is None else lever.setting(found.value),
        searched_by=found.searched_by,
        confirmed_seconds=found.confirmed.seconds,
        half_width_seconds=found.confirmed.half_width_seconds,
        confirmed_by=found.confirmed.by,
        best_text=lever.text(found.best_at),
    )


def _largest(found: Found) -> LargestTraffic:
    return LargestTraffic(
        factor=found.value,
        throughput_per_second=found.confirmed.throughput_per_second,
        confirmed_seconds=found.confirmed.seconds,
        half_width_seconds=found.confirmed.half_width_seconds,
        confirmed_by=found.confirmed.by,
        loss_probability=found.confirmed.loss_probability,
        searched_by=found.searched_by,
    )


def _doubled(document: SystemDocument, everything: Sequence[Parameter]) -> tuple[list[Parameter], list[str]]:
    """The levers that can be twice as large with all others unchanged, and why others cannot."""
    doubled, refused = list[Parameter](), list[str]()
    for lever in everything:
        valid = valid_counts(document, lever) if lever.kind == "count" else None
        if valid is not None and 2 * lever.present not in valid:
            refused.append(f"{lever.label}: twice as many would be more than {valid.most_because}")
        elif lever.kind != "fraction":
            doubled.append(lever)
    return doubled, refused


def _doubling(evaluator: Evaluator, document: SystemDocument, lever: Parameter, now: float, limit: float) -> Doubling:
    doubled = document.set(lever.setting(2 * lever.present))
    evaluated = evaluator.evaluate(doubled)
    bottleneck = predict(doubled.system, percentiles=False)["bottleneck"]
    return Doubling(
        parameter=lever.path,
        label=lever.label,
        seconds=evaluated.seconds,
        change_fraction=evaluated.seconds / now - 1 if 0 < now < math.inf else math.nan,
        by=evaluated.by,
        largest_traffic_factor=largest_traffic_unconfirmed(evaluator, doubled, limit),
        saturation_throughput_per_second=bottleneck["saturation_throughput_per_second"],
        bottleneck=bottleneck["station"],
    )


def _default_sweeps(
    document: SystemDocument, found: Sequence[tuple[Parameter, Found]], traffic: Found
) -> Iterator[SweepRange]:
    """Default sweeps: traffic beyond the target, and each lever around its present and needed values.

    A lever that has a single valid value has no sweep.
    """
    yield SweepRange(parameter(document, "traffic"), 0.1, 1.5 * max(1.0, min(traffic.value or 1.0, 20.0)))
    for lever, answer in found:
        if lever.kind == "fraction":
            yield SweepRange(lever, 0.0, 1.0)
        else:
            needed = answer.value or lever.present
            low, high = min(lever.present, needed) / 2, max(lever.present, needed) * 2
            if lever.kind == "count":
                valid = valid_counts(document, lever)
                low, high = valid.clamped(low), valid.clamped(high)
            if low < high:
                yield SweepRange(lever, low, high)


def _sweep_point(evaluator: Evaluator, document: SystemDocument, swept: Parameter, value: float) -> SweepPoint:
    evaluated = evaluator.evaluate(document.set(swept.setting(value)))
    return SweepPoint(
        value,
        evaluated.seconds,
        evaluated.mean_seconds,
        evaluated.throughput_per_second,
        evaluated.half_width_seconds,
        evaluated.by,
        evaluated.loss_probability,
    )


def _sweep(swept: SweepRange, points: list[SweepPoint]) -> Sweep:
    each = swept.parameter
    return Sweep(each.path, each.label, each.kind, each.unit, each.present, points)
