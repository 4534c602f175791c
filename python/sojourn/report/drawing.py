"""Draws a `Chart` as a figure: inline SVG, a legend, and tooltips.

Each plot is drawn twice, for wide and narrow screens, so that text keeps its size; the style sheet shows one of the
two. Colours come from the style sheet, so that the dark scheme and print need no second drawing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from sojourn.report.chart import Axis, Band, Chart, Guide, Line, Mark, Missing, Series, Trait
from sojourn.report.markup import Markup, element, join


@dataclass(frozen=True)
class Layout:
    """The size of a drawing and of the margins around its plot area, in pixels."""

    width: float
    height: float
    ticks_x: int
    ticks_y: int
    left: float = 62.0
    right: float = 14.0
    top: float = 18.0
    bottom: float = 46.0

    def across(self, axis: Axis, value: float) -> float:
        """The x coordinate of a value in layout units."""
        return self.left + axis.scale.position(value) * (self.width - self.left - self.right)

    def down(self, axis: Axis, value: float) -> float:
        """The y coordinate of a value in layout units, growing downwards."""
        return self.height - self.bottom - axis.scale.position(value) * (self.height - self.top - self.bottom)


LAYOUTS = {
    "half": Layout(568, 340, ticks_x=7, ticks_y=6),
    "wide": Layout(1160, 440, ticks_x=12, ticks_y=8),
    "low": Layout(1160, 220, ticks_x=12, ticks_y=4),
}
NARROW = Layout(360, 290, ticks_x=4, ticks_y=6, left=56.0, right=10.0)


LETTER_WIDTH = 6.4
"""The approximate width of a letter: tick labels that would overlap are left out."""


def figure(chart: Chart | Missing) -> Markup:
    """The figure of a plot, or a sentence with the reason for its absence."""
    if isinstance(chart, Missing):
        said = element("p", f"Not measured: {chart.because}", class_="missing")
        return element("figure", element("h3", chart.title), said, id=chart.identifier, class_="half")
    return element(
        "figure",
        element("h3", chart.title),
        legend(chart),
        drawn(chart, LAYOUTS[chart.shape], "for-wide"),
        drawn(chart, NARROW, "for-narrow"),
        element("figcaption", chart.caption),
        id=chart.identifier,
        class_=chart.shape,
    )


def drawn(chart: Chart, layout: Layout, class_: str, **place: float | str) -> Markup:
    """The SVG alone, without title and legend; `place` holds further attributes of its element."""
    clip = f"{chart.identifier}-{class_}-area"
    width, height = layout.width - layout.left - layout.right, layout.height - layout.top - layout.bottom
    area = element("rect", x=layout.left, y=layout.top - 3, width=width, height=height + 6)
    inside = join(
        [_band(band, chart, layout) for band in chart.bands],
        join(*(_guide_interval(guide, chart, layout) for guide in chart.guides)),
        [_series(series, chart, layout) for series in chart.series],
    )
    return element(
        "svg",
        element("defs", element("clipPath", area, id=clip)),
        _axes(chart, layout),
        element("g", inside, clip_path=f"url(#{clip})"),
        [_guide(guide, chart, layout) for guide in chart.guides],
        element("circle", r=7.0, class_="focus"),
        class_=f"plot {class_}",
        viewBox=f"0 0 {layout.width:g} {layout.height:g}",
        **place,
        role="img",
        aria_label=f"{chart.title}. {chart.caption}",
        data_points=json.dumps(list(_hover_points(chart, layout)), ensure_ascii=False, separators=(",", ":")),
    )


def _axes(chart: Chart, layout: Layout) -> Markup:
    bottom, right = layout.height - layout.bottom, layout.width - layout.right
    parts = []
    free = 0.0
    for value in chart.x.scale.ticks(layout.ticks_x):
        x, text = layout.across(chart.x, value), chart.x.tick(value)
        parts.append(element("line", x1=x, x2=x, y1=layout.top, y2=bottom, class_="grid"))
        if x - len(text) * LETTER_WIDTH / 2 >= free:
            parts.append(element("text", text, x=x, y=bottom + 17, text_anchor="middle"))
            free = x + (len(text) + 1) * LETTER_WIDTH / 2
    for value in chart.y.scale.ticks(layout.ticks_y):
        y = layout.down(chart.y, value)
        parts.append(element("line", x1=layout.left, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(element("text", chart.y.tick(value), x=layout.left - 7, y=y + 4, text_anchor="end"))
    parts.append(element("line", x1=layout.left, x2=right, y1=bottom, y2=bottom, class_="axis"))
    middle = (layout.left + right) / 2
    parts.append(element("text", chart.x.label, x=middle, y=layout.height - 8, text_anchor="middle", class_="label"))
    parts.append(element("text", chart.y.label, x=2.0, y=10.0, class_="label"))
    return element("g", *parts, class_="axes")


def _series(series: Series, chart: Chart, layout: Layout) -> Markup:
    places = [
        None if point is None else (layout.across(chart.x, point.x), layout.down(chart.y, point.y), point)
        for point in series.points
    ]
    parts = []
    if series.line is not None:
        runs = [list(run) for drawn, run in groupby(places, key=lambda place: place is not None) if drawn]
        path = "".join(_path([(x, y) for x, y, _ in filter(None, run)], series.stepped) for run in runs)
        parts.append(element("path", d=path, class_=f"line {series.line}"))
    for x, y, point in filter(None, places):
        if point.low is not None and point.high is not None:
            low, high = layout.down(chart.y, point.low), layout.down(chart.y, point.high)
            parts.append(element("path", d=f"M{x - 3:.1f} {low:.1f}h6m-3 0V{high:.1f}m-3 0h6", class_="bar"))
        if series.mark is not None:
            parts.append(drawn_mark(series.mark, x, y, point.trait))
    return element("g", *parts, class_=f"series colour-{series.colour}", data_name=series.name)


def _path(places: list[tuple[float, float]], stepped: bool) -> str:
    (x, y), rest = places[0], places[1:]
    if stepped:
        return f"M{x:.1f} {y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)
    return f"M{x:.1f} {y:.1f}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in rest)


def _band(band: Band, chart: Chart, layout: Layout) -> Markup:
    upper = [(layout.across(chart.x, x), layout.down(chart.y, high)) for x, _, high in band.edges]
    lower = [(layout.across(chart.x, x), layout.down(chart.y, low)) for x, low, _ in reversed(band.edges)]
    path = _path(upper + lower, stepped=False) + "z"
    return element("path", d=path, class_=f"band colour-{band.colour}")


def _guide_interval(guide: Guide, chart: Chart, layout: Layout) -> Markup | None:
    if guide.low is None or guide.high is None or guide.axis == "y":
        return None
    left, right = layout.across(chart.x, guide.low), layout.across(chart.x, guide.high)
    height = layout.height - layout.top - layout.bottom
    return element("rect", x=left, y=layout.top, width=max(1.0, right - left), height=height, class_="guide-interval")


def _guide(guide: Guide, chart: Chart, layout: Layout) -> Markup:
    bottom, right = layout.height - layout.bottom, layout.width - layout.right
    if guide.axis == "y":
        y = layout.down(chart.y, guide.value)
        line = element("line", x1=layout.left, x2=right, y1=y, y2=y, class_="guide")
        return join(line, element("text", guide.label, x=layout.left + 6, y=y - 5, class_="guide-label"))
    x = layout.across(chart.x, guide.value)
    line = element("line", x1=x, x2=x, y1=layout.top, y2=bottom, class_="guide")
    leans_left = x > (layout.left + right) / 2
    label = element(
        "text",
        guide.label,
        x=x - 6 if leans_left else x + 6,
        y=bottom - 8,
        text_anchor="end" if leans_left else "start",
        class_="guide-label",
    )
    return join(line, label)


def _hover_points(chart: Chart, layout: Layout) -> Iterator[tuple[float, float, str, str]]:
    for series in chart.series:
        for point in filter(None, series.points):
            if point.text:
                x, y = layout.across(chart.x, point.x), layout.down(chart.y, point.y)
                yield round(x, 1), round(y, 1), series.name, point.text


RADIUS = 4.0


def drawn_mark(mark: Mark, x: float, y: float, trait: Trait) -> Markup:
    """A mark; a crossed one has a cross over it."""
    drawn = element("path", d=_SHAPES[mark](x, y, RADIUS), class_=f"mark {trait}")
    if trait != "crossed":
        return drawn
    return join(drawn, element("path", d=f"M{x - 7:.1f} {y - 7:.1f}l14 14m0 -14l-14 14", class_="cross"))


def _disc(x: float, y: float, r: float) -> str:
    return f"M{x - r:.1f} {y:.1f}a{r:g} {r:g} 0 1 0 {2 * r:g} 0a{r:g} {r:g} 0 1 0 {-2 * r:g} 0z"


def _square(x: float, y: float, r: float) -> str:
    return f"M{x - r * 0.9:.1f} {y - r * 0.9:.1f}h{1.8 * r:g}v{1.8 * r:g}h{-1.8 * r:g}z"


def _diamond(x: float, y: float, r: float) -> str:
    d = 1.25 * r
    return f"M{x:.1f} {y - d:.1f}l{d:g} {d:g}l{-d:g} {d:g}l{-d:g} {-d:g}z"


def _triangle(x: float, y: float, r: float) -> str:
    return f"M{x:.1f} {y - 1.2 * r:.1f}l{1.2 * r:g} {2 * r:g}h{-2.4 * r:g}z"


def _down(x: float, y: float, r: float) -> str:
    return f"M{x:.1f} {y + 1.2 * r:.1f}l{1.2 * r:g} {-2 * r:g}h{-2.4 * r:g}z"


_SHAPES: dict[Mark, Callable[[float, float, float], str]] = {
    "disc": _disc,
    "square": _square,
    "diamond": _diamond,
    "triangle": _triangle,
    "down": _down,
}


def legend(chart: Chart) -> Markup | None:
    """One entry per series, band and trait that occurs; None for a single series."""
    entries = [_entry(series.name, series.colour, series.mark, series.line) for series in chart.series]
    for band in chart.bands:
        swatch = element("span", class_=f"swatch-band colour-{band.colour}")
        entries.append(element("li", swatch, band.name))
    occurring = {point.trait for series in chart.series for point in series.points if point}
    for trait, meaning in chart.traits.items():
        if trait in occurring:
            entries.append(_entry(meaning, 0, "disc", None, trait))
    return element("ul", *entries, class_="legend") if len(entries) > 1 else None


def _entry(name: str, colour: int, mark: Mark | None, line: Line | None, trait: Trait = "plain") -> Markup:
    swatch = element(
        "svg",
        element("path", d="M1 8h28", class_=f"line {line}") if line else None,
        drawn_mark(mark, 15.0, 8.0, trait) if mark else None,
        class_=f"swatch series colour-{colour}",
        viewBox="0 0 30 16",
        aria_hidden="true",
    )
    return element("li", swatch, name)
