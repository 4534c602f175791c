"""The plots of the page: the cost of a stream by the number of viewers, one plot per transport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.stream.competitors import COMPETITORS
from benchmarks.stream.results import Table
from sojourn.report.chart import Axis, Chart, Line, Mark, Point, Series
from sojourn.report.scales import logarithmic
from sojourn.text import format

MARKS: Sequence[Mark] = ("disc", "square", "triangle", "diamond")
LINES: Sequence[Line] = ("solid", "dashed", "dotted")


def charts(tables: Iterable[Table]) -> list[Chart]:
    """Returns the plots that have at least two numbers of viewers."""
    measured = list(tables)
    found = []
    for transport in dict.fromkeys(table.transport for table in measured):
        here = [table for table in measured if table.transport == transport]
        if len({table.clients for table in here}) > 1 and (series := _series(here)):
            found.append(_chart(transport, here, series))
    return found


def _chart(transport: str, tables: Sequence[Table], series: Sequence[Series]) -> Chart:
    values = [bound for each in series for point in each.points if point for bound in point.extent]
    return Chart(
        f"cost-{transport}",
        f"Server CPU time per second of a stream ({transport})",
        "Medians; bars join the least and the greatest repetition.",
        Axis("viewers", logarithmic([table.clients for table in tables]), format.count),
        Axis("CPU time per stream-second", logarithmic(values), format.seconds),
        series,
        shape="wide",
    )


def _series(tables: Sequence[Table]) -> list[Series]:
    """Returns the series: a colour and a mark per server, a line per rate."""
    drawn = []
    for number, competitor in enumerate(COMPETITORS):
        for line, rate in zip(LINES, dict.fromkeys(table.rate for table in tables), strict=False):
            points: list[Point | None] = []
            for table in tables:
                row = table.row(competitor.name) if table.rate == rate else None
                if row is not None and row.cost is not None and row.is_sound:
                    cost = row.cost
                    points.append(Point(table.clients, cost.median, format.seconds(cost.median), cost.low, cost.high))
            if points:
                name = f"{competitor.name}, {rate}bit/s"
                drawn.append(Series(name, number + 1, points, MARKS[number % len(MARKS)], line))
    return drawn
