"""A plot as data: axes, series, guides and bands; `drawing` turns it into SVG.

Series differ in marks and dashes as well as in colour, so that a greyscale print remains readable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sojourn.report.scales import Scale

Mark = Literal["disc", "square", "diamond", "triangle", "down"]
Line = Literal["solid", "dashed", "dotted"]
Trait = Literal["plain", "hollow", "crossed"]


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its scale and the format of its values."""

    label: str
    scale: Scale
    tick: Callable[[float], str]


@dataclass(frozen=True)
class Point:
    """A point with its tooltip; `low` and `high` give it an error bar."""

    x: float
    y: float
    text: str = ""
    low: float | None = None
    high: float | None = None
    trait: Trait = "plain"

    @property
    def extent(self) -> list[float]:
        """The values that an axis must include for the point and its bar."""
        return [bound for bound in (self.low, self.y, self.high) if bound is not None]


@dataclass(frozen=True)
class Series:
    """A series of points; `None` breaks the line."""

    name: str
    colour: int
    points: Sequence[Point | None]
    mark: Mark | None = None
    line: Line | None = None
    stepped: bool = False


@dataclass(frozen=True)
class Band:
    """The area between two curves: x, low, high."""

    name: str
    colour: int
    edges: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Guide:
    """A straight line across the plot at a value of one axis, optionally with an interval."""

    axis: Literal["x", "y"]
    value: float
    label: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Chart:
    identifier: str
    title: str
    caption: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    bands: Sequence[Band] = ()
    guides: Sequence[Guide] = ()
    traits: dict[Trait, str] = field(default_factory=dict)
    """The meaning of hollow and crossed marks in this chart."""
    shape: Literal["half", "wide", "low"] = "half"


@dataclass(frozen=True)
class Missing:
    """A plot that cannot be drawn, with the reason."""

    identifier: str
    title: str
    because: str
