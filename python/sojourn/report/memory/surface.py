"""Draws bandwidth as a surface over working set and stride, seen from above one corner.

Small working sets and short strides stand at the back, where the surface is high, so that little is hidden. Height
is linear in bandwidth; both other axes step through the values that were measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.engine.results import MemoryPoint
from sojourn.memory.characterisation import Characterisation
from sojourn.memory.grid import KERNELS
from sojourn.report.markup import Markup, element
from sojourn.report.memory.charts import bandwidth, condition
from sojourn.report.scales import Linear, linear
from sojourn.text import format

_WIDTH, _HEIGHT = 568.0, 366.0
_ORIGIN = (50.0, 205.0)
"""The back left corner of the floor: the smallest working set and the shortest stride."""
_ALONG = (285.0, 122.0)
"""The vector from there to the largest working set."""
_ACROSS = (185.0, -64.0)
"""The vector from there to the longest stride."""
_TALL = 150.0
_SHADES = 10


@dataclass(frozen=True)
class Surface:
    """The bandwidths of one kernel under one condition: a row per working set, a column per stride."""

    kernel: str
    cores: int
    huge_pages: str
    working_sets: list[int]
    strides: list[int]
    points: dict[tuple[int, int], MemoryPoint]


def surfaces(found: Characterisation) -> list[Surface]:
    """The surfaces with at least two working sets and two strides."""
    result = []
    for cores, huge_pages in found.conditions():
        for kernel in KERNELS:
            points = {
                (each.working_set_bytes, each.stride_words): each
                for each in found.points
                if (each.kernel, each.cores, each.huge_pages) == (kernel, cores, huge_pages)
            }
            working_sets = sorted({size for size, _ in points})
            strides = sorted({stride for _, stride in points})
            if len(working_sets) > 1 and len(strides) > 1:
                result.append(Surface(kernel, cores, huge_pages, working_sets, strides, points))
    return result


def surface_figure(surface: Surface) -> Markup:
    title = f"{surface.kernel} {condition(surface.cores, surface.huge_pages)}"
    said = "Median bandwidth in GB/s over working set and stride (words of 8 bytes); values under the pointer."
    return element(
        "figure", element("h3", title), drawn(surface), element("figcaption", said), class_="half", id=_name(surface)
    )


def drawn(surface: Surface) -> Markup:
    heights = linear([each.bytes_per_second.median for each in surface.points.values()])
    return element(
        "svg",
        _height_axis(heights),
        _tiles(surface, heights),
        _working_set_axis(surface),
        _stride_axis(surface),
        class_="surface",
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=f"{surface.kernel}: bandwidth over working set and stride",
    )


def _name(surface: Surface) -> str:
    return f"surface-{surface.kernel}-{surface.cores}-{surface.huge_pages}"


def _place(along: float, across: float, height: float = 0.0) -> tuple[float, float]:
    """Projects a point of the unit cube onto the drawing."""
    x = _ORIGIN[0] + along * _ALONG[0] + across * _ACROSS[0]
    y = _ORIGIN[1] + along * _ALONG[1] + across * _ACROSS[1] - height * _TALL
    return x, y


def _tiles(surface: Surface, heights: Linear) -> Markup:
    rows, columns = len(surface.working_sets), len(surface.strides)

    def corner(row: int, column: int) -> tuple[float, float, float]:
        point = surface.points.get((surface.working_sets[row], surface.strides[column]))
        height = heights.position(point.bytes_per_second.median) if point else 0.0
        return (*_place(row / (rows - 1), column / (columns - 1), height), height)

    tiles = []
    # From back to front, so that nearer parts cover those behind: the longest strides are farthest.
    for row in range(rows - 1):
        for column in reversed(range(columns - 1)):
            corners = [
                corner(row, column),
                corner(row + 1, column),
                corner(row + 1, column + 1),
                corner(row, column + 1),
            ]
            shade = round(sum(height for _, _, height in corners) / 4 * (_SHADES - 1))
            outline = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in corners)
            said = element("title", _said(surface, row, column))
            tiles.append(element("polygon", said, points=outline, class_="tile", fill_opacity=0.12 + 0.08 * shade))
    return element("g", tiles)


def _said(surface: Surface, row: int, column: int) -> str:
    size, stride = surface.working_sets[row], surface.strides[column]
    point = surface.points.get((size, stride))
    value = bandwidth(point.bytes_per_second.median) + " GB/s" if point else "not measured"
    return f"{format.size(size)}, stride {stride}: {value}"


def _height_axis(heights: Linear) -> Markup:
    parts = []
    for value in heights.ticks(5):
        height = heights.position(value)
        corners = [_place(1.0, 1.0, height), _place(0.0, 1.0, height), _place(0.0, 0.0, height)]
        outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        parts.append(element("polyline", points=outline, class_="grid", fill="none"))
        x, y = corners[-1]
        parts.append(element("text", bandwidth(value), x=x - 8, y=y + 4, text_anchor="end"))
    parts.append(element("text", "GB/s", x=4.0, y=_ORIGIN[1] - _TALL - 22, class_="label"))
    return element("g", parts)


def _working_set_axis(surface: Surface) -> Markup:
    rows = len(surface.working_sets)
    every = max(1, -(-rows // 7))
    parts = []
    for row in range(0, rows, every):
        x, y = _place(row / (rows - 1), 0.0)
        parts.append(element("text", format.size(surface.working_sets[row]), x=x - 6, y=y + 16, text_anchor="end"))
    x, y = _place(0.5, 0.0)
    parts.append(element("text", "working set", x=x - 70, y=y + 52, text_anchor="end", class_="label"))
    return element("g", parts)


def _stride_axis(surface: Surface) -> Markup:
    columns = len(surface.strides)
    every = max(1, -(-columns // 9))
    parts = []
    for column in range(0, columns, every):
        x, y = _place(1.0, column / (columns - 1))
        parts.append(element("text", str(surface.strides[column]), x=x + 6, y=y + 14))
    x, y = _place(1.0, 0.5)
    parts.append(element("text", "stride (words)", x=x + 34, y=y + 30, class_="label"))
    return element("g", parts)
