"""The legend of a plot: HTML above the drawing, so that it wraps and prints like text."""

from __future__ import annotations

from sojourn.report.chart import Chart, Line, Mark, Trait
from sojourn.report.marks import drawn_mark
from sojourn.report.markup import Markup, element


def legend(chart: Chart) -> Markup | None:
    """An entry per series, band and trait that occurs; none for a single series."""
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
