"""The figures of a study in the form of its source: metrics over a factor, a line per system or other factor value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sojourn.report.chart import Axis, Chart, Line, Mark, Missing, Point, Series
from sojourn.report.scales import Scale, linear, logarithmic
from sojourn.study.cells import Cell, Cells
from sojourn.study.declarations import SYSTEM, Plot, Value, Where
from sojourn.study.document import Study
from sojourn.study.points import matches, number
from sojourn.study.units import unit_of, writer
from sojourn.text import format

_MARKS: tuple[Mark, ...] = ("disc", "square", "triangle", "diamond")
_COLOURS = 5
_LINES: tuple[Line, ...] = ("solid", "dashed", "dotted")
CAPTION = "Geometric mean over the repetitions; bars are 95 % intervals, as far as the plot goes."
PRINTED = "printed in the source"
_PRINTED_REACH = 2.0
"""Printed values beyond this factor of the measured ones are not drawn, because they would flatten the others."""
_REACH = 0.5
"""How far error bars may extend beyond the smallest and the largest value, relative to these."""


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
    if (printed := _printed(plot, study, cells, points)) is not None:
        series.append(printed)
        points += [point for point in printed.points if point]
    y = _scale(plot.y_scale, _within_reach(points))
    series = [replace(each, points=[_cut(point, y) for point in each.points if point]) for each in series]
    x = _across(plot, study, [point.x for point in points])
    figure = study.figure(plot.metrics[0])
    label = figure.label if len(plot.metrics) == 1 else figure.quantity
    # Ticks may lie between whole numbers, too.
    tick = format.number if figure.quantity == "count" else figure.write
    return Chart(identifier, plot.title, CAPTION, x, Axis(label, y, tick), series)


def _across(plot: Plot, study: Study, places: Sequence[float]) -> Axis:
    """The axis of a factor, or of a metric."""
    if plot.x not in study.names():
        figure = study.figure(plot.x)
        return Axis(figure.label, _scale(plot.x_scale, places), figure.write)
    along = study.values(plot.x)
    scale = _scale(plot.x_scale, places, base=2 if unit_of(along) == "size" else 10)
    return Axis(plot.x.replace("_", " "), scale, writer(along) if _are_numbers(along) else _named(along))


def _within_reach(points: Sequence[Point]) -> list[float]:
    """The values and their intervals, cut so that values remain readable: two or three repetitions may say nothing."""
    values = [point.y for point in points]
    least, most = min(values) - _REACH * abs(min(values)), max(values) + _REACH * abs(max(values))
    return [min(max(bound, least), most) for point in points for bound in point.extent]


def _cut(point: Point, scale: Scale) -> Point:
    """The point with its bar cut to the plot."""
    if point.low is None or point.high is None:
        return point
    return replace(point, low=max(point.low, scale.low), high=min(point.high, scale.high))


def _are_numbers(values: Sequence[Value]) -> bool:
    return all(number(value) is not None for value in values)


def _named(values: Sequence[Value]) -> Callable[[float], str]:
    """Names at the positions of values that are not numbers."""

    def tick(place: float) -> str:
        return str(values[round(place)]) if abs(place - round(place)) < 1e-9 and 0 <= place < len(values) else ""

    return tick


def _choices(plot: Plot, study: Study) -> list[list[Value]]:
    """The values of each line: a metric, and a value of each factor that has lines."""
    metrics: list[Value] = [*plot.metrics]
    by = [[value for value in study.values(name) if _meant(value, plot.over.get(name))] for name in plot.by]
    return [metrics, *by]


def _meant(value: Value, wanted: Value | list[Value] | None) -> bool:
    return wanted is None or value == wanted or (isinstance(wanted, list) and value in wanted)


def _series(place: int, line: tuple[Value, ...], plot: Plot, study: Study, cells: Cells) -> Series:
    """A line; where lines differ in several factors, colour shows the last one and dashes and marks the others."""
    metric, *values = line
    choices = _choices(plot, study)
    shades = len(choices[-1]) if sum(len(each) > 1 for each in choices) > 1 else 1
    where: Where = {**plot.over, **dict(zip(plot.by, values, strict=True))}
    points = _points(str(metric), where, plot, study, cells)
    named = [str(metric)]
    named += [str(value) if name == SYSTEM else f"{name} {value}" for name, value in zip(plot.by, values, strict=True)]
    # The name omits what all lines have in common.
    telling = [each for each, choice in zip(named, choices, strict=True) if len(choice) > 1] or named[-1:]
    group, shade = divmod(place, shades)
    kind = _LINES[shade % len(_LINES)] if shades > 1 else _LINES[place // _COLOURS % len(_LINES)]
    return Series(", ".join(telling), group % _COLOURS, points, _MARKS[(group + shade) % len(_MARKS)], kind)


def _points(name: str, where: Where, plot: Plot, study: Study, cells: Cells) -> list[Point]:
    figure = study.figure(name)
    points = []
    for cell in cells.where(where):
        found, (at, named) = cell.estimate(name), _at(plot, study, cell)
        if found is None or at is None or (plot.y_scale == "logarithmic" and found.value <= 0):
            continue
        interval = "" if found.low is None else f" ({figure.write(found.low)} to {figure.write(found.high)})"
        text = f"{figure.write(found.value)}{interval} at {named}"
        low, high = found.low, found.high
        if plot.y_scale == "logarithmic" and low is not None and low <= 0:
            low = high = None
        points.append(Point(at, found.value, text, low, high))
    return sorted(points, key=lambda point: point.x)


def _at(plot: Plot, study: Study, cell: Cell) -> tuple[float | None, str]:
    """The position of a cell along the x axis, with its label."""
    if plot.x in study.names():
        value = cell.settings[plot.x]
        return _place(value, study.values(plot.x)), f"{plot.x} {value}"
    found = cell.estimate(plot.x)
    return (None, "") if found is None else (found.value, study.figure(plot.x).write(found.value))


def _place(value: Value, along: list[Value]) -> float:
    """The position of a factor's value: the number itself, or the index of a name."""
    x = number(value) if _are_numbers(along) else None
    return float(along.index(value)) if x is None else x


def _printed(plot: Plot, study: Study, cells: Cells, points: Sequence[Point]) -> Series | None:
    """The source's printed values for the plot, if close enough to show."""
    if plot.x not in study.names():
        return None
    least, most = min(point.y for point in points), max(point.y for point in points)
    along: list[Value] = study.values(plot.x)
    found = {}
    for each in study.printed:
        drawn = each.metric in plot.metrics and any(
            matches(cell.settings, each.at) and matches(cell.settings, plot.over) for cell in cells.cells
        )
        value = each.at.get(plot.x)
        near = least / _PRINTED_REACH <= each.value <= most * _PRINTED_REACH
        if drawn and near and value is not None and not isinstance(value, list):
            text = f"{PRINTED}: {study.figure(each.metric).write(each.value)}, {each.where_printed}"
            found[value, each.value] = Point(_place(value, along), each.value, text)
    return Series(PRINTED, 0, list(found.values()), "down") if found else None


def _scale(name: str, values: Iterable[float], base: int = 10) -> Scale:
    known = [value for value in values if math.isfinite(value)]
    return logarithmic(known, base) if name == "logarithmic" else linear(known, thousand=1024 if base == 2 else 1000)
