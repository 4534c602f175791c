"""The page and the folder of a cache simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from sojourn.caching.simulation import Point, Simulation
from sojourn.report import chart
from sojourn.report.chart import Axis, Chart, Line, Mark, Series
from sojourn.report.drawing import figure
from sojourn.report.image import write_images
from sojourn.report.markup import element, join, shell
from sojourn.report.scales import linear, logarithmic
from sojourn.report.tables import grid, pairs
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

SUMMARY = "cache.json"
REPORT = "report.html"
POINTS = "points.parquet"
SOURCES = (SUMMARY, POINTS)


def prepare(path: Path) -> RunFolder:
    """Creates the folder; refuses one that holds a simulation."""
    return RunFolder.create(path, holds=(SUMMARY,), inside="plots")


def write(folder: RunFolder, found: Simulation) -> Path | None:
    """Writes everything and returns the page's path."""
    folder.write_json(SUMMARY, found.as_json())
    folder.write_table(POINTS, [asdict(point) for point in found.points])
    write_images(folder, curves(found))
    folder.write_text(REPORT, page(found))
    return folder.written(REPORT)


def page(found: Simulation) -> str:
    charts = element("div", [figure(chart) for chart in curves(found)], class_="plots")
    ratios: dict[str, tuple[str, Callable[[Point], float]]] = {
        "misses": ("Requests missed", lambda point: point.miss_ratio),
        "bytes": ("Bytes missed", lambda point: point.byte_miss_ratio),
    }
    policies = found.policies()
    tables = []
    for name, (title, ratio) in ratios.items():
        by_policy = [found.of(policy) for policy in policies]
        rows = [
            [format.size(size), *(format.percent(ratio(points[index])) for points in by_policy)]
            for index, size in enumerate(found.sizes())
        ]
        tables.append(grid(f"table-{name}", title, [["cache", *policies]], rows))
    about = [
        ("trace", found.source),
        ("requests", format.count(found.requests)),
        ("objects", format.count(found.objects)),
        ("bytes requested", format.size(found.requested_bytes)),
        ("all objects together", format.size(found.working_set_bytes)),
        ("admission", found.admission),
        ("largest object admitted", format.size(found.object_bytes_max) if found.object_bytes_max else "any"),
    ]
    main = join(
        element("section", element("h2", "Curves"), charts, id="curves"),
        element("section", element("h2", "Tables"), tables, id="tables"),
        element("section", element("h2", "Trace"), pairs("table-trace", "What was simulated", about), id="trace"),
    )
    name = Path(found.source).name
    return shell("cache simulation", "Replacement policies", name, main, found.version, SOURCES)


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
    """A chart by requests, and one by bytes."""
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
