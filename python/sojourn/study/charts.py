"""The figures of a study, in the form of its source: a metric over a factor, a line per system or per value."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sojourn.loading import metrics
from sojourn.report import format
from sojourn.report.chart import Axis, Chart, Line, Mark, Missing, Point, Series
from sojourn.report.scales import Scale, linear, logarithmic
from sojourn.study.cells import Cells
from sojourn.study.document import SYSTEM, Plot, Study, Value
from sojourn.study.points import is_size, number

_MARKS: tuple[Mark, ...] = ("disc", "square", "triangle", "diamond")
_COLOURS = 5
_LINES: tuple[Line, ...] = ("solid", "dashed", "dotted")
CAPTION = "Geometric mean over the repetitions; bars are 95 % intervals."


def charts(study: Study, cells: Cells) -> list[Chart | Missing]:
    """Every plot that the study declares."""
    return [_chart(f"plot-{place}", plot, study, cells) for place, plot in enumerate(study.plots, 1)]


def _chart(identifier: str, plot: Plot, study: Study, cells: Cells) -> Chart | Missing:
    declared: list[Value] = [each.name for each in study.systems] if plot.lines == SYSTEM else study.factors[plot.lines]
    shown = {cell.settings[plot.lines] for cell in cells.where(plot.over)}
    lines = [value for value in declared if value in shown]
    series = [each for place, value in enumerate(lines) if (each := _series(place, value, plot, study, cells)).points]
    if not series:
        return Missing(identifier, plot.title, "no point of it was measured")
    points = [point for each in series for point in each.points if point]
    y = _scale(plot.y_scale, [bound for point in points for bound in point.extent])
    sizes = plot.x != SYSTEM and all(map(is_size, study.factors[plot.x]))
    x_scale = _scale(plot.x_scale, [point.x for point in points], base=2 if sizes else 10)
    x = Axis(plot.x, x_scale, format.size if sizes else format.number)
    return Chart(identifier, plot.title, CAPTION, x, Axis(plot.y, y, metrics.find(plot.y).write), series)


def _series(place: int, value: Value, plot: Plot, study: Study, cells: Cells) -> Series:
    metric = metrics.find(plot.y)
    along: list[Value] = [each.name for each in study.systems] if plot.x == SYSTEM else study.factors[plot.x]
    points = []
    for cell in cells.where({**plot.over, plot.lines: value}):
        found, x = cell.estimate(plot.y), number(cell.settings[plot.x])
        if found is None or (plot.y_scale == "logarithmic" and found.value <= 0):
            continue
        at = float(along.index(cell.settings[plot.x])) if x is None else x
        interval = "" if found.low is None else f" ({metric.write(found.low)} to {metric.write(found.high)})"
        text = f"{metric.write(found.value)}{interval} at {plot.x} {cell.settings[plot.x]}"
        points.append(Point(at, found.value, text, found.low, found.high))
    name = str(value) if plot.lines == SYSTEM else f"{plot.lines} {value}"
    mark, line = _MARKS[place % len(_MARKS)], _LINES[place // _COLOURS % len(_LINES)]
    points.sort(key=lambda point: point.x)
    return Series(name, place % _COLOURS, points, mark, line)


def _scale(name: str, values: Iterable[float], base: int = 10) -> Scale:
    known = [value for value in values if math.isfinite(value)]
    return logarithmic(known, base) if name == "logarithmic" else linear(known)
