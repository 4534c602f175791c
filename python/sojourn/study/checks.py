"""Verdicts: whether the shape that a source reports is there in what was measured here, decided by intervals.

*Holds* and *does not hold* need a 95 % interval that lies wholly on one side; anything else is *not decided*, and where
points are missing or the study was only tried, there were *not enough points*. Each check stands for itself: of twenty
about nothing, one is decided by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any, Literal, get_args

from sojourn.loading.confidence import Estimate
from sojourn.study.cells import Cell, Cells, estimate, geometric_mean, ratios
from sojourn.study.declarations import Check, Crossing, FixedPart, Monotone, Ratio, Value, Where, Within
from sojourn.study.figures import Figure
from sojourn.study.fits import fixed_part
from sojourn.study.points import Settings, number
from sojourn.study.units import writer
from sojourn.text import format

Finding = Literal["holds", "does not hold", "not decided", "not enough points"]
FINDINGS: tuple[Finding, ...] = get_args(Finding)
Side = Literal["above", "below"]
"""Of a bound."""
BOTH: frozenset[Side] = frozenset(("above", "below"))
_NO_REPETITION = "no repetition has all of its points yet"
_NOT_BOTH = "nothing was measured on both sides"
_EXPLAINS: dict[Finding, str] = {"holds": "why", "does not hold": "not so"}


@dataclass(frozen=True)
class Verdict:
    """What was measured says of a check."""

    says: str
    metric: str
    finding: Finding
    why: str
    explanations: list[Verdict] = field(default_factory=list)
    """Of what would explain that it does not hold, which are judged like it."""

    def __str__(self) -> str:
        return f"{self.finding} here"

    @property
    def because(self) -> list[str]:
        """What explains that it does not hold, what would have but is not so, and what is open."""
        return [
            f"{_EXPLAINS.get(each.finding, each.finding)}: {each.says}: {each.metric}: {each.why}"
            for each in self.explanations
        ]

    def as_json(self) -> dict[str, Any]:
        """For the summary."""
        return {**asdict(self), "because": self.because}


def judge(
    check: Check, cells: Cells, figure: Callable[[str], Figure] | None = None, tried: str | None = None
) -> Verdict:
    """The verdict on a check; `figure` knows the metrics, `tried` says why no verdict is to be given."""
    write = figure(check.metric).write if figure else format.number
    if isinstance(check, Ratio):
        finding, why = _ratio(check, cells)
    elif isinstance(check, Within):
        finding, why = _within(check, cells, write)
    elif isinstance(check, FixedPart):
        finding, why = _fixed_part(check, cells, write)
    elif isinstance(check, Monotone):
        finding, why = _monotone(check, cells)
    else:
        finding, why = _crossing(check, cells)
    if tried is not None:
        return Verdict(check.says, check.metric, "not enough points", f"{tried}: {why}")
    # What held needs no explanation, and what is not decided has none yet.
    explained = [judge(each, cells, figure) for each in check.because] if finding == "does not hold" else []
    return Verdict(check.says, check.metric, finding, why, explained)


@dataclass(frozen=True)
class _Place:
    """Where both sides of a comparison were measured."""

    shared: Settings
    """What both have in common."""
    left: Sequence[Cell]
    right: Sequence[Cell]


def _ratio(check: Ratio, cells: Cells) -> tuple[Finding, str]:
    metrics = check.metric, check.right_metric or check.metric
    places = _places(cells, check.left, check.right, check.over)
    if not places:
        return "not enough points", _NOT_BOTH
    sides, spoilt = _shown(metrics, places)
    if not sides:
        return "not decided", spoilt
    together, by_place = _together(metrics, places, cells)
    if together is None:
        return _unpaired(metrics, places)
    finding = _against(together, check.least, check.most, sides)
    if spoilt and finding not in ("holds", "does not hold"):
        return "not decided", spoilt
    why = f"{_left_over_right(check)} is {_written(together)}"
    if len(places) > 1:
        least, most = by_place.index(min(by_place)), by_place.index(max(by_place))
        names = _told_apart([place.shared for place in places])
        why += f" over {len(places)} places: from {_times(by_place[least])} at {names[least]}"
        why += f" to {_times(by_place[most])} at {names[most]}"
    if spoilt:
        why += f", and {'more' if sides == {'above'} else 'less'} without a generator as the limit"
    return finding, f"{why}; expected {_bounds(check)}"


def _within(check: Within, cells: Cells, write: Callable[[float], str]) -> tuple[Finding, str]:
    found = cells.where(check.over)
    if not found:
        return "not enough points", "nothing of it was measured"
    if reasons := [f"{_name(cell.settings)}: {said}" for cell in found if (said := cell.spoilt(check.metric))]:
        return "not decided", reasons[0]
    values = [[cell.value(check.metric, each) for cell in found] for each in cells.repetitions]
    whole = [[value for value in each if value is not None] for each in values]
    together = estimate([_centre(each) for each in whole if len(each) == len(found)])
    if together is None:
        return "not enough points", _NO_REPETITION
    interval = "one repetition: no interval"
    if together.low is not None and together.high is not None:
        interval = f"{write(together.low)} to {write(together.high)}"
    why = f"it is {write(together.value)} ({interval})" + (f" over {len(found)} cells" if len(found) > 1 else "")
    return _against(together, check.least, check.most), f"{why}; expected {_bounds(check, write)}"


def _monotone(check: Monotone, cells: Cells) -> tuple[Finding, str]:
    values = _values(cells, check.along, check.over)
    if len(values) < 2:
        return "not enough points", _one_value(check.along)
    steps = [
        (first, second, _between(cells, check.metric, check.over, (check.along, first), (check.along, second)))
        for first, second in [*pairwise(values), (values[0], values[-1])]
    ]
    for _, _, (found, spoilt) in steps:
        if spoilt or found is None:
            return spoilt or ("not enough points", _NO_REPETITION)
    rises = check.direction == "rises"
    for first, second, (found, _) in steps[:-1]:
        assert found is not None
        if _decided(found, 1.0) == ("below" if rises else "above"):
            return "does not hold", f"from {check.along} {first} to {second} it changes by {_written(found)}"
    whole = steps[-1][2][0]
    assert whole is not None
    why = f"from {check.along} {values[0]} to {values[-1]} it changes by {_written(whole)}, and no step goes back"
    side = _decided(whole, 1.0)
    if side is None:
        return _undecided(whole), why
    return ("holds" if (side == "above") == rises else "does not hold"), why


def _crossing(check: Crossing, cells: Cells) -> tuple[Finding, str]:
    values = _values(cells, check.along, check.over)
    found = []
    for value in values:
        metrics = check.metric, check.right_metric or check.metric
        places = _places(cells, check.left, check.right, {**check.over, check.along: value})
        if not places:
            return "not enough points", _NOT_BOTH
        if (spoilt := _spoilt(metrics, places)) is not None:
            return "not decided", spoilt
        ratio, _ = _together(metrics, places, cells)
        if ratio is None:
            return _unpaired(metrics, places)
        found.append((value, ratio))
    if len(found) < 2:
        return "not enough points", _one_value(check.along)
    (first, low), (last, high) = found[0], found[-1]
    ends = f"{_written(low)} at {check.along} {first} and {_written(high)} at {last}"
    sides = _decided(low, 1.0), _decided(high, 1.0)
    if None in sides:
        return _undecided(low), f"{_left_over_right(check)} is {ends}"
    if sides != ("below", "above"):
        return "does not hold", f"no change from below to above: {ends}"
    place = next(after for (_, before), (after, ratio) in pairwise(found) if before.value < 1 <= ratio.value)
    at = number(place)
    early = check.after is not None and at is not None and at < (number(check.after) or 0)
    late = check.before is not None and at is not None and at > (number(check.before) or math.inf)
    said = f"the change is at {check.along} {place}: {ends}"
    return ("does not hold" if early or late else "holds"), said


def _fixed_part(check: FixedPart, cells: Cells, write: Callable[[float], str]) -> tuple[Finding, str]:
    chosen = cells.where(check.over)
    if reasons := [f"{_name(cell.settings)}: {said}" for cell in chosen if (said := cell.spoilt(check.metric))]:
        return "not decided", reasons[0]
    found = fixed_part(check, cells)
    if found is None:
        return "not enough points", f"no repetition has a line that rises along {check.along}"
    costs, worth = found
    amount = writer([cell.settings[check.along] for cell in chosen])
    interval = "" if worth.low is None or worth.high is None else f" ({amount(worth.low)} to {amount(worth.high)})"
    least, most = (None if bound is None else number(bound) for bound in (check.least, check.most))
    expected = _expected(*(None if bound is None else str(bound) for bound in (check.least, check.most)))
    said = f"the fixed part is {write(costs.value)}, what {amount(worth.value)}{interval} of {check.along} cost besides"
    return _against(worth, least, most), f"{said}; expected {expected}"


def _between(
    cells: Cells, metric: str, over: Where, first: tuple[str, Value], second: tuple[str, Value]
) -> tuple[Estimate | None, tuple[Finding, str] | None]:
    """The second value's figure over the first's, and what is to be said where it is not to be had or trusted."""
    along = first[0]
    rest = {name: value for name, value in over.items() if name != along}
    places = _places(cells, {along: second[1]}, {along: first[1]}, rest)
    metrics = metric, metric
    if not places:
        return None, ("not enough points", _NOT_BOTH)
    if (spoilt := _spoilt(metrics, places)) is not None:
        return None, ("not decided", spoilt)
    found = _together(metrics, places, cells)[0]
    return found, _unpaired(metrics, places) if found is None else None


def _together(metrics: tuple[str, str], places: Sequence[_Place], cells: Cells) -> tuple[Estimate | None, list[float]]:
    """Left over right over all places, and at each; only repetitions count that have every place.

    It is one question, so the mean over the places is taken first, repetition by repetition, and gets one interval.
    """
    by_place = [ratios(each.left, each.right, metrics, cells.repetitions) for each in places]
    whole = [each for each in cells.repetitions if all(each in found for found in by_place)]
    found = estimate([geometric_mean([place[repetition] for place in by_place]) for repetition in whole])
    return found, [geometric_mean([place[repetition] for repetition in whole]) for place in by_place if whole]


def _places(cells: Cells, left: Where, right: Where, over: Where) -> list[_Place]:
    """Left and right cells that agree in all factors that neither side names."""
    named = left.keys() | right.keys()
    if named & cells.linked:
        named |= cells.linked
    sides: list[dict[tuple[tuple[str, Value], ...], list[Cell]]] = []
    for side in (left, right):
        groups: dict[tuple[tuple[str, Value], ...], list[Cell]] = {}
        for cell in cells.where({**over, **side}):
            shared = tuple((name, value) for name, value in cell.settings.items() if name not in named)
            groups.setdefault(shared, []).append(cell)
        sides.append(groups)
    return [_Place(dict(shared), group, sides[1][shared]) for shared, group in sides[0].items() if shared in sides[1]]


def _values(cells: Cells, along: str, over: Where) -> list[Value]:
    found = {cell.settings[along] for cell in cells.where(over)}
    return sorted(found, key=lambda value: number(value) or 0.0)


def _shown(metrics: tuple[str, str], places: Sequence[_Place]) -> tuple[frozenset[Side], str]:
    """On which sides of a bound left over right can be shown to be, and what keeps it from being shown on the others.

    Where a side is at least what was measured, the ratio is at least or at most what it comes to.
    """
    spoilt = _spoilt(metrics, places)
    if spoilt is None:
        return BOTH, ""
    left, right = (
        [cell.is_lower_bound(metric) for place in places for cell in side(place) if cell.spoilt(metric)]
        for metric, side in zip(metrics, (attrgetter("left"), attrgetter("right")), strict=True)
    )
    if all(left) and not right:
        return frozenset(("above",)), spoilt
    if all(right) and not left:
        return frozenset(("below",)), spoilt
    return frozenset(), spoilt


def _spoilt(metrics: tuple[str, str], places: Sequence[_Place]) -> str | None:
    reasons = [
        f"{_name(cell.settings)}: {said}"
        for place in places
        for metric, side in zip(metrics, (place.left, place.right), strict=True)
        for cell in side
        if (said := cell.spoilt(metric)) is not None
    ]
    return (
        f"{reasons[0]}" + (f" (and {len(reasons) - 1} more such cells)" if len(reasons) > 1 else "")
        if reasons
        else None
    )


def _against(found: Estimate, least: float | None, most: float | None, shown: frozenset[Side] = BOTH) -> Finding:
    above = "above" if least is None else _decided(found, least, shown)
    below = "below" if most is None else _decided(found, most, shown)
    if above == "below" or below == "above":
        return "does not hold"
    return "holds" if above == "above" and below == "below" else _undecided(found)


def _undecided(found: Estimate) -> Finding:
    return "not enough points" if found.low is None else "not decided"


def _unpaired(metrics: tuple[str, str], places: Sequence[_Place]) -> tuple[Finding, str]:
    """Why there is no ratio though something was measured on both sides."""
    for place in places:
        for metric, side in zip(metrics, (place.left, place.right), strict=True):
            for cell in side:
                if any(cell.value(metric, each) == 0 for each in cell.records):
                    return "not decided", f"{_name(cell.settings)}: {metric} is 0, which has no ratio"
    return "not enough points", _NO_REPETITION


def _centre(values: Sequence[float]) -> float:
    """The geometric mean; of what may be 0 the arithmetic one."""
    return geometric_mean(values) if all(value > 0 for value in values) else sum(values) / len(values)


def _one_value(along: str) -> str:
    return f"there is only one value of {along}"


def _decided(found: Estimate, bound: float, shown: frozenset[Side] = BOTH) -> Side | None:
    """On which side of the bound the interval lies; None where on both, without one, or where that cannot be shown."""
    if found.low is None or found.high is None:
        return None
    side: Side | None = "above" if found.low > bound else "below" if found.high < bound else None
    return side if side in shown else None


def _written(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return f"{_times(found.value)} (one repetition: no interval)"
    return f"{_times(found.value)} ({_times(found.low)} to {_times(found.high)})"


def _times(value: float) -> str:
    return f"{value:.3g}" if value < 10 else format.number(value)


def _bounds(check: Ratio | Within, write: Callable[[float], str] = "{:g}".format) -> str:
    return _expected(*(None if bound is None else write(bound) for bound in (check.least, check.most)))


def _expected(least: str | None, most: str | None) -> str:
    if least is not None and most is not None:
        return f"{least} to {most}"
    if least is not None:
        return f"more than {least}"
    return "anything" if most is None else f"less than {most}"


def _left_over_right(check: Ratio | Crossing) -> str:
    sides = [_side(check.left), _side(check.right)]
    if check.right_metric is not None:
        metrics = check.metric, check.right_metric
        sides = [f"{metric} {side}".strip() for metric, side in zip(metrics, sides, strict=True)]
    return " over ".join(sides)


def _told_apart(places: Sequence[Settings]) -> list[str]:
    """The places' names without what all of them have in common."""
    telling = [name for name in places[0] if len({place[name] for place in places}) > 1]
    return [_name({name: place[name] for name in telling}) for place in places]


def _name(settings: Settings) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "all"


def _side(where: Where) -> str:
    return ", ".join(
        str(value) if name == "system" else f"{name} {value}"
        for name, each in where.items()
        for value in [" or ".join(map(str, each)) if isinstance(each, list) else each]
    )
