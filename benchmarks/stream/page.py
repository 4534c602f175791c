"""The page: the aims, the cost of a stream, the capacity of each server. Its text is in page.md.template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.markdown import table_of
from benchmarks.run import circumstances
from benchmarks.server.results import Spread
from benchmarks.stream import targets
from benchmarks.stream.capacity import CONDITION, JUDGED_MAX, Capacity
from benchmarks.stream.competitors import OURS
from benchmarks.stream.pace import Pace
from benchmarks.stream.results import Row, Table, place_key, tables
from benchmarks.stream.session import Measured
from benchmarks.stream.targets import Verdict
from sojourn.text import format

LIMITED = "†"
TROUBLE = "✗"
_MICROSECONDS = 1e6


def verdicts(measured: Measured) -> list[Verdict]:
    """Returns a verdict for every aim that was measured."""
    return [*targets.of_costs(tables(measured.costs)), *targets.of_pace(measured.paces)]


def page(run: Mapping[str, Any], measured: Measured, images: Sequence[tuple[str, str]] = (), *, complete: bool) -> str:
    """Returns the page of a run; `images` are titles and file names."""
    costs = tables(measured.costs)
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        circumstances(run, complete=complete),
        took=format.duration(run["seconds"]),
        aims=_aims(verdicts(measured)),
        clients=" and ".join(map(str, run["clients"])),
        cost_seconds=format.seconds(run["cost_seconds"]),
        server_core=run["cores"]["server"],
        generator_core=run["cores"]["generator"],
        images="\n\n".join(f"![{title}]({name})" for title, name in images),
        costs="\n\n".join(_costs(table) for table in costs) or _NOTHING,
        notes=_notes(costs),
        condition=CONDITION,
        judged=JUDGED_MAX,
        search_seconds=format.seconds(run["search_seconds"]),
        capacities=_capacities(measured.capacities),
        pace_streams=f"{run['pace_streams']:,}",
        pace_seconds=format.seconds(run["pace_seconds"]),
        paces=_paces(measured.paces),
    )


_NOTHING = "Not measured in this run."
_COSTS = [
    "server",
    "CPU µs per stream-second",
    "ours ÷ this",
    "memory per stream",
    "conforming",
    "99 % behind by at most",
    "kbit/s of a stream",
]
_EDGES = ("0.001", "0.002", "0.005", "0.01", "0.02", "0.05")
_PACES = [
    "99 % within",
    "turns > 5 ms",
    "server's core",
    "waited for it",
    "stolen",
    "packets/s",
    "calls/s",
    "memory per stream",
]
_CAPACITIES = ["", "streams", "from", "to", "server's core", "runs", "ended"]


def _aims(found: Iterable[Verdict]) -> str:
    rows = [[each.aim, each.bound, each.measured, _loud(each.word)] for each in found]
    return table_of(["aim", "bound", "measured", ""], rows, "lrrl") if rows else _NOTHING


def _loud(word: str) -> str:
    return f"**{word}**" if word == "not met" else word


def _costs(table: Table) -> str:
    title = f"### {table.rate}bit/s, {table.transport}, {table.clients} viewers"
    return f"{title}\n\n" + table_of(_COSTS, [_cost_row(table, row) for row in table.rows])


def _cost_row(table: Table, row: Row) -> list[str]:
    rate = _median(row.spread(lambda cell: cell.bits_per_second_per_stream))
    return [
        row.competitor + _mark(row),
        _microseconds(row.cost),
        format.NOT_MEASURED if row.competitor == OURS else targets.said(table.ours_over(row)),
        format.size(_median(row.spread(lambda cell: cell.resident_bytes_per_stream))),
        format.percent(_median(row.spread(lambda cell: cell.conforming_fraction))),
        format.seconds(_median(row.spread(lambda cell: cell.behind_p99_seconds))),
        format.NOT_MEASURED if rate is None else f"{rate / 1e3:.0f}",
    ]


def _mark(row: Row) -> str:
    return (f" {TROUBLE}" if row.trouble else "") + (f" {LIMITED}" if row.limited_because else "")


def _notes(measured: Sequence[Table]) -> str:
    said = []
    for table in measured:
        for row in table.rows:
            where = f"{row.competitor}, {table.rate}, {table.transport}, {table.clients} viewers"
            said += [f"- {TROUBLE} {where}: {row.trouble}"] if row.trouble else []
            said += [f"- {LIMITED} {where}: {row.limited_because}"] if row.limited_because else []
    return "\n".join(said)


def _capacities(found: Iterable[Capacity]) -> str:
    ordered = sorted(found, key=lambda each: (place_key(each.transport, each.rate), each.competitor != OURS))
    rows = [_capacity_row(each) for each in ordered]
    return table_of(_CAPACITIES, rows, "lrrrrrl") if rows else _NOTHING


def _capacity_row(found: Capacity) -> list[str]:
    why = found.trouble or found.ending or format.NOT_MEASURED
    if found.limited_because:
        why += f"; the generator: {found.limited_because}"
    return [
        f"{found.rate}, {found.transport}: {found.competitor}",
        found.figure,
        format.number(found.low),
        format.number(found.high),
        format.percent(found.core_fraction),
        str(found.runs),
        why,
    ]


def _paces(found: Sequence[Pace]) -> str:
    """Returns a row per repetition, which shows the effect of a disturbance on one of them."""
    edges = [edge for edge in _EDGES if any(edge in pace.later_fractions for pace in found)]
    header = ["", *(f"> {format.seconds(float(edge))}" for edge in edges), *_PACES]
    rows = [_pace_row(pace, edges) for pace in found]
    notes = "".join(f"\n- {TROUBLE} {pace.repetition + 1}: {pace.trouble}" for pace in found if pace.trouble)
    return table_of(header, rows) + (f"\n{notes}" if notes else "") if rows else _NOTHING


def _pace_row(pace: Pace, edges: Sequence[str]) -> list[str]:
    return [
        f"{pace.repetition + 1}" + (f" {TROUBLE}" if pace.trouble else ""),
        *(_share(pace.later_fractions.get(edge)) for edge in edges),
        format.NOT_MEASURED if pace.p99_seconds is None else f"≤ {format.seconds(pace.p99_seconds)}",
        _share(pace.long_turns_fraction),
        format.percent(pace.core_fraction),
        _share(pace.core_wait_fraction),
        _share(pace.core_steal_fraction),
        format.number(pace.packets_per_second),
        format.number(pace.calls_per_second),
        format.size(pace.resident_bytes_per_stream),
    ]


def _share(value: float | None) -> str:
    return format.NOT_MEASURED if value is None else f"{100 * value:.2f} %"


def _microseconds(spread: Spread | None) -> str:
    if spread is None:
        return format.NOT_MEASURED
    middle, low, high = (f"{value * _MICROSECONDS:,.0f}" for value in (spread.median, spread.low, spread.high))
    return f"{middle} [{low}–{high}]"


def _median(spread: Spread | None) -> float | None:
    return spread.median if spread else None
