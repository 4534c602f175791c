"""The points of a study in their order: every cell once per repetition, each repetition shuffled separately.

A model that has the arrivals of the loads comes after them.

A repetition is a block: a disturbance lasting minutes affects all systems of one repetition alike, and comparisons are
made within repetitions.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from string import Formatter

from sojourn.failure import CouldNotRun
from sojourn.study.declarations import SYSTEM, Value, Where
from sojourn.study.document import Study
from sojourn.text import quantity

Settings = Mapping[str, Value]
"""The value of every factor, including the system's name."""

_BOUND = re.compile(r"\s*(<=|>=|<|>)\s*(.+?)\s*")
_HOLDS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Point:
    """One measurement: a cell of the study in a repetition."""

    cell: int
    repetition: int
    settings: Settings

    @property
    def name(self) -> str:
        """The base name of its file."""
        return f"{self.repetition:03d}-{self.cell:04d}"


def cells(study: Study) -> list[Settings]:
    """All combinations of a system, a listed row and the factors' values, in order of declaration.

    A system restricted by `only` has just those cells.
    """
    crossed: list[list[Settings]] = [[{name: value} for value in values] for name, values in study.factors.items()]
    parts = list(itertools.product(study.listed or [{}], *crossed))
    combined = [{name: value for part in each for name, value in part.items()} for each in parts]
    return [
        {SYSTEM: system.name, **settings}
        for system in study.systems
        for settings in combined
        if matches({SYSTEM: system.name, **settings}, system.only)
    ]


def in_order(study: Study) -> list[Point]:
    """All planned points in the order of measurement, which follows from the study's seed."""
    return [point for repetition in range(1, study.repetitions + 1) for point in shuffled(study, repetition)]


def shuffled(study: Study, repetition: int) -> list[Point]:
    """The points of a repetition in order, planned or not."""
    block = list(enumerate(cells(study)))
    Random(f"{study.seed} {repetition}").shuffle(block)
    if study.model is not None and study.model.arrivals is not None:
        block.sort(key=lambda each: study.system(each[1][SYSTEM]).solver is not None)
    return [Point(cell, repetition, settings) for cell, settings in block]


def number(value: Value) -> float | None:
    """The value as a number: a number itself, or a size, time or bandwidth with its unit; None for a name."""
    if isinstance(value, int | float):
        return float(value)
    for parse in (quantity.size_bytes, quantity.seconds, quantity.bits_per_second):
        try:
            return float(parse(value))
        except CouldNotRun:
            continue
    return None


def matches(settings: Settings, where: Where) -> bool:
    """Returns true if the cell matches."""
    return all(_meets(settings[name], wanted) for name, wanted in where.items())


def filled(text: str, settings: Settings) -> str:
    """Replaces the names of factors in braces by their values.

    Raises:
        CouldNotRun: it names an unknown factor.
    """
    for _, name, _, _ in Formatter().parse(text):
        if name is not None and name not in settings:
            raise CouldNotRun(f"{text!r} names {name}, which is not a factor", f"there are {', '.join(settings)}")
    return text.format_map(settings)


def _meets(value: Value, wanted: Value | list[Value]) -> bool:
    if isinstance(wanted, list):
        return any(_meets(value, each) for each in wanted)
    bound = _BOUND.fullmatch(wanted) if isinstance(wanted, str) else None
    if bound is None:
        return value == wanted
    limit = re.fullmatch(quantity.NUMBER, bound[2])
    left, right = number(value), float(bound[2]) if limit else number(bound[2])
    return left is not None and right is not None and bool(_HOLDS[bound[1]](left, right))
