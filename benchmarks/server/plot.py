"""The plots of the page: cost by document size and by number of clients, in CPU time and relative to nginx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.server.competitors import REFERENCE
from benchmarks.server.conditions import CLIENTS, Condition
from benchmarks.server.results import Row, Table
from benchmarks.server.targets import Tables
from sojourn.report.chart import Axis, Chart, Guide, Line, Mark, Point, Series
from sojourn.report.scales import Logarithmic, logarithmic
from sojourn.text import format

Chosen = Callable[[Table], Row | None]


@dataclass(frozen=True)
class _Look:
    name: str
    chosen: Chosen
    colour: int
    mark: Mark | None
    line: Line


def charts(tables: Tables, measured: Sequence[Table]) -> list[Chart]:
    """Returns the plots that have at least two points along their axis."""
    by_size = [table for table in measured if _is_plain(table.condition) and table.condition.clients == CLIENTS]
    by_clients = [table for table in measured if _is_plain(table.condition) and table.condition.size == "500B"]
    looks = _looks(tables)
    found = []
    if len(by_size) > 1:
        sizes = _axis("document size", [table.condition.size_bytes for table in by_size], _size)
        found.append(_in_time("size", "64 clients, keep-alive", by_size, looks, sizes, _size_of))
        if any(table.reference for table in by_size):
            found.append(_beside_reference("size", "64 clients, keep-alive", by_size, looks, sizes, _size_of))
    if len(by_clients) > 1:
        clients = _axis(
            "clients, each with a connection", [table.condition.clients for table in by_clients], format.count
        )
        found.append(_in_time("clients", "500 B, keep-alive", by_clients, looks, clients, _clients_of))
    return found


def _is_plain(condition: Condition) -> bool:
    is_usual = condition.connection == "keep-alive" and condition.protocol == "http"
    return is_usual and condition.is_load and not (condition.access_log or condition.is_arena)


def _looks(tables: Tables) -> list[_Look]:
    def default(table: Table) -> Row | None:
        return tables.ours(table.condition.name)

    def best(table: Table) -> Row | None:
        return table.best("ours")

    def peer(name: str) -> Chosen:
        return lambda table: table.row(name)

    return [
        _Look("null responder", lambda table: table.best("null"), 0, None, "solid"),
        _Look(f"Sojourn, {tables.default} (default)", default, 1, "disc", "solid"),
        _Look("Sojourn, its cheapest architecture", best, 1, "diamond", "dotted"),
        _Look("nginx", peer("nginx"), 2, "square", "solid"),
        _Look("h2o", peer("h2o"), 3, "triangle", "dashed"),
        _Look("lighttpd", peer("lighttpd"), 4, "down", "dashed"),
        _Look("Apache (event)", peer("apache2"), 0, "diamond", "dashed"),
    ]


def _in_time(
    name: str, where: str, tables: Sequence[Table], looks: Sequence[_Look], x: Axis, place: Callable[[Condition], float]
) -> Chart:
    def time(table: Table, row: Row) -> tuple[float, float, float] | None:
        del table
        return (row.cost.median, row.cost.low, row.cost.high) if row.cost else None

    series = _series(tables, looks, place, time, format.seconds)
    return Chart(
        f"cost-by-{name}",
        f"Server CPU time per request ({where})",
        "Medians; bars join the least and the greatest repetition.",
        x,
        Axis("CPU time per request", logarithmic(_values(series)), format.seconds),
        series,
        shape="wide",
    )


def _beside_reference(
    name: str, where: str, tables: Sequence[Table], looks: Sequence[_Look], x: Axis, place: Callable[[Condition], float]
) -> Chart:
    def beside(table: Table, row: Row) -> tuple[float, float, float] | None:
        reference = table.reference.cost if table.reference else None
        if row.cost is None or reference is None:
            return None
        return tuple(value / reference.median for value in (row.cost.median, row.cost.low, row.cost.high))  # type: ignore[return-value]

    others = [look for look in looks if look.name != REFERENCE]
    series = _series(tables, others, place, beside, format.factor)
    return Chart(
        f"ratio-by-{name}",
        f"Server CPU time per request as a multiple of {REFERENCE}'s ({where}); less is better",
        "Medians; bars join the least and the greatest repetition.",
        x,
        Axis(f"multiple of {REFERENCE}'s CPU time", logarithmic([*_values(series), 1.0]), format.factor),
        series,
        guides=[Guide("y", 1.0, REFERENCE)],
        shape="wide",
    )


def _series(
    tables: Sequence[Table],
    looks: Sequence[_Look],
    place: Callable[[Condition], float],
    figure: Callable[[Table, Row], tuple[float, float, float] | None],
    word: Callable[[float | None], str],
) -> list[Series]:
    drawn = []
    for look in looks:
        points: list[Point | None] = []
        for table in tables:
            row = look.chosen(table)
            found = figure(table, row) if row is not None and row.is_sound else None
            if found is not None:
                middle, low, high = found
                points.append(Point(place(table.condition), middle, word(middle), low, high))
        if points:
            drawn.append(Series(look.name, look.colour, points, look.mark, look.line))
    return drawn


def _values(series: Sequence[Series]) -> list[float]:
    return [bound for each in series for point in each.points if point for bound in point.extent]


def _axis(label: str, values: Sequence[float], tick: Callable[[float], str]) -> Axis:
    scale = logarithmic(values)
    return Axis(label, Logarithmic(scale.low, scale.high), tick)


def _size_of(condition: Condition) -> float:
    return float(condition.size_bytes)


def _clients_of(condition: Condition) -> float:
    return float(condition.clients)


def _size(value: float) -> str:
    for scale, unit in ((1e6, "MB"), (1e3, "KB")):
        if value >= scale * 0.999:
            return f"{value / scale:g} {unit}"
    return f"{value:g} B"
