"""The page: what a stream costs, and how many of them each server carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.markdown import machine_rows, table_of, warnings
from benchmarks.stream.cell import Cell
from sojourn.report import format


def said(cell: Cell) -> str:
    """A cell in one line."""
    name = f"{cell.contestant}, {cell.rate}, {cell.transport}"
    if cell.trouble:
        return f"{name}: not measured: {cell.trouble}"
    return f"{name}: {_cpu(cell)} per stream-second, {_memory(cell)} per stream, {_capacity(cell)} streams"


def page(run: dict[str, Any], cells: Sequence[Cell], *, complete: bool) -> str:
    """The page of a run."""
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        date=run["date"],
        command=run["command"],
        revision=run["revision"],
        warnings=warnings(run, complete=complete),
        clients=run["clients"],
        seconds=run["seconds"],
        search_seconds=run["search_seconds"],
        seed=run["seed"],
        costs=table_of(_COSTS, (_cost_row(cell) for cell in _ordered(cells))),
        capacities=table_of(_CAPACITIES, (_capacity_row(cell) for cell in _ordered(cells))),
        troubles="\n".join(dict.fromkeys(f"- {each.trouble}" for each in cells if each.trouble)),
        machine=table_of(["", ""], machine_rows(run["environment"])),
    )


_COSTS = [
    "",
    "CPU per stream-second",
    "memory per stream",
    "conforming",
    "99 % behind by at most",
    "kbit/s of a stream",
]
_CAPACITIES = ["", "streams at 99 % conforming", "95 % interval", "ended"]


def _ordered(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: (cell.transport, cell.rate, cell.contestant != "sojourn", cell.contestant))


def _name(cell: Cell) -> str:
    return f"{cell.rate}, {cell.transport}: {cell.contestant}"


def _cost_row(cell: Cell) -> list[str]:
    rate = cell.bits_per_second_per_stream
    mark = " (the generator was the limit)" if cell.generator_limited_because else ""
    return [
        _name(cell) + mark,
        _cpu(cell),
        _memory(cell),
        format.percent(cell.conforming_fraction),
        format.seconds(cell.behind_p99_seconds),
        format.NOT_MEASURED if rate is None else f"{rate / 1e3:.0f}",
    ]


def _capacity_row(cell: Cell) -> list[str]:
    bounds = f"{format.number(cell.capacity_low)} to {format.number(cell.capacity_high)}"
    return [_name(cell), _capacity(cell), bounds, cell.ending or format.NOT_MEASURED]


def _cpu(cell: Cell) -> str:
    return format.seconds(cell.cpu_seconds_per_stream_second)


def _memory(cell: Cell) -> str:
    return format.size(cell.resident_bytes_per_stream)


def _capacity(cell: Cell) -> str:
    if cell.capacity is not None:
        return format.number(cell.capacity)
    return format.NOT_MEASURED if cell.capacity_low is None else f"at least {format.number(cell.capacity_low)}"
