"""The log in plots: sizes, popularity and the rhythm of its day."""

from __future__ import annotations

import math

import numpy as np

from sojourn.report.assessment.run import Run
from sojourn.report.chart import Axis, Chart, Missing, Point, Series
from sojourn.report.scales import linear, logarithmic
from sojourn.text import format
from sojourn.workload.characteristics import Characteristics, LogNormal, ParetoTail

CURVE_POINTS = 80


def transfer_sizes(run: Run) -> Chart | Missing:
    """The distribution function of transfer sizes with both fits."""
    identifier, title = "plot-sizes", "Transfer sizes"
    log = run.characteristics
    measured = [(size, fraction) for size, fraction in log.size_distribution() if size > 0]
    if len(measured) < 2:
        return Missing(identifier, title, "the log's sizes were not characterised")
    sizes = [size for size, _ in measured]
    points = [Point(x, y, f"{format.percent(y)} are at most {format.size(x)}") for x, y in measured]
    series = [Series("log", 1, points, line="solid")]
    caption = "Fraction of transfers that are at most this large."
    if (empty := log.empty_fraction()) > 0:
        caption += f" Empty transfers: {format.percent(empty)}."
    if (normal := log.log_normal()) is not None:
        curve = _log_normal_curve(normal, sizes, empty)
        series.append(Series("log-normal fit", 2, curve, line="dashed"))
        caption += f" Log-normal: μ = {normal.mu:.3f}, σ = {normal.sigma:.3f}; {normal.goodness}."
    if (tail := log.pareto_tail()) is not None:
        series.append(Series("Pareto tail", 4, _pareto_curve(tail, max(sizes)), line="dotted"))
        begins = format.size(tail.minimum_bytes)
        caption += f" Pareto tail: α = {tail.alpha:.2f} above {begins}; {tail.goodness}."
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
    log = run.characteristics
    measured = [(rank, requests) for rank, requests in log.popularity() if rank > 0 and requests > 0]
    if len(measured) < 2:
        return Missing(identifier, title, "the log's popularity was not characterised")
    points = [Point(x, y, f"rank {format.count(x)}: {format.count(y)} requests") for x, y in measured]
    series = [Series("log", 1, points, line="solid")]
    caption = "Documents in order of their requests."
    law = _zipf_law(log, [rank for rank, _ in measured])
    requests = [*(requests for _, requests in measured), *(point.y for point in law)]
    if law:
        series.append(Series("Zipf's law", 2, law, line="dashed"))
        slope = log.popularity_slope()
        caption += f" Zipf's law: requests fall as rank to the power −{slope:.2f}; {log.popularity_goodness()}."
    return Chart(
        identifier,
        title,
        caption,
        Axis("rank of the document", logarithmic(x for x, _ in measured), format.number),
        Axis("requests", logarithmic(requests), format.number),
        series,
    )


def daily_rhythm(run: Run) -> Chart | Missing:
    """The mean rate over the hours of the day."""
    identifier, title = "plot-rhythm", "Rhythm of the day"
    measured = dict(run.characteristics.daily_rhythm())
    if not measured:
        return Missing(identifier, title, "the log's daily rhythm was not characterised")
    points: list[Point | None] = []
    for hour in range(24):
        rate = measured.get(hour)
        if rate is None:
            points.append(None)
            continue
        points.append(Point(hour, rate, f"{format.rate(rate)} from {hour}:00"))
        if measured.get(hour + 1) is None:
            points.append(Point(hour + 1, rate))
    return Chart(
        identifier,
        title,
        "Mean rate of the requests in each hour of the day, by the log's own clock.",
        Axis("hour of the day", linear([], 0.0, 24.0), lambda hour: f"{hour:.0f}"),
        Axis("requests/s", linear(measured.values()), format.number),
        [Series("log", 1, points, line="solid", stepped=True)],
        shape="low",
    )


def _log_normal_curve(fit: LogNormal, sizes: list[float], empty: float) -> list[Point]:
    def below(size: float) -> float:
        return 0.5 * (1 + math.erf((math.log(size) - fit.mu) / (fit.sigma * math.sqrt(2))))

    return [Point(x, empty + (1 - empty) * below(x)) for x in _along(min(sizes), max(sizes))]


def _pareto_curve(fit: ParetoTail, largest: float) -> list[Point]:
    return [
        Point(x, 1 - fit.tail_fraction * (fit.minimum_bytes / x) ** fit.alpha)
        for x in _along(fit.minimum_bytes, max(largest, fit.minimum_bytes * 1.01))
    ]


def _zipf_law(log: Characteristics, ranks: list[float]) -> list[Point]:
    slope, requests, files = log.popularity_slope(), log.figure("requests"), log.figure("files")
    if slope is None or requests is None or not files:
        return []
    total = float(np.sum(np.arange(1, files + 1) ** -slope))
    ends = (min(ranks), max(ranks))
    return [Point(rank, requests * rank**-slope / total) for rank in ends]


def _along(low: float, high: float) -> list[float]:
    return [low * (high / low) ** (index / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)]
