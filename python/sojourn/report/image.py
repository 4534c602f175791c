"""Writes a chart as a standalone SVG with title, legend and style, for use in other documents.

It reuses the report's drawing, and lays out the title and legend that HTML places there.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from sojourn.report.chart import Chart, Series
from sojourn.report.drawing import LAYOUTS, drawn, drawn_mark
from sojourn.report.markup import Markup, element, join
from sojourn.results.run_folder import RunFolder

PLOTS = "plots"
MARGIN = 16.0
TITLE_HEIGHT = 30.0
ROW_HEIGHT = 20.0
SWATCH_WIDTH = 36.0
LETTER_WIDTH = 6.7
"""The width of an average letter of the legend, with some space, since text cannot be measured here."""
GAP = 18.0
_STYLE = """
svg { font: 12.5px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.paper { fill: var(--paper); }
svg text.title { font-size: 15px; font-weight: 600; fill: var(--ink); }
.focus { display: none; }
"""


def write_images(folder: RunFolder, charts: Iterable[Chart]) -> None:
    """Writes each chart under its name to the folder's `plots`."""
    (folder.path / PLOTS).mkdir(exist_ok=True)
    for chart in charts:
        folder.write_text(f"{PLOTS}/{chart.identifier.removeprefix('plot-')}.svg", image(chart))


def image(chart: Chart) -> str:
    layout = LAYOUTS[chart.shape]
    entries, legend_height = _legend(chart, layout.width)
    head = TITLE_HEIGHT + legend_height + GAP / 2
    width, height = layout.width + 2 * MARGIN, head + layout.height + 2 * MARGIN
    place = {"x": MARGIN, "y": MARGIN + head, "width": layout.width, "height": layout.height}
    return element(
        "svg",
        element("style", Markup(files("sojourn.report").joinpath("plot.css").read_text() + _STYLE)),
        element("rect", width=width, height=height, class_="paper"),
        element("text", chart.title, x=MARGIN, y=MARGIN + 14, class_="title"),
        element("g", entries, transform=f"translate({MARGIN:g} {MARGIN + TITLE_HEIGHT:g})"),
        drawn(chart, layout, "alone", **place),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=chart.title,
    )


def _legend(chart: Chart, width: float) -> tuple[Markup, float]:
    """Lays the legend's entries out from left to right in as many rows as needed; returns them with their height."""
    drawn_entries = []
    x, row = 0.0, 0
    for series in chart.series:
        needed = SWATCH_WIDTH + len(series.name) * LETTER_WIDTH
        if x > 0 and x + needed > width:
            x, row = 0.0, row + 1
        drawn_entries.append(_entry(series, x, row * ROW_HEIGHT + ROW_HEIGHT / 2))
        x += needed + GAP
    return join(drawn_entries), (row + 1) * ROW_HEIGHT


def _entry(series: Series, x: float, y: float) -> Markup:
    line = element("path", d=f"M{x:.1f} {y:.1f}h28", class_=f"line {series.line}") if series.line else None
    mark = drawn_mark(series.mark, x + 14, y, "plain") if series.mark else None
    swatch = element("g", line, mark, class_=f"colour-{series.colour}")
    return join(swatch, element("text", series.name, x=x + SWATCH_WIDTH, y=y + 4, class_="label"))
