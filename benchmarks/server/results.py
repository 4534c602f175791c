"""The cells of a run as a file of JSON lines, each written when it ends, and their medians.

The first line describes the run (machine, seed, durations). A resumed run must match it in everything on which the
figures depend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ratio import median_ratio
from benchmarks.server.cell import Cell
from benchmarks.server.competitors import REFERENCE, Competitor, Kind
from benchmarks.server.conditions import Condition
from sojourn.failure import CouldNotRun
from sojourn.loading.confidence import Estimate

FILE = "cells.jsonl"
_MUST_AGREE = ("seed", "duration_seconds", "warm_up_seconds", "congestion_control", "engine_modified")

Key = tuple[str, str, int]


class Record:
    """The file of a run; each line is a cell of the type `cell`."""

    def __init__(self, folder: Path, run: dict[str, Any], *, resume: bool, cell: type[Cell] = Cell) -> None:
        self.path = folder / FILE
        self.run = run
        self.cell = cell
        self.cells: list[Cell] = []
        folder.mkdir(parents=True, exist_ok=True)
        if resume and self.path.is_file():
            self._read_back()
        else:
            self.path.write_text(json.dumps(run) + "\n")

    def _read_back(self) -> None:
        first, *lines = self.path.read_text().splitlines()
        before = json.loads(first)
        for name in _MUST_AGREE:
            if before.get(name) != self.run[name]:
                raise CouldNotRun(
                    f"{self.path} was measured with {name} = {before.get(name)}, this run has {self.run[name]}",
                    "leave --resume out to begin anew, or give another --output",
                )
        self.run = before
        self.cells = [self.cell.of_json(json.loads(line)) for line in lines]

    @property
    def done(self) -> set[Key]:
        """Returns the cells in the file."""
        return {(cell.condition, cell.competitor, cell.repetition) for cell in self.cells}

    def add(self, cell: Cell) -> None:
        """Adds a cell, and writes it to the file at once."""
        self.cells.append(cell)
        with self.path.open("a") as file:
            file.write(json.dumps(cell.as_json()) + "\n")


@dataclass(frozen=True)
class Spread:
    """A figure over the repetitions."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float | None]) -> Spread | None:
        """Returns None if no repetition has the figure, or most lack it: then those that have it are not typical."""
        everything = list(values)
        found = [value for value in everything if value is not None]
        if len(found) * 2 <= len(everything):
            return None
        return Spread(median(found), min(found), max(found))


@dataclass(frozen=True)
class Row:
    """A competitor in a condition, over the repetitions."""

    competitor: str
    kind: Kind
    cells: list[Cell]
    in_turn: bool = False
    """Whether cells of one repetition were measured within a moment, all servers running."""

    def spread(self, figure: Callable[[Cell], float | None]) -> Spread | None:
        """Returns a figure's median, minimum and maximum."""
        return Spread.of(figure(cell) for cell in self.cells)

    @property
    def cost(self) -> Spread | None:
        return self.spread(lambda cell: cell.cost)

    @property
    def trouble(self) -> str | None:
        """Returns the trouble of the first repetition that has any, and in turn how many have."""
        found = [cell.trouble for cell in self.cells if cell.trouble]
        if not found:
            return None
        return f"{found[0]} ({len(found)} of {len(self.cells)} rounds)" if self.in_turn else found[0]

    @property
    def is_sound(self) -> bool:
        """Returns true if it is compared: no repetition failed, or in turn most rounds did not."""
        failed = sum(cell.trouble is not None for cell in self.cells)
        return failed * 2 < len(self.cells) if self.in_turn else not failed

    @property
    def limited_because(self) -> str | None:
        """Returns why the generator was the limit, in the first repetition in which it was."""
        return next((cell.limited_because for cell in self.cells if cell.limited_because), None)

    @property
    def stolen_fraction(self) -> float:
        """Returns the largest share of the server's core that the hypervisor took in a repetition."""
        return max((cell.core_steal_fraction or 0.0 for cell in self.cells), default=0.0)


@dataclass(frozen=True)
class Table:
    """All competitors of a condition."""

    condition: Condition
    rows: list[Row]

    def row(self, competitor: str) -> Row | None:
        return next((row for row in self.rows if row.competitor == competitor), None)

    def best(self, kind: Kind) -> Row | None:
        """Returns the cheapest of a kind, among those without trouble."""
        sound = [(row.cost.median, row) for row in self.rows if row.kind == kind and row.cost and row.is_sound]
        return min(sound, key=lambda pair: pair[0])[1] if sound else None

    @property
    def reference(self) -> Row | None:
        """Returns the peer with which all others are compared, unless it had trouble."""
        row = self.row(REFERENCE)
        return None if row is None or not row.is_sound else row

    @property
    def compared(self) -> list[Row]:
        """Returns those with which all others are compared: the reference, the best peer, the floor."""
        found = (self.reference, self.best("peer"), self.best("null"))
        return list({row.competitor: row for row in found if row}.values())


def tables(
    cells: Iterable[Cell], conditions: Iterable[Condition], everybody: Iterable[Competitor], *, in_turn: bool = False
) -> list[Table]:
    """Returns a table for each condition that has cells."""
    by_place: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_place.setdefault((cell.condition, cell.competitor), []).append(cell)
    known = list(everybody)
    found = [
        Table(
            condition,
            [
                Row(each.name, each.kind, by_place[condition.name, each.name], in_turn)
                for each in known
                if (condition.name, each.name) in by_place
            ],
        )
        for condition in conditions
    ]
    return [table for table in found if table.rows]


def ratio(row: Row | None, other: Row | None) -> Estimate | None:
    """Returns the cost of one over the cost of another: of their medians, or in turn the median over the rounds."""
    if row is None or other is None or not (row.in_turn and row.cost and other.cost):
        return ratio_of_medians(row, other)
    theirs = {cell.repetition: cell.cost for cell in other.cells}
    pairs = [(cell.cost, theirs.get(cell.repetition)) for cell in row.cells]
    return median_ratio([mine / their for mine, their in pairs if mine and their])


def ratio_of_medians(row: Row | None, other: Row | None) -> Estimate | None:
    """Returns the median cost of one over the median cost of another."""
    if row is None or other is None or row.cost is None or other.cost is None or other.cost.median <= 0:
        return None
    return Estimate(row.cost.median / other.cost.median)
