"""The measurement over time, second by second: throughput, p95 and CPU, from `timeline.parquet`.

The names of its columns are in this file alone; a column that is absent leaves its curve out, and says so.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

import polars

from sojourn.report import format
from sojourn.report.chart import Axis, Chart, Line, Missing, Point, Series
from sojourn.report.run import Run
from sojourn.report.scales import Scale, linear, logarithmic

TIME = "seconds"
OFFERED = "offered_requests_per_second"
THROUGHPUT = "requests_per_second"
FIRST_BYTE_P95 = "time_to_first_byte_p95_seconds"
RESPONSE_P95 = "response_time_p95_seconds"
SERVER_CPU = "server_cpu_fraction"
GENERATOR_CPU = "generator_cpu_fraction"

ROWS_MAX = 700
"""More rows than this are averaged into wider intervals: a screen has no more columns to show them."""

Curve = tuple[str, str, int, Line]


def timeline_throughput(run: Run) -> Chart | Missing:
    """Offered load and throughput over time."""
    curves: list[Curve] = [("offered", OFFERED, 0, "dashed"), ("answered", THROUGHPUT, 1, "solid")]
    return _chart(run, "throughput", "Throughput over time", "requests/s", curves, linear, format.number)


def timeline_response_time(run: Run) -> Chart | Missing:
    """The p95 of both times over time."""
    curves: list[Curve] = [
        ("p95 response time", RESPONSE_P95, 2, "solid"),
        ("p95 time to first byte", FIRST_BYTE_P95, 3, "dashed"),
    ]
    return _chart(run, "response-time", "Response time over time", "time", curves, logarithmic, format.seconds)


def timeline_cpu(run: Run) -> Chart | Missing:
    """CPU of the server and of the generator over time."""
    curves: list[Curve] = [("server", SERVER_CPU, 1, "solid"), ("generator", GENERATOR_CPU, 4, "dashed")]
    return _chart(run, "cpu", "CPU over time", "% of one core", curves, linear, format.percent)


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
    table = run.timeline
    if table is None or TIME not in table.columns:
        return Missing(identifier, title, f"there is no timeline: {run.because_incomplete}")
    rows = _thinned(table)
    series = [_series(curve, rows, write) for curve in curves if curve[1] in rows.columns]
    drawn = [each for each in series if any(each.points)]
    if not drawn:
        return Missing(identifier, title, "the timeline does not hold it")
    values = [point.y for each in drawn for point in each.points if point]
    times = [float(value) for value in rows[TIME]]
    caption = "Gaps: the generator was not sending."
    if rows.height < table.height:
        caption += f" {table.height:,} rows of the timeline were averaged into {rows.height:,}."
    missing = [curve[0] for curve in curves if curve[0] not in {each.name for each in drawn}]
    if missing:
        caption += f" Not measured: {', '.join(missing)}."
    return Chart(
        identifier,
        title,
        caption,
        Axis("time since the start of the rising load (s)", linear(times, high=max(times)), format.number),
        Axis(unit, scale(values), write),
        drawn,
        shape="low",
    )


def _thinned(table: polars.DataFrame) -> polars.DataFrame:
    ordered = table.sort(TIME)
    if ordered.height <= ROWS_MAX:
        return ordered
    wide = -(-ordered.height // ROWS_MAX)
    numeric = polars.selectors.numeric()
    bucket = (polars.int_range(polars.len()) // wide).alias("bucket")
    return ordered.group_by(bucket, maintain_order=True).agg(numeric.mean())


def _series(curve: Curve, rows: polars.DataFrame, write: Callable[[float], str]) -> Series:
    name, column, colour, line = curve
    times = [float(value) for value in rows[TIME]]
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    gap = 3 * statistics.median(steps) if steps else 0.0
    points: list[Point | None] = []
    for index, (time, value) in enumerate(zip(times, rows[column], strict=True)):
        if index and steps[index - 1] > gap:
            points.append(None)
        # A p95 of zero would be an interval without a request; no logarithmic axis can hold it.
        drawable = value is not None and (value > 0 or not column.endswith("_seconds"))
        points.append(Point(time, float(value), f"{write(value)} at {format.number(time)} s") if drawable else None)
    return Series(name, colour, points, line=line)
