"""Finds the cheapest mix of priced resources that meets a target, and the Pareto front of cost and metric.

It evaluates every combination on a grid of values. It then shrinks the cheapest mix that meets the target, one
parameter after the other, and confirms it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sojourn.cluster.tasks import InProcess, Tasks, in_order
from sojourn.failure import CouldNotRun
from sojourn.planning.answers import CheapestMix, Mix
from sojourn.planning.counts import valid_counts
from sojourn.planning.evaluation import Evaluation, Evaluator
from sojourn.planning.parameters import Parameter, parameter
from sojourn.planning.search import next_limit
from sojourn.planning.system_document import SystemDocument
from sojourn.text.quantity import NUMBER

PRICED_MAX = 4
"""The most resources that can be priced at once."""
MIXES_ANALYTIC = 2_500
MIXES_SIMULATED = 150
"""The most combinations evaluated by simulation, which takes a hundred times as long as a formula."""
MIXES_PER_TASK = 10
SPAN = (0.25, 16.0)
"""The ends of the grid, as factors on the present values."""
ROUNDS_MAX = 5
STEPS = 8
"""Bisections of each parameter when shrinking the cheapest mix: to 1/256 of a grid step."""
_PRICE = re.compile(rf"\s*({NUMBER})\s*(?:(?:/|per)\s*(\S+))?\s*")


@dataclass(frozen=True)
class Priced:
    """A parameter and its price per unit."""

    parameter: Parameter
    price: float
    text: str


def parse_price(text: str, document: SystemDocument) -> Priced:
    """Parses a price such as `station.line.rate=20/Mbit/s` or `station.web.speed=500`.

    Raises:
        CouldNotRun: if it is malformed, or its unit is not the parameter's.
    """
    path, _, price = text.partition("=")
    match = _PRICE.fullmatch(price)
    if match is None:
        raise CouldNotRun(f"{text!r} is not a price", "write it as in station.line.rate=20/Mbit/s or station.web.r=5")
    priced = parameter(document, path.strip())
    if (match[2] or "") != priced.unit:
        unit = priced.unit or "no unit"
        raise CouldNotRun(
            f"{text!r}: {path} is in {unit}", f"write {path}={match[1]}" + (f"/{unit}" * bool(priced.unit))
        )
    if priced.kind == "fraction":
        raise CouldNotRun(f"{text!r}: a probability has no price", "price a rate, a speed or a count")
    return Priced(priced, float(match[1]), text)


def price_of(text: str) -> float:
    """The number of a price as kept in a plan, such as `20/Mbit/s`."""
    match = _PRICE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a price")
    return float(match[1])


Grid = Sequence[Sequence[float]]
"""Combinations of values, one of each priced resource."""


def mixes_of(evaluator: Evaluator, document: SystemDocument, priced: Sequence[Priced]) -> Grid:
    """The combinations to evaluate.

    Raises:
        CouldNotRun: more resources have prices than can be combined.
    """
    if len(priced) > PRICED_MAX:
        raise CouldNotRun(f"{len(priced)} prices are too many", f"price at most {PRICED_MAX} resources at once")
    # Evaluated at low traffic, because every solver refuses an overloaded system.
    simulated = evaluator.evaluate(document.set("traffic=0.001")).by == "simulation"
    count = int((MIXES_SIMULATED if simulated else MIXES_ANALYTIC) ** (1 / len(priced)))
    combinations = itertools.product(*(_values(document, each, priced, count) for each in priced))
    return [values for values in combinations if _is_valid(document, priced, values)]


def cheapest_mix(
    evaluator: Evaluator,
    document: SystemDocument,
    priced: Sequence[Priced],
    grid: Grid,
    limit_seconds: float,
    tasks: Tasks | None = None,
    did: Callable[[float], object] = lambda mixes: None,
) -> CheapestMix:
    """The front, and the cheapest mix within the limit.

    Args:
        evaluator: of the target's metric.
        document: the system at the target's load.
        priced: what the grid has values of.
        grid: the combinations, as `mixes_of` gives them.
        limit_seconds: the target's.
        tasks: where the grid is evaluated; here if not given.
        did: called with the number of mixes that were evaluated since the last call.
    """
    tasks = tasks or InProcess()
    parts = [grid[start : start + MIXES_PER_TASK] for start in range(0, len(grid), MIXES_PER_TASK)]
    evaluated = in_order(
        tasks.each(_mixes, ((evaluator, document, priced, part) for part in parts)),
        lambda done: did(len(parts[done - 1])),
    )
    mixes = [mix for part, _ in evaluated for mix in part]
    evaluator.simulations += sum(simulations for _, simulations in evaluated)
    front = _front(mixes)
    cheapest, confirmed = _cheapest(evaluator, document, priced, mixes, limit_seconds)
    return CheapestMix(
        priced={each.parameter.path: each.text.partition("=")[2].strip() for each in priced},
        present_cost=sum(each.price * each.parameter.present for each in priced),
        evaluated=len(mixes),
        front=front,
        cheapest=cheapest,
        confirmed_seconds=confirmed.seconds if confirmed else None,
        half_width_seconds=confirmed.half_width_seconds if confirmed else None,
        confirmed_by=confirmed.by if confirmed else None,
    )


def _mixes(
    evaluator: Evaluator, document: SystemDocument, priced: Sequence[Priced], part: Sequence[Sequence[float]]
) -> tuple[list[Mix], int]:
    """The mixes of a part of the grid, and the number of simulations that they took."""
    own = evaluator.fresh()
    return [_mix(own, document, priced, values) for values in part], own.simulations


def _values(document: SystemDocument, each: Priced, priced: Sequence[Priced], count: int) -> list[float]:
    """The values of a resource that are valid with some of the others'."""
    low, high = (each.parameter.present * end for end in SPAN)
    if each.parameter.kind != "count":
        return _spaced(low, high, count)
    valid = valid_counts(document, each.parameter, {other.parameter.path: None for other in priced})
    values = _spaced(valid.clamped(low), valid.clamped(high), count)
    return [float(value) for value in sorted({round(value) for value in values})]


