"""The tables and the page: medians over repetitions with minimum and maximum, ratios to ours, and the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.load.cell import Cell
from benchmarks.load.conditions import CONDITIONS, HIGH_OPEN_RATE, MANY_CLIENTS_RATE, OPEN_RATE, Condition
from benchmarks.markdown import table_of
from benchmarks.run import circumstances
from benchmarks.server.results import Spread
from sojourn.text import format

OURS = "sojourn"
SEND_LAG_SECONDS_MAX = 0.001
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Row:
    """A generator in a condition, over the repetitions."""

    generator: str
    cells: list[Cell]

    def spread(self, figure: Callable[[Cell], float | None]) -> Spread | None:
        """Returns a figure's median, minimum and maximum."""
        return Spread.of(figure(cell) for cell in self.cells)

    @property
    def cost(self) -> Spread | None:
        """CPU seconds per request."""
        return self.spread(lambda cell: cell.cpu_seconds_per_request)

    @property
    def is_sound(self) -> bool:
        """Returns true if no repetition failed: others say nothing of the cost."""
        return all(cell.trouble is None for cell in self.cells)

    @property
    def doubts(self) -> str | None:
        """Returns the trouble or limit of the first repetition that has any."""
        return next((said for cell in self.cells for said in (cell.trouble, cell.limited_because) if said), None)


@dataclass(frozen=True)
class Table:
    """All generators of a condition, cheapest first."""

    condition: Condition
    rows: list[Row]

    def cost(self, generator: str) -> float | None:
        """Returns a generator's median cost; None if it failed."""
        spread = next((row.cost for row in self.rows if row.generator == generator and row.is_sound), None)
        return spread.median if spread else None


def tables(cells: Iterable[Cell]) -> list[Table]:
    """Returns a table for each condition that has cells."""
    by_place: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_place.setdefault((cell.condition, cell.generator), []).append(cell)
    found = []
    for condition in CONDITIONS:
        rows = [Row(who, measured) for (where, who), measured in by_place.items() if where == condition.name]
        rows.sort(key=lambda row: row.cost.median if row.cost else float("inf"))
        if rows:
            found.append(Table(condition, rows))
    return found


@dataclass(frozen=True)
class Verdict:
    """A target and the measured figure; None if it was not measured."""

    what: str
    bound: float
    measured: float | None

    @property
    def word(self) -> str:
        """Returns `met`, `not met` or `not measured`."""
        if self.measured is None:
            return "not measured"
        return "met" if self.measured <= self.bound else "not met"


def judge(measured: Sequence[Table]) -> list[Verdict]:
    """Compares the tables with every target."""
    by_name = {table.condition.name: table for table in measured}

    def ratio(where: str, peer: str, peer_where: str) -> float | None:
        ours = by_name[where].cost(OURS) if where in by_name else None
        other = by_name[peer_where].cost(peer) if peer_where in by_name else None
        return ours / other if ours and other else None

    many = by_name.get("many-clients")
    rows = [row for row in many.rows if row.generator == OURS and row.is_sound] if many else []
    lag = rows[0].spread(lambda cell: cell.send_lag_p99_seconds) if rows else None
    return [
        Verdict("CPU per request, closed loop ÷ wrk", 0.80, ratio("closed", "wrk", "closed")),
        Verdict("CPU per request, closed loop ÷ httperf", 1.00, ratio("closed", "httperf", "closed")),
        *(
            Verdict(f"CPU per request, open loop, {what} ÷ wrk's closed loop", 0.80, ratio(name, "wrk", "closed"))
            for name, what in (
                ("open-high", f"{HIGH_OPEN_RATE:,}/s"),
                ("open", f"{OPEN_RATE:,}/s"),
                ("open-1ms", f"{OPEN_RATE:,}/s, slack of 1 ms"),
            )
        ),
        Verdict("CPU per request, a connection each ÷ wrk", 1.00, ratio("close", "wrk", "close")),
        Verdict(
            f"99 % of sends late by, many clients, {MANY_CLIENTS_RATE:,}/s (ms)",
            SEND_LAG_SECONDS_MAX * 1e3,
            lag.median * 1e3 if lag else None,
        ),
    ]


def page(run: dict[str, Any], cells: Iterable[Cell], *, complete: bool) -> str:
    """Returns the page of a run."""
    measured = tables(cells)
    targets = [
        [verdict.what, f"≤ {verdict.bound:.2f}", _number(verdict.measured), verdict.word] for verdict in judge(measured)
    ]
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        circumstances(run, complete=complete),
        duration=format.seconds(run["duration_seconds"]),
        server_core=run["cores"]["server"],
        generator_core=run["cores"]["generator"],
        targets=table_of(["target", "bound", "measured", ""], targets),
        tables="\n\n".join(_section(table) for table in measured),
    )


def _section(table: Table) -> str:
    header = ["generator", "CPU µs/request", "÷ ours", "user", "requests/s", "p50", "p99", "late p99"]
    ours = table.cost(OURS)
    rows, notes = [], []
    for row in table.rows:
        cost = row.cost
        middle = [
            "–"
            if cost is None
            else "{:.2f} [{:.2f}–{:.2f}]".format(*(v * _MICROSECONDS for v in (cost.median, cost.low, cost.high))),
            _number(cost.median / ours if cost and ours and row.is_sound else None),
            format.percent(_median(row, lambda cell: cell.cpu_user_fraction)),
            format.number(_median(row, lambda cell: cell.requests_per_second)),
            format.seconds(_median(row, lambda cell: cell.p50_seconds)),
            format.seconds(_median(row, lambda cell: cell.p99_seconds)),
            format.seconds(_median(row, lambda cell: cell.send_lag_p99_seconds)),
        ]
        rows.append([row.generator + (" †" if row.doubts else ""), *middle])
        if row.doubts:
            notes.append(f"- † {row.generator}: {row.doubts}")
    said = "\n".join(notes)
    return f"### {table.condition.title}\n\n{table_of(header, rows)}" + (f"\n\n{said}" if said else "")


def _median(row: Row, figure: Callable[[Cell], float | None]) -> float | None:
    spread = row.spread(figure)
    return spread.median if spread else None


def _number(value: float | None) -> str:
    return format.NOT_MEASURED if value is None else f"{value:.2f}"
