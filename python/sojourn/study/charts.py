"""The figures of a study, in the form of its source: metrics over a factor, a line per system or value of others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sojourn.report import format
from sojourn.report.chart import Axis, Chart, Line, Mark, Missing, Point, Series
from sojourn.report.scales import Scale, linear, logarithmic
from sojourn.study.cells import Cells
from sojourn.study.declarations import SYSTEM, Plot, Value, Where
from sojourn.study.document import Study
from sojourn.study.points import number
from sojourn.study.units import unit_of, writer

_MARKS: tuple[Mark, ...] = ("disc", "square", "triangle", "diamond")
_COLOURS = 5
_LINES: tuple[Line, ...] = ("solid", "dashed", "dotted")
CAPTION = "Geometric mean over the repetitions; bars are 95 % intervals, as far as the plot goes."
_REACH = 0.5
"""How far beyond the least and the largest value bars are drawn, as a part of these."""


def charts(study: Study, cells: Cells) -> list[Chart | Missing]:
    """Every plot that the study declares."""
    return [_chart(f"plot-{place}", plot, study, cells) for place, plot in enumerate(study.plots, 1)]


def _chart(identifier: str, plot: Plot, study: Study, cells: Cells) -> Chart | Missing:
    lines = list(enumerate(itertools.product(*_choices(plot, study))))
    series = [each for place, line in lines if (each := _series(place, line, plot, study, cells)).points]
    if not series:
        lacking = (cell.lacking(name) for name in plot.metrics for cell in cells.where(plot.over))
        return Missing(identifier, plot.title, next(filter(None, lacking), "no point of it was measured"))
    points = [point for each in series for point in each.points if point]
    y = _scale(plot.y_scale, _within_reach(points))
    series = [replace(each, points=[_cut(point, y) for point in each.points if point]) for each in series]
    along = study.values(plot.x)
    x_scale = _scale(plot.x_scale, [point.x for point in points], base=2 if unit_of(along) == "size" else 10)
    x = Axis(plot.x, x_scale, writer(along) if _are_numbers(along) else _named(along))
    label = plot.metrics[0] if len(plot.metrics) == 1 else study.figure(plot.metrics[0]).quantity
    figure = study.figure(plot.metrics[0])
    # Between whole numbers there are ticks, too.
    tick = format.number if figure.quantity == "count" else figure.write
    return Chart(identifier, plot.title, CAPTION, x, Axis(label, y, tick), series)


def _within_reach(points: Sequence[Point]) -> list[float]:
    """The values, and of their intervals what leaves the values readable: two or three repetitions may say nothing."""
    values = [point.y for point in points]
    least, most = min(values) - _REACH * abs(min(values)), max(values) + _REACH * abs(max(values))
    return [min(max(bound, least), most) for point in points for bound in point.extent]


def _cut(point: Point, scale: Scale) -> Point:
    """The point with its bar as far as the plot goes."""
    if point.low is None or point.high is None:
        return point
    return replace(point, low=max(point.low, scale.low), high=min(point.high, scale.high))


def _are_numbers(values: Sequence[Value]) -> bool:
    return all(number(value) is not None for value in values)


def _named(values: Sequence[Value]) -> Callable[[float], str]:
    """Names at the places of values that are no numbers."""

    def tick(place: float) -> str:
        return str(values[round(place)]) if abs(place - round(place)) < 1e-9 and 0 <= place < len(values) else ""

    return tick


def _choices(plot: Plot, study: Study) -> list[list[Value]]:
    """What a line is of: a metric, and a value of each factor that the lines are by, where the plot is over it."""
    metrics: list[Value] = [*plot.metrics]
    by = [[value for value in study.values(name) if _meant(value, plot.over.get(name))] for name in plot.by]
    return [metrics, *by]


def _meant(value: Value, wanted: Value | list[Value] | None) -> bool:
    return wanted is None or value == wanted or (isinstance(wanted, list) and value in wanted)


def _series(place: int, line: tuple[Value, ...], plot: Plot, study: Study, cells: Cells) -> Series:
    """A line; where lines differ in several things, the kind of the line tells the last and its colour the others."""
    metric, *values = line
    choices = _choices(plot, study)
    shades = len(choices[-1]) if sum(len(each) > 1 for each in choices) > 1 else 1
    where: Where = {**plot.over, **dict(zip(plot.by, values, strict=True))}
    points = _points(str(metric), where, plot, study, cells)
    named = [str(metric)]
    named += [str(value) if name == SYSTEM else f"{name} {value}" for name, value in zip(plot.by, values, strict=True)]
    # What all lines have in common is no name.
    telling = [each for each, choice in zip(named, choices, strict=True) if len(choice) > 1] or named[-1:]
    group, shade = divmod(place, shades)
    kind = _LINES[shade % len(_LINES)] if shades > 1 else _LINES[place // _COLOURS % len(_LINES)]
    return Series(", ".join(telling), group % _COLOURS, points, _MARKS[(group + shade) % len(_MARKS)], kind)


def _points(name: str, where: Where, plot: Plot, study: Study, cells: Cells) -> list[Point]:
    figure = study.figure(name)
    along: list[Value] = study.values(plot.x)
    points = []
    for cell in cells.where(where):
        found, value = cell.estimate(name), cell.settings[plot.x]
        if found is None or (plot.y_scale == "logarithmic" and found.value <= 0):
            continue
        x = number(value) if _are_numbers(along) else None
        at = float(along.index(value)) if x is None else x
        interval = "" if found.low is None else f" ({figure.write(found.low)} to {figure.write(found.high)})"
        text = f"{figure.write(found.value)}{interval} at {plot.x} {value}"
        low, high = found.low, found.high
        if plot.y_scale == "logarithmic" and low is not None and low <= 0:
            low = high = None
        points.append(Point(at, found.value, text, low, high))
    return sorted(points, key=lambda point: point.x)


def _scale(name: str, values: Iterable[float], base: int = 10) -> Scale:
    known = [value for value in values if math.isfinite(value)]
    return logarithmic(known, base) if name == "logarithmic" else linear(known)
