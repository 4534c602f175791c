"""The log in plots: sizes, popularity and the rhythm of its day."""

from __future__ import annotations

import math

from sojourn.report import format
from sojourn.report.characteristics import LogNormal, ParetoTail
from sojourn.report.chart import Axis, Chart, Missing, Point, Series
from sojourn.report.run import Run
from sojourn.report.scales import linear, logarithmic

CURVE_POINTS = 80


def transfer_sizes(run: Run) -> Chart | Missing:
    """The distribution function of transfer sizes with both fits."""
    identifier, title = "plot-sizes", "Transfer sizes"
    log = run.characteristics
    measured = [(size, fraction) for size, fraction in log.size_quantiles() if size > 0]
    if len(measured) < 2:
        return Missing(identifier, title, "the log's sizes were not characterised")
    sizes = [size for size, _ in measured]
    series = [
        Series(
            "log",
            1,
            [Point(x, y, f"{format.percent(y)} are at most {format.size(x)}") for x, y in measured],
            line="solid",
        )
    ]
    caption = "Fraction of transfers that are at most this large."
    if (normal := log.log_normal()) is not None:
        series.append(Series("log-normal fit", 2, _log_normal_curve(normal, sizes), line="dashed"))
        caption += f" Log-normal: μ = {normal.mu:.3f}, σ = {normal.sigma:.3f}{_distance(normal.distance)}."
    if (tail := log.pareto_tail()) is not None:
        series.append(Series("Pareto tail", 4, _pareto_curve(tail, max(sizes)), line="dotted"))
        begins = format.size(tail.minimum_bytes)
        caption += f" Pareto tail: α = {tail.alpha:.2f} above {begins}{_distance(tail.distance)}."
    return Chart(
        identifier,
        title,
        caption,
        Axis("transfer size", logarithmic(sizes, base=2), format.size),
        Axis("fraction of transfers", linear([], 0.0, 1.0), format.percent),
        series,
    )


def popularity(run: Run) -> Chart | Missing:
    """Requests by rank, log-log, with Zipf's law."""
    identifier, title = "plot-popularity", "Popularity of documents"
    measured = [(rank, requests) for rank, requests in run.characteristics.popularity() if rank > 0 < requests]
    if len(measured) < 2:
        return Missing(identifier, title, "the log's popularity was not characterised")
    marks = [Point(x, y, f"rank {format.count(x)}: {format.count(y)} requests") for x, y in measured]
    series = [Series("log", 1, marks, mark="disc")]
    caption = "Documents in order of their requests."
    if (slope := run.characteristics.popularity_slope()) is not None:
        series.append(Series("Zipf's law", 2, _zipf_line(abs(slope), measured), line="dashed"))
        caption += f" Zipf's law: requests fall as rank to the power −{abs(slope):.2f}."
    return Chart(
        identifier,
        title,
        caption,
        Axis("rank of the document", logarithmic(x for x, _ in measured), format.number),
        Axis("requests", logarithmic(y for _, y in measured), format.number),
        series,
    )


def daily_rhythm(run: Run) -> Chart | Missing:
    """The mean rate over the hours of the day."""
    identifier, title = "plot-rhythm", "Rhythm of the day"
    measured = run.characteristics.daily_rhythm()
    if not measured:
        return Missing(identifier, title, "the log's daily rhythm was not characterised")
    points = [Point(hour, y, f"{format.rate(y)} from {hour:.0f}:00") for hour, y in measured]
    last_hour, last_rate = measured[-1]
    return Chart(
        identifier,
        title,
        "Mean rate of the requests in each hour of the day, in the log's own time zone.",
        Axis("hour of the day", linear([], 0.0, 24.0), lambda hour: f"{hour:.0f}"),
        Axis("requests/s", linear(y for _, y in measured), format.number),
        [Series("log", 1, [*points, Point(last_hour + 1, last_rate)], line="solid", stepped=True)],
    )


def _log_normal_curve(fit: LogNormal, sizes: list[float]) -> list[Point]:
    return [
        Point(x, 0.5 * (1 + math.erf((math.log(x) - fit.mu) / (fit.sigma * math.sqrt(2)))))
        for x in _along(min(sizes), max(sizes))
    ]


def _pareto_curve(fit: ParetoTail, largest: float) -> list[Point]:
    return [
        Point(x, 1 - fit.tail_fraction * (fit.minimum_bytes / x) ** fit.alpha)
        for x in _along(fit.minimum_bytes, max(largest, fit.minimum_bytes * 1.01))
    ]


def _zipf_line(slope: float, measured: list[tuple[float, float]]) -> list[Point]:
    # The law fixes the slope only; the line goes through the middle of the points, in logarithms.
    middle = sum(math.log(y) + slope * math.log(x) for x, y in measured) / len(measured)
    ends = (measured[0][0], measured[-1][0])
    return [Point(x, math.exp(middle - slope * math.log(x))) for x in ends]


def _along(low: float, high: float) -> list[float]:
    return [low * (high / low) ** (index / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)]


def _distance(value: float | None) -> str:
    return "" if value is None else f", Kolmogorov-Smirnov distance {value:.3f}"
