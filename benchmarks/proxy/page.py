"""The page: targets, a table per condition, memory per stored response. Its text is in page.md.template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from benchmarks.markdown import table_of
from benchmarks.proxy.cell import ASKED_FIRST, Cell
from benchmarks.proxy.conditions import CONDITIONS, STORED_OBJECTS
from benchmarks.proxy.stored import SAMPLE, Stored
from benchmarks.server.page import KINDS, cheapest_first, circumstances, loaded, mark, notes_section, ratio_of, targets
from benchmarks.server.results import Row, Table
from benchmarks.server.targets import Tables, Target, against_best_peer, against_nginx, judge
from sojourn.text import format

TARGETS: Sequence[Target] = (
    Target("hit-500B", "default", "best peer", 0.60, against_best_peer),
    Target("hit-5KB", "default", "best peer", 0.60, against_best_peer),
    Target("hit-50KB", "default", "best peer", 0.60, against_best_peer),
    Target("hit-500KB", "default", "best peer", 0.85, against_best_peer),
    Target("pass-500B", "default", "nginx", 1.00, against_nginx),
    Target("pass-5KB", "default", "nginx", 1.00, against_nginx),
    Target("pass-50KB", "default", "nginx", 1.00, against_nginx),
    Target("fastcgi-500B", "default", "nginx", 0.80, against_nginx),
    Target("fastcgi-5KB", "default", "nginx", 0.80, against_nginx),
    Target("keep-500B", "default", "nginx", 1.00, against_nginx),
    Target("keep-5KB", "default", "nginx", 1.00, against_nginx),
    Target("keep-50KB", "default", "nginx", 1.00, against_nginx),
)


def page(run: dict[str, Any], measured: Sequence[Table], tables: Tables) -> str:
    """Returns the page of a run."""
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    under_load = [table for table in measured if not table.condition.idle]
    return template.substitute(
        circumstances(run),
        targets=targets(judge(tables, TARGETS, CONDITIONS), tables.default),
        hits="\n\n".join(loaded(table) for table in under_load if table.condition.name.startswith("hit-")),
        passing="\n\n".join(loaded(table) for table in under_load if not table.condition.name.startswith("hit-")),
        upstream_connections=_upstream_connections(under_load),
        stored="\n\n".join(_stored(table) for table in measured if table.condition.idle),
        objects=f"{STORED_OBJECTS:,}",
        sample=SAMPLE,
        asked_first=ASKED_FIRST,
        notes=notes_section(measured),
    )


def _upstream_connections(measured: Sequence[Table]) -> str:
    """Returns requests per connection to the origin: a row per proxy, a column per condition."""
    passing = [table for table in measured if any(_per_connection(row) is not None for row in table.rows)]
    names = list(dict.fromkeys(row.competitor for table in passing for row in table.rows))
    header = ["proxy", *(table.condition.name for table in passing)]
    rows = []
    for name in names:
        found = [table.row(name) for table in passing]
        rows.append([name, *(format.count(None if row is None else _per_connection(row)) for row in found)])
    return table_of(header, rows, "l" + "r" * len(passing))


def _per_connection(row: Row) -> float | None:
    values = [
        cell.requests / cell.upstream_connections
        for cell in row.cells
        if isinstance(cell, Cell) and cell.requests and cell.upstream_connections
    ]
    return median(values) if values else None


def _stored(table: Table) -> str:
    header = ["proxy", "", "per answer", "in processes", "in files", "footprint before", "kept of a sample", "÷ nginx"]
    rows = []
    for row in cheapest_first(table.rows):
        kept = next((cell.stored for cell in row.cells if isinstance(cell, Cell) and cell.stored), None)
        figures = ["–"] * 5 if kept is None else _figures(kept)
        rows.append([f"{row.competitor}{mark(row)}", KINDS[row.kind], *figures, ratio_of(row, table.reference)])
    return table_of(header, rows, "llrrrrrr")


def _figures(stored: Stored) -> list[str]:
    processes = (stored.process_bytes_after - stored.process_bytes_before) / stored.objects
    files = (stored.file_bytes_after - stored.file_bytes_before) / stored.objects
    return [
        *(f"{value:,.0f} B" for value in (stored.bytes_per_object, processes, files)),
        format.size(stored.process_bytes_before),
        format.percent(stored.kept_fraction),
    ]
