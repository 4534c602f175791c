"""The plots of a load run: throughput, latencies and CPU over time, and the distribution of latencies.

In plots over time each point is an interval, with percentiles from the interval's own histogram.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sojourn.loading.folder import LoadRun
from sojourn.loading.result import Column
from sojourn.report.chart import Axis, Chart, Line, Missing, Point, Series
from sojourn.report.scales import Logarithmic, Scale, linear, logarithmic
from sojourn.text import format

POINTS_MAX = 600
"""The most points of a plot: a screen has no more columns, so neighbouring intervals are merged."""
_NO_INTERVALS = "the run was too short for an interval, or stored none"

Plot = Callable[[LoadRun], Chart | Missing]


def throughput(run: LoadRun) -> Chart | Missing:
    """Good responses, failures and offered requests per second."""
    table = run.result.interval_table
    series = [series_of("answered", 1, "solid", table, "requests_per_second", format.number)]
    if run.result.errors:
        series.append(series_of("failed", 2, "dashed", table, "errors_per_second", format.number))
    offered = series_of("offered", 0, "dotted", run.result.timeline, "offered_requests_per_second", format.number)
    # In a closed loop the offered rate equals the answered rate.
    if any(offered.points):
        series.append(offered)
    return over_time("throughput", "Throughput over time", series, "requests per second", linear, format.number)


def latency(run: LoadRun) -> Chart | Missing:
    """Percentiles of the response time."""
    names: list[tuple[str, str, int, Line]] = [
        ("max", "max", 0, "dotted"),
        ("p99", "p99", 2, "solid"),
        ("p90", "p90", 3, "dashed"),
        ("p50", "p50", 1, "solid"),
    ]
    table = run.result.interval_table
    series = [
        series_of(name, colour, line, table, f"response_time_{key}_seconds", format.seconds)
        for name, key, colour, line in names
    ]
    return over_time(
        "latency", "Response time over time", series, "response time", logarithmic, format.seconds, shape="wide"
    )


def cpu(run: LoadRun) -> Chart | Missing:
    """CPU use of server and generator over time."""
    table = run.result.interval_table
    observed = bool(np.isfinite(table.get("server_cpu_fraction", np.array([]))).any())
    server = "server_cpu_fraction" if observed else "probe_cpu_seconds_per_second"
    series = [
        series_of("server", 1, "solid", table, server, format.percent),
        series_of("generator", 4, "dashed", table, "generator_cpu_fraction", format.percent),
    ]
    return over_time("cpu", "CPU over time", series, "% of one core", linear, format.percent)


def in_flight(run: LoadRun) -> Chart | Missing:
    """Requests in flight and open connections over time."""
    series = [
        series_of("requests in flight", 1, "solid", run.result.timeline, "in_flight", format.count),
        series_of("connections open", 3, "dashed", run.result.timeline, "connections_open", format.count),
    ]
    return over_time("in-flight", "Requests in flight over time", series, "number", linear, format.count)


DISTRIBUTIONS: tuple[tuple[str, str, int, Line], ...] = (
    ("response time, from when it was due", "response_time", 2, "solid"),
    ("response time, from when it was sent", "response_time_sent", 0, "dashed"),
    ("time to first byte", "time_to_first_byte_intended", 1, "solid"),
    ("transfer", "transfer_time", 3, "dashed"),
    ("connect", "connect_time", 4, "dotted"),
)


def distribution(run: LoadRun) -> Chart | Missing:
    """All percentiles up to the slowest request, with the tail as wide as the body."""
    identifier, title = "plot-distribution", "Latency by percentile"
    histograms = run.result.latencies
    series = []
    for name, tag, colour, line in DISTRIBUTIONS:
        if tag in histograms and len(histograms[tag]):
            series.append(Series(name, colour, _percentiles(*histograms[tag].recorded()), line=line))
    points = [point for each in series for point in each.points if point]
    if not points:
        return Missing(identifier, title, "there was no response")
    rarest = max(point.x for point in points)
    return Chart(
        identifier,
        title,
        "Each mark of the axis is ten times rarer than the one before. Every request counts from when it was due; the"
        " dashed grey line counts from when it was sent, as tools with coordinated omission do.",
        Axis("percentile", _Rarity(1.0, max(10.0, rarest * 1.1)), _percentile),
        Axis("latency", logarithmic([point.y for point in points]), format.seconds),
        series,
        shape="wide",
    )


SECTIONS: dict[str, list[Plot]] = {
    "over_time": [throughput, cpu, latency, in_flight],
    "distribution": [distribution],
}
"""The plots under each heading of the page."""


def _percentiles(seconds: Column, counts: NDArray[np.uint64]) -> list[Point | None]:
    """The percentile curve as points, by rarity: one in how many requests is slower."""
    total = float(counts.sum())
    longer = total - np.cumsum(counts)
    # The slowest request is one in as many as there are.
    rarity = np.where(longer > 0, total / np.maximum(longer, 1), total)
    points = list[Point | None]()
    before = 0.0
    for time, rare in zip(seconds, rarity, strict=True):
        # Steps smaller than a pixel are left out.
        if rare > before * 1.03 or time == seconds[-1]:
            points.append(Point(float(rare), float(time), f"{format.seconds(time)} at {_percentile(float(rare))}"))
            before = rare
    return points


class _Rarity(Logarithmic):
    """Rarity as a scale: a tick for the median and for each further nine."""

    def ticks(self, about: int) -> list[float]:
        every = 1 + int(math.log10(self.high)) // max(2, about)
        nines = [10.0**power for power in range(1, 20, every)]
        return [tick for tick in (1.0, 2.0, *nines) if tick <= self.high]


def _percentile(rarity: float) -> str:
    # Enough digits to distinguish it from 100 %.
    digits = max(0, math.ceil(math.log10(rarity) - 1e-9) - 2)
    return f"{100 * (1 - 1 / rarity):.{digits}f} %"


def series_of(
    name: str,
    colour: int,
    line: Line,
    table: Mapping[str, Column],
    column: str,
    write: Callable[[float], str],
) -> Series:
    """A table's column over time, as a line."""
    if column not in table:
        return Series(name, colour, (), line=line)
    times, values = _joined(table["time_seconds"], table[column])
    points = [
        None if math.isnan(value) else Point(float(time), float(value), f"{write(value)} at {format.number(time)} s")
        for time, value in zip(times, values, strict=True)
    ]
    return Series(name, colour, points, line=line)


