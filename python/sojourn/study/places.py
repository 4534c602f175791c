"""The places of a comparison: pairs of cells that agree in all factors that neither side names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter

from sojourn.study.cells import Cell, Cells, geometric_mean, ratios
from sojourn.study.decisions import ABOVE, BELOW, BOTH, NEITHER, Bounds, Sample, Side
from sojourn.study.declarations import SYSTEM, Value, Where
from sojourn.study.points import number

Metrics = tuple[str, str]
"""The metrics of the left and the right side."""
ALL = "all"
"""The name of a place without distinguishing factors."""
_NOTHING = re.compile(r"\s*0+(?:\.0*)?\s*[A-Za-z][A-Za-z/]*\s*")
"""A quantity of 0, such as 0ms."""


@dataclass(frozen=True)
class Place:
    """A place at which both sides of a comparison were measured."""

    settings: Mapping[str, str]
    """The factors that distinguish it from other places."""
    left: Sequence[Cell]
    right: Sequence[Cell]

    def values(self, metrics: Metrics, cells: Cells) -> dict[int, float]:
        """Left over right, in each repetition with both."""
        return ratios(self.left, self.right, metrics, cells.repetitions)

    def untrusted_because(self, metrics: Metrics) -> list[str]:
        """Reasons why figures of its cells do not describe the server."""
        return [
            f"{name(cell.settings)}: {said}"
            for metric, side in self._sides(metrics)
            for cell in side
            if (said := cell.untrusted_because(metric)) is not None
        ]

    def zero(self, metrics: Metrics) -> str | None:
        """The reason why there is no ratio although both sides were measured."""
        for metric, side in self._sides(metrics):
            for cell in side:
                if any(cell.value(metric, each) == 0 for each in cell.records):
                    return f"{name(cell.settings)}: {metric} is 0, which has no ratio"
        return None

    def shown(self, metrics: Metrics) -> frozenset[Side]:
        """The sides of a bound on which the ratio can be shown to lie.

        If the figure of a side is only a lower bound, so the ratio is only a lower or upper bound.
        """
        left, right = (
            [cell.is_lower_bound(metric) for cell in side if cell.untrusted_because(metric)]
            for metric, side in self._sides(metrics)
        )
        if not left and not right:
            return BOTH
        if all(left) and not right:
            return ABOVE
        return BELOW if all(right) and not left else NEITHER

    def _sides(self, metrics: Metrics) -> list[tuple[str, Sequence[Cell]]]:
        return list(zip(metrics, (self.left, self.right), strict=True))


_SIDES = attrgetter("left"), attrgetter("right")


def places(cells: Cells, left: Where, right: Where, over: Where, each: bool = True) -> list[Place]:
    """Pairs every left cell with every right one that agrees in all unnamed factors; or combines them all into one."""
    named = left.keys() | right.keys()
    if named & cells.linked:
        named |= cells.linked
    lefts, rights = (_groups(cells, {**over, **side}, named) for side in (left, right))
    found = []
    for shared, group in lefts.items():
        others = rights.get(shared, [])
        if not others:
            continue
        if not each:
            found.append(Place({name: str(value) for name, value in shared}, group, others))
            continue
        found += [
            Place(_called(dict(shared), (here, group), (there, others)), [here], [there])
            for here in group
            for there in others
        ]
    return found


def samples(found: Sequence[Place], called: str, metrics: Metrics, cells: Cells, bounds: Bounds) -> list[Sample]:
    """Left over right at each place; `called` prefixes the places' names."""
    names = told_apart([place.settings for place in found])
    return [
        _sample(_joined(called, named), place, metrics, place.values(metrics, cells), bounds)
        for place, named in zip(found, names, strict=True)
    ]


def together(found: Sequence[Place], called: str, metrics: Metrics, cells: Cells, bounds: Bounds) -> Sample:
    """The mean over all places, repetition by repetition."""
    by_place = [each.values(metrics, cells) for each in found]
    whole = [each for each in cells.repetitions if all(each in values for values in by_place)]
    values = {each: geometric_mean([values[each] for values in by_place]) for each in whole}
    left, right = ([cell for place in found for cell in side(place)] for side in _SIDES)
    return _sample(called or ALL, Place({}, left, right), metrics, values, bounds)


def _sample(called: str, place: Place, metrics: Metrics, values: Mapping[int, float], bounds: Bounds) -> Sample:
    reasons = place.untrusted_because(metrics)
    more = f" (and {len(reasons) - 1} more such cells)" if len(reasons) > 1 else ""
    untrusted_because = f"{reasons[0]}{more}" if reasons else None
    lacking = place.zero(metrics)
    # Those repetitions that are above zero do not stand for the others.
    return Sample(called, {} if lacking else values, bounds, place.shown(metrics), untrusted_because, lacking)


def along(cells: Cells, factor: str, over: Where) -> list[Value]:
    """The measured values of a factor in order."""
    found = {cell.settings[factor] for cell in cells.where(over)}
    return sorted(found, key=lambda value: position(value) or 0.0)


def position(value: Value) -> float | None:
    """Where a value lies along its factor; None for a name, which lies nowhere."""
    found = number(value)
    return 0.0 if found is None and _NOTHING.fullmatch(str(value)) else found


def name(settings: Mapping[str, Value] | Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or ALL


def told_apart(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Names without the settings that all share."""
    telling = [each for each in settings[0] if len({one.get(each) for one in settings}) > 1] if settings else []
    return [name({each: one[each] for each in telling if each in one}) for one in settings]


def _joined(*names: str) -> str:
    return ", ".join(each for each in names if each not in ("", ALL)) or ALL


def _groups(cells: Cells, where: Where, named: AbstractSet[str]) -> dict[tuple[tuple[str, Value], ...], list[Cell]]:
    groups: dict[tuple[tuple[str, Value], ...], list[Cell]] = {}
    for cell in cells.where(where):
        shared = tuple((name, value) for name, value in cell.settings.items() if name not in named)
        groups.setdefault(shared, []).append(cell)
    return groups


def _called(
    shared: Mapping[str, Value], left: tuple[Cell, Sequence[Cell]], right: tuple[Cell, Sequence[Cell]]
) -> dict[str, str]:
    """The place's settings: the shared ones, and of its sides' factors those that distinguish it from other pairs."""
    found = {name: str(value) for name, value in shared.items()}
    for factor in left[0].settings:
        several = [len({cell.settings[factor] for cell in group}) > 1 for _, group in (left, right)]
        if factor not in found and any(several):
            values = [
                str(cell.settings[factor]) for (cell, _), many in zip((left, right), several, strict=True) if many
            ]
            found[factor] = " over ".join(values)
    return {SYSTEM: found.pop(SYSTEM), **found} if SYSTEM in found else found
