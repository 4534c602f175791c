"""The marks of points: each shape is an SVG path around a place, of about the same area."""

from __future__ import annotations

from collections.abc import Callable

from sojourn.report.chart import Mark, Trait
from sojourn.report.markup import Markup, element, join

RADIUS = 4.0


def drawn_mark(mark: Mark, x: float, y: float, trait: Trait) -> Markup:
    """A mark at a place; a crossed one has a cross over it."""
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
