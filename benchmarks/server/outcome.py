"""The outcome of a run: tables on the terminal, and the page with its plots in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from benchmarks.server import in_turn, page, plot
from benchmarks.server.competitors import Competitor
from benchmarks.server.conditions import Condition
from benchmarks.server.results import Record, Table, ratio, tables
from benchmarks.server.targets import Tables, Verdict, judge
from sojourn.engine.description import default_architecture
from sojourn.loading.confidence import Estimate
from sojourn.report.image import image
from sojourn.text import format


class Outcome:
    """The tables of a record's cells; the proxy benchmark has other targets and another page."""

    name = "server-benchmark"

    def __init__(
        self,
        record: Record,
        chosen: Sequence[Condition],
        everybody: Sequence[Competitor],
        *,
        complete: bool,
    ) -> None:
        self.measured = tables(record.cells, chosen, everybody, in_turn=bool(record.run.get("in_turn")))
        self.tables = Tables(self.measured, self._default())
        versions = {cell.competitor: cell.version for cell in record.cells if cell.version}
        peers = {each.name: versions[each.name] for each in everybody if each.kind == "peer" and each.name in versions}
        seconds = sum(cell.seconds for cell in record.cells)
        self.run: dict[str, Any] = record.run | {"complete": complete, "seconds": seconds, "versions": peers}

    def print(self, console: Console) -> None:
        """Prints a line per cell, cheapest first, the ratios within rounds if measured in turn, and the targets."""
        for table in self.measured:
            console.print(grid(table))
            for note in page.notes([table]):
                console.print(Text(note, style="dim"), soft_wrap=True)
        if self.run.get("in_turn"):
            for line in in_turn.lines(self.measured):
                console.print(line, highlight=False, soft_wrap=True)
        for verdict in self._verdicts():
            if verdict.measured is not None:
                console.print(verdict.line, highlight=False)

    def write(self, folder: Path) -> Path:
        """Writes the page and its plots; returns the page's path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.md"
        path.write_text(self._page(folder))
        return path

    def _default(self) -> str:
        """Returns the architecture to which the targets apply."""
        return default_architecture()

    def _verdicts(self) -> list[Verdict]:
        return judge(self.tables)

    def _page(self, folder: Path) -> str:
        """Returns the page; writes its plots to the folder."""
        images = []
        for chart in plot.charts(self.tables, self.measured):
            name = f"{self.name}-{chart.identifier}.svg"
            (folder / name).write_text(image(chart) + "\n")
            images.append((chart.title, name))
        return page.page(self.run, self.measured, self.tables, images)


def grid(table: Table) -> Grid:
    """Returns the table for a terminal."""
    idle = table.condition.idle
    cost = "bytes each" if idle else "µs" if table.condition.is_start else "CPU µs/request"
    drawn = Grid(title=table.condition.title, title_justify="left", box=None, header_style="dim")
    drawn.add_column("server")
    for column in (cost, "requests/s", "median", "÷ nginx"):
        drawn.add_column(column, justify="right")
    for row in page.cheapest_first(table.rows):
        rate = page.median_of(row.spread(lambda cell: cell.requests_per_second))
        response = page.median_of(row.spread(lambda cell: cell.response_time_p50_seconds))
        cells = (f"{row.competitor}{page.mark(row)}", page.cost_of(row, idle=idle), format.number(rate))
        beside = format.NOT_MEASURED if row is table.reference else _short(ratio(row, table.reference))
        drawn.add_row(*map(Text, (*cells, format.seconds(response), beside)))
    return drawn


def _short(estimate: Estimate | None) -> str:
    return format.NOT_MEASURED if estimate is None else f"{estimate.value:.2f}"
