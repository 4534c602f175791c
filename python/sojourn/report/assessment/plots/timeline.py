"""The measurement over time: throughput, p95 and CPU, from `timeline.parquet`.

Only this file knows the names of its columns; an absent column omits its curve, and the caption says so. Each climb of
the staircase counts time from its own start; the plots lay the climbs side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars

from sojourn.report.assessment.run import Run
from sojourn.report.chart import Axis, Chart, Line, Missing, Point, Series
from sojourn.report.scales import Scale, linear, logarithmic
from sojourn.text import format

CLIMB = "climb"
TIME = "time_seconds"
STEP = "step"
OFFERED = "offered_requests_per_second"
THROUGHPUT = "requests_per_second"
FIRST_BYTE_P95 = "time_to_first_byte_intended_p95_seconds"
SERVER_CPU = "server_cpu_fraction"
GENERATOR_CPU = "generator_cpu_fraction"
SERVER_LOST = "server_core_lost_seconds"
GENERATOR_LOST = "generator_core_lost_seconds"

ROWS_MAX = 400
"""The most points of a plot: a screen has no more columns. More rows are merged into wider intervals."""
GAP_SECONDS = 3.0
"""The gap between two climbs in the plot."""

Curve = tuple[str, str, int, Line]


def timeline_throughput(run: Run) -> Chart | Missing:
    """Offered load and throughput over time."""
    curves: list[Curve] = [("answered", THROUGHPUT, 1, "solid"), ("offered", OFFERED, 2, "dashed")]
    return _chart(run, "throughput", "Throughput over time", "requests/s", curves, linear, format.number)


def timeline_response_time(run: Run) -> Chart | Missing:
    """The p95 of time to first byte over time."""
    curves: list[Curve] = [("p95 time to first byte", FIRST_BYTE_P95, 3, "solid")]
    title = "p95 time to first byte over time"
    return _chart(run, "response-time", title, "p95 time to first byte", curves, logarithmic, format.seconds)


def timeline_cpu(run: Run) -> Chart | Missing:
    """CPU of the server and of the generator over time."""
    curves: list[Curve] = [("server", SERVER_CPU, 1, "solid"), ("generator", GENERATOR_CPU, 4, "dashed")]
    return _chart(run, "cpu", "CPU over time", "% of one core", curves, linear, format.percent)


def timeline_lost(run: Run) -> Chart | Missing:
    """CPU time that each core lost to other processes, interrupts and the hypervisor."""
    curves: list[Curve] = [
        ("server's core", SERVER_LOST, 1, "solid"),
        ("generator's core", GENERATOR_LOST, 4, "dashed"),
    ]
    unit = "lost in a window of 0.1 s"
    return _chart(run, "lost", "Time lost to other programs", unit, curves, linear, format.seconds)


def timeline_queue(run: Run) -> Chart | Missing:
    """Connections waiting to be accepted, if the server was probed."""
    curves: list[Curve] = [("accept queue", "probe_accept_queue", 2, "solid")]
    return _chart(run, "queue", "Accept queue over time", "connections", curves, linear, format.count)


def timeline_memory(run: Run) -> Chart | Missing:
    """Memory usage, if the server was probed."""
    curves: list[Curve] = [
        ("resident", "probe_resident_bytes", 1, "solid"),
        ("shared pages divided", "probe_proportional_bytes", 3, "dashed"),
    ]
    return _chart(run, "memory", "Memory over time", "bytes", curves, linear, format.size)


def _chart(
    run: Run,
    name: str,
    title: str,
    unit: str,
    curves: Sequence[Curve],
    scale: Callable[[list[float]], Scale],
    write: Callable[[float], str],
) -> Chart | Missing:
    identifier = f"plot-timeline-{name}"
    if run.timeline is None or not {CLIMB, TIME} <= set(run.timeline.columns):
        return Missing(identifier, title, f"there is no timeline: {run.because_incomplete}")
    climbs = _climbs(run.timeline, run.points)
    series = [_series(curve, climbs, write) for curve in curves]
    drawn = [each for each in series if any(each.points)]
    if not drawn:
        return Missing(identifier, title, "the timeline does not contain it")
    values = [point.y for each in drawn for point in each.points if point]
    times = [float(time) for climb in climbs for time in climb[TIME]]
    missing = [each.name for each in series if not any(each.points)]
    return Chart(
        identifier,
        title,
        _caption(run.timeline, climbs, missing),
        Axis("time (s), climb after climb", linear(times, high=max(times)), format.number),
        Axis(unit, scale(values), write),
        drawn,
        shape="low",
    )


def _climbs(timeline: polars.DataFrame, points: polars.DataFrame | None) -> list[polars.DataFrame]:
    """The rows of each climb, merged into wider intervals and shifted to follow one another."""
    wide = -(-timeline.height // ROWS_MAX)
    shifted = []
    start = 0.0
    for climb in timeline.partition_by(CLIMB, maintain_order=True):
        rows = _joined(_with_offered(climb, points), wide)
        rows = rows.with_columns(polars.col(TIME) - rows[TIME][0] + start)
        start = float(rows[TIME][-1]) + GAP_SECONDS
        shifted.append(rows)
    return shifted


def _with_offered(climb: polars.DataFrame, points: polars.DataFrame | None) -> polars.DataFrame:
    # A row holds its step's number only; the table of points has the offered load.
    if points is None or not {CLIMB, OFFERED} <= set(points.columns) or STEP not in climb.columns:
        return climb
    offered = points.filter(polars.col(CLIMB) == climb[CLIMB][0])[OFFERED].to_list()
    by_row = [offered[step] if step is not None and step < len(offered) else None for step in climb[STEP]]
    return climb.with_columns(polars.Series(OFFERED, by_row, dtype=polars.Float64))


def _joined(climb: polars.DataFrame, wide: int) -> polars.DataFrame:
    # Percentiles cannot be averaged: the largest represents the interval.
    columns = [column for column in climb.columns if column not in (CLIMB, STEP)]
    joined = [polars.col(column).max() if column == FIRST_BYTE_P95 else polars.col(column).mean() for column in columns]
    interval = (polars.int_range(polars.len()) // wide).alias("interval")
    return climb.group_by(interval, maintain_order=True).agg(polars.col(CLIMB).first(), *joined)


def _series(curve: Curve, climbs: list[polars.DataFrame], write: Callable[[float], str]) -> Series:
    name, column, colour, line = curve
    points: list[Point | None] = []
    for climb in climbs:
        if column not in climb.columns:
            continue
        for where, time, value in zip(climb[CLIMB], climb[TIME], climb[column], strict=True):
            # A p95 of zero means an interval without an answer, which a logarithmic axis cannot show.
            drawable = value is not None and (value > 0 or column != FIRST_BYTE_P95)
            points.append(Point(time, float(value), f"{write(value)} in {where}") if drawable else None)
        points.append(None)
    return Series(name, colour, points, line=line)


def _caption(timeline: polars.DataFrame, climbs: list[polars.DataFrame], missing: list[str]) -> str:
    names = ", ".join(str(climb[CLIMB][0]) for climb in climbs)
    rows = sum(climb.height for climb in climbs)
    said = f"From left to right: {names}."
    if rows < timeline.height:
        said += f" {timeline.height:,} rows are drawn as {rows:,}: means, and of a p95 the largest."
    return said + (f" Not measured: {', '.join(missing)}." if missing else "")