def _joined(times: Column, values: Column) -> tuple[Column, Column]:
    # Of percentiles the largest represents its neighbours; for rates that is accurate enough at a screen's resolution.
    wide = -(-len(times) // POINTS_MAX)
    starts = np.arange(0, len(times), wide) if len(times) else np.zeros(0, dtype=int)
    if wide == 1 or not len(times):
        return times, values
    return times[starts], np.fmax.reduceat(values, starts)


def over_time(
    name: str,
    title: str,
    series: Sequence[Series],
    unit: str,
    scale: Callable[[list[float]], Scale],
    write: Callable[[float], str],
    shape: Literal["half", "wide"] = "half",
) -> Chart | Missing:
    """Lines over the run's time; a note names those without a point."""
    identifier = f"plot-{name}"
    drawn = [each for each in series if any(each.points)]
    missing = [each.name for each in series if not any(each.points)]
    if not drawn:
        return Missing(identifier, title, _NO_INTERVALS)
    points = [point for each in drawn for point in each.points if point]
    times = [point.x for point in points]
    caption = f"Not measured: {', '.join(missing)}." if missing else ""
    return Chart(
        identifier,
        title,
        caption,
        Axis("time since the run's start (s)", linear(times, low=min(times), high=max(times)), format.number),
        Axis(unit, scale([point.y for point in points]), write),
        drawn,
        shape=shape,
    )