def _spaced(low: float, high: float, count: int) -> list[float]:
    return [low * (high / low) ** (index / (count - 1)) for index in range(count)]


def _is_valid(document: SystemDocument, priced: Sequence[Priced], values: Sequence[float]) -> bool:
    """Returns false for counts that a system cannot have together, such as more servers than places."""
    together = {each.parameter.path: value for each, value in zip(priced, values, strict=True)}
    return all(
        together[each.parameter.path] in valid_counts(document, each.parameter, together)
        for each in priced
        if each.parameter.kind == "count"
    )


def _mix(evaluator: Evaluator, document: SystemDocument, priced: Sequence[Priced], values: Sequence[float]) -> Mix:
    settings = [each.parameter.setting(value) for each, value in zip(priced, values, strict=True)]
    evaluation = evaluator.evaluate(document.set(*settings))
    texts = (f"{each.parameter.label} {each.parameter.text(value)}" for each, value in zip(priced, values, strict=True))
    return Mix(
        values={each.parameter.path: value for each, value in zip(priced, values, strict=True)},
        text=", ".join(texts),
        settings=settings,
        cost=sum(each.price * value for each, value in zip(priced, values, strict=True)),
        seconds=evaluation.seconds,
        by=evaluation.by,
    )


def _front(mixes: list[Mix]) -> list[Mix]:
    front: list[Mix] = []
    for mix in sorted(mixes, key=lambda mix: (mix.cost, mix.seconds)):
        if mix.seconds < (front[-1].seconds if front else float("inf")):
            front.append(mix)
    return front


def _cheapest(
    evaluator: Evaluator,
    document: SystemDocument,
    priced: Sequence[Priced],
    mixes: list[Mix],
    limit_seconds: float,
) -> tuple[Mix | None, Evaluation | None]:
    by_cost = sorted(mixes, key=lambda mix: (mix.cost, mix.seconds))
    corrected = limit_seconds
    last: Mix | None = None
    smaller: Mix | None = None
    confirmed: Evaluation | None = None
    for _ in range(ROUNDS_MAX):
        enough = _enough(evaluator, document, priced, by_cost, corrected)
        if enough is None:
            break
        last, smaller = enough, _smaller(evaluator, document, priced, enough, corrected)
        confirmed = evaluator.confirm(document.set(*smaller.settings))
        if confirmed.seconds <= limit_seconds:
            break
        corrected = next_limit(evaluator, confirmed, corrected, limit_seconds)
    evaluator.loss_searched = evaluator.loss_max
    if confirmed is not None and confirmed.seconds <= limit_seconds:
        return smaller, confirmed
    if last is not None and last != smaller:
        # It has more than the search needed.
        confirmed = evaluator.confirm(document.set(*last.settings))
        if confirmed.seconds <= limit_seconds:
            return last, confirmed
    return None, None


def _enough(
    evaluator: Evaluator, document: SystemDocument, priced: Sequence[Priced], by_cost: list[Mix], limit_seconds: float
) -> Mix | None:
    """The first mix within the limits; its losses are evaluated again if their limit has become lower."""
    for mix in by_cost:
        if mix.seconds > limit_seconds:
            continue
        if evaluator.loss_searched != evaluator.loss_max:
            values = [mix.values[each.parameter.path] for each in priced]
            if _mix(evaluator, document, priced, values).seconds > limit_seconds:
                continue
        return mix
    return None


def _smaller(
    evaluator: Evaluator, document: SystemDocument, priced: Sequence[Priced], mix: Mix, limit_seconds: float
) -> Mix:
    """Shrinks each parameter as far as the limit allows with the others fixed, the most expensive first."""
    order = sorted(priced, key=lambda each: -each.price * mix.values[each.parameter.path])
    for each in order:
        low, high = each.parameter.present * SPAN[0] / 4, mix.values[each.parameter.path]
        for _ in range(STEPS):
            middle = (low + high) / 2
            values = {**mix.values, each.parameter.path: middle}
            if each.parameter.kind == "count":
                values[each.parameter.path] = valid_counts(document, each.parameter, values).clamped(round(middle))
            tried = _mix(evaluator, document, priced, [values[other.parameter.path] for other in priced])
            if tried.seconds <= limit_seconds and tried.cost <= mix.cost:
                mix, high = tried, middle
            else:
                low = middle
    return mix
