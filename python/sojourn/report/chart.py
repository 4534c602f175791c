"""A plot as a value: axes, series, guides and bands. `drawing` turns it into SVG; nothing here draws.

Series are told apart by mark and dash as well as by colour, so a print in grey still reads.
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
    """What is along an axis, and how its values are written."""

    label: str
    scale: Scale
    tick: Callable[[float], str]


@dataclass(frozen=True)
class Point:
    """A point with what the pointer shows there; `low` and `high` give it a bar."""

    x: float
    y: float
    text: str = ""
    low: float | None = None
    high: float | None = None
    trait: Trait = "plain"

    @property
    def extent(self) -> list[float]:
        """What an axis has to hold for the point and its bar."""
        return [bound for bound in (self.low, self.y, self.high) if bound is not None]


@dataclass(frozen=True)
class Series:
    """Points of one kind; `None` among them breaks the line."""

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
    """A straight line across the plot at a value of one axis, with its interval where it has one."""

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
    """What hollow and crossed marks mean here."""
    shape: Literal["half", "wide", "low"] = "half"


@dataclass(frozen=True)
class Missing:
    """A plot that cannot be drawn, and why."""

    identifier: str
    title: str
    because: str
