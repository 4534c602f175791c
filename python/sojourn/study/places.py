"""Where two sides of a comparison were both measured: cells that agree in all factors that neither side names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter

from sojourn.study.cells import Cell, Cells, geometric_mean, ratios
from sojourn.study.declarations import SYSTEM, Value, Where
from sojourn.study.points import number
from sojourn.study.samples import ABOVE, BELOW, BOTH, NEITHER, Bounds, Sample, Side

Metrics = tuple[str, str]
"""Of the left and of the right side."""
ALL = "all"
"""A place that nothing tells from others."""


@dataclass(frozen=True)
class Place:
    """Where both sides of a comparison were measured."""

    settings: Mapping[str, str]
    """What tells it from other places, as it is called."""
    left: Sequence[Cell]
    right: Sequence[Cell]

    def values(self, metrics: Metrics, cells: Cells) -> dict[int, float]:
        """Left over right, in each repetition that has both."""
        return ratios(self.left, self.right, metrics, cells.repetitions)

    def spoilt(self, metrics: Metrics) -> list[str]:
        """Why figures of its cells are not the server's, where some are not."""
        return [
            f"{name(cell.settings)}: {said}"
            for metric, side in self._sides(metrics)
            for cell in side
            if (said := cell.spoilt(metric)) is not None
        ]

    def zero(self, metrics: Metrics) -> str | None:
        """Why there is no ratio though something was measured on both sides."""
        for metric, side in self._sides(metrics):
            for cell in side:
                if any(cell.value(metric, each) == 0 for each in cell.records):
                    return f"{name(cell.settings)}: {metric} is 0, which has no ratio"
        return None

    def shown(self, metrics: Metrics) -> frozenset[Side]:
        """On which sides of a bound left over right can be shown to be.

        Where a side is at least what was measured, the ratio is at least or at most what it comes to.
        """
        left, right = (
            [cell.is_lower_bound(metric) for cell in side if cell.spoilt(metric)]
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
    """Every left cell beside every right one that agrees with it in what neither side names; or all of them as one."""
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
    """Left over right at each place; `called` stands before the places' names."""
    names = told_apart([place.settings for place in found])
    return [
        _sample(_joined(called, named), place, metrics, place.values(metrics, cells), bounds)
        for place, named in zip(found, names, strict=True)
    ]


def together(found: Sequence[Place], called: str, metrics: Metrics, cells: Cells, bounds: Bounds) -> Sample:
    """The same over all places as one: their mean is taken first, repetition by repetition."""
    by_place = [each.values(metrics, cells) for each in found]
    whole = [each for each in cells.repetitions if all(each in values for values in by_place)]
    values = {each: geometric_mean([values[each] for values in by_place]) for each in whole}
    left, right = ([cell for place in found for cell in side(place)] for side in _SIDES)
    return _sample(called or ALL, Place({}, left, right), metrics, values, bounds)


def _sample(called: str, place: Place, metrics: Metrics, values: Mapping[int, float], bounds: Bounds) -> Sample:
    reasons = place.spoilt(metrics)
    more = f" (and {len(reasons) - 1} more such cells)" if len(reasons) > 1 else ""
    spoilt = f"{reasons[0]}{more}" if reasons else None
    return Sample(called, values, bounds, place.shown(metrics), spoilt, None if values else place.zero(metrics))


def along(cells: Cells, factor: str, over: Where) -> list[Value]:
    """The values of a factor at which something was measured, in their order."""
    found = {cell.settings[factor] for cell in cells.where(over)}
    return sorted(found, key=lambda value: number(value) or 0.0)


def name(settings: Mapping[str, Value] | Mapping[str, str]) -> str:
    """How a cell is called."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or ALL


def told_apart(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Names without what all have in common."""
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
    """The place's settings: what it shares, and of what its sides name the factors that tell it from other pairs."""
    found = {name: str(value) for name, value in shared.items()}
    for factor in left[0].settings:
        several = [len({cell.settings[factor] for cell in group}) > 1 for _, group in (left, right)]
        if factor not in found and any(several):
            values = [
                str(cell.settings[factor]) for (cell, _), many in zip((left, right), several, strict=True) if many
            ]
            found[factor] = " over ".join(values)
    return {SYSTEM: found.pop(SYSTEM), **found} if SYSTEM in found else found
