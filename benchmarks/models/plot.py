"""The plots of the page: speed against r, and each program's mean against the exact one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from benchmarks.models.cases import LIMITS, Case
from benchmarks.models.competitors import Competitor
from benchmarks.models.record import Cell, Record
from sojourn.report.chart import Axis, Chart, Line, Mark, Point, Series
from sojourn.report.scales import Logarithmic, logarithmic
from sojourn.text import format

LOOKS: dict[str, tuple[int, Mark, Line]] = {
    "sojourn": (1, "disc", "solid"),
    "c": (0, "diamond", "dashed"),
    "simpy": (2, "square", "dashed"),
    "ciw": (3, "triangle", "dashed"),
    "line": (4, "down", "dashed"),
}


def charts(record: Record, cases: Sequence[Case], everybody: Sequence[Competitor]) -> list[Chart]:
    """Returns the charts that have figures."""
    found = [_speed(record, everybody)]
    exact = [case for case in cases if case.law == "H2" and case.r is not None]
    if len(exact) > 1 and any(record.cell(case.name, "sojourn") for case in exact):
        found.append(_truth(record, exact, everybody))
    return found


def _speed(record: Record, everybody: Sequence[Competitor]) -> Chart:
    def rate(cell: Cell) -> tuple[float, float, float]:
        return cell.rate, min(cell.rates), max(cell.rates)

    # The distribution that most programs support; the C loop has the thesis's.
    series = _series(
        record, everybody, lambda name, r: f"thesis-{r}" if name == "c" else f"lps-H2-{r}", rate, _millions
    )
    if not any(each.name == "Sojourn" for each in series):
        series = _series(record, everybody, lambda _, r: f"thesis-{r}", rate, _jobs)
    return Chart(
        "speed",
        "Simulated jobs per CPU second: limited processor sharing at 80 % load",
        "Medians; bars join the least and the greatest repetition. Hyper-exponential demand, C² = 10; the C loop has "
        "the thesis's demand.",
        _limits(),
        Axis("million jobs per CPU second", logarithmic(_values(series)), _millions),
        series,
        shape="wide",
    )


def _truth(record: Record, exact: Sequence[Case], everybody: Sequence[Competitor]) -> Chart:
    def mean(cell: Cell) -> tuple[float, float, float]:
        width = cell.half_width if isfinite(cell.half_width) else 0.0
        return cell.mean, cell.mean - width, cell.mean + width

    points = [
        Point(case.r or 0, case.exact_seconds, format.seconds(case.exact_seconds))
        for case in exact
        if case.exact_seconds
    ]
    series = [Series("exact", 0, points, line="solid")]
    series += _series(record, everybody, lambda _, r: f"lps-H2-{r}", mean, format.seconds)
    return Chart(
        "truth",
        "Mean response time of M/H2/1/LPS at 80 % load, C² = 10",
        "Bars are 95 % intervals over the seeds. A program that ignores the limit r answers the same for all r.",
        _limits(),
        Axis("mean response time", logarithmic(_values(series)), format.seconds),
        series,
        shape="wide",
    )


def _series(
    record: Record,
    everybody: Sequence[Competitor],
    case_of: Callable[[str, int], str],
    figure: Callable[[Cell], tuple[float, float, float]],
    word: Callable[[float], str],
) -> list[Series]:
    drawn = []
    for each in everybody:
        points = []
        for r in LIMITS:
            cell = record.cell(case_of(each.name, r), each.name)
            if cell is not None:
                value, low, high = figure(cell)
                points.append(Point(r, value, f"{each.title}, r = {r}: {word(value)}", low, high))
        if points:
            colour, mark, line = LOOKS[each.name]
            drawn.append(Series(each.title, colour, points, mark=mark, line=line))
    return drawn


def _limits() -> Axis:
    return Axis("r, the most jobs in service", Logarithmic(0.8, 20.0, 2), format.count)


def _values(series: Sequence[Series]) -> list[float]:
    return [value for each in series for point in each.points if point for value in point.extent if value > 0]


def _millions(value: float) -> str:
    return format.number(value / 1e6)


def _jobs(value: float) -> str:
    return f"{format.number(value)} jobs/s"
