"""What a run came to: its tables on the terminal, and the page in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from benchmarks.proxy.conditions import CONDITIONS, Condition
from benchmarks.proxy.page import page
from benchmarks.proxy.targets import TARGETS
from benchmarks.server.contestants import Contestant
from benchmarks.server.outcome import grid
from benchmarks.server.page import notes
from benchmarks.server.results import Record, tables
from benchmarks.server.targets import Tables, judge
from sojourn.systems.ours import architectures

NAME = "proxy-benchmark"


class Outcome:
    """The tables of what a record holds."""

    def __init__(
        self, record: Record, chosen: Sequence[Condition], everybody: Sequence[Contestant], *, complete: bool
    ) -> None:
        self.measured = tables(record.cells, chosen, everybody)
        self.tables = Tables(self.measured, architectures("proxy").default)
        versions = {cell.contestant: cell.version for cell in record.cells if cell.version}
        peers = {each.name: versions[each.name] for each in everybody if each.kind == "peer" and each.name in versions}
        seconds = sum(cell.seconds for cell in record.cells)
        self.run: dict[str, Any] = record.run | {"complete": complete, "seconds": seconds, "versions": peers}

    def print(self, console: Console) -> None:
        """A line per cell, cheapest first, and the targets that were measured."""
        for table in self.measured:
            console.print(grid(table))
            for note in notes([table]):
                console.print(Text(note, style="dim"), soft_wrap=True)
        for verdict in judge(self.tables, TARGETS, CONDITIONS):
            if verdict.measured is not None:
                console.print(verdict.line, highlight=False)

    def write(self, folder: Path) -> Path:
        """Writes the page; answers its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{NAME}.md"
        path.write_text(page(self.run, self.measured, self.tables))
        return path
