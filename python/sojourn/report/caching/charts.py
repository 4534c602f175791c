"""The curves: miss ratio and byte miss ratio over the cache size, a line per policy."""

from __future__ import annotations

from collections.abc import Callable

from sojourn.caching.simulation import Point, Simulation
from sojourn.report import chart
from sojourn.report.chart import Axis, Chart, Line, Mark, Series
from sojourn.report.scales import linear, logarithmic
from sojourn.text import format

_STYLES: tuple[tuple[int, Mark, Line], ...] = (
    (1, "disc", "solid"),
    (2, "square", "solid"),
    (3, "triangle", "solid"),
    (4, "diamond", "solid"),
    (1, "down", "dashed"),
    (2, "disc", "dashed"),
    (0, "square", "dotted"),
)


def curves(found: Simulation) -> list[Chart]:
    """A chart of requests, and one of bytes."""
    return [
        _curve(found, "plot-misses", "Requests missed", lambda point: point.miss_ratio),
        _curve(found, "plot-bytes", "Bytes missed", lambda point: point.byte_miss_ratio),
    ]


def _curve(found: Simulation, identifier: str, title: str, ratio: Callable[[Point], float]) -> Chart:
    series = []
    for index, policy in enumerate(found.policies()):
        colour, mark, line = _STYLES[index % len(_STYLES)]
        points = [
            chart.Point(
                point.cache_bytes,
                ratio(point),
                f"{policy}: {format.percent(ratio(point))} at {format.size(point.cache_bytes)}",
            )
            for point in found.of(policy)
        ]
        series.append(Series(policy, colour, points, mark, line))
    ratios = [ratio(point) for point in found.points]
    return Chart(
        identifier,
        title,
        "Simulated for every size; lower is better.",
        Axis("cache size", logarithmic(found.sizes(), base=2), format.size),
        Axis("share missed", linear(ratios), format.percent),
        series,
    )
