"""Tables on the terminal: without lines, readable without colour and at 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text


def table(first: str, *figures: str) -> Table:
    """A table without lines: names on the left, figures on the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first)
    for figure in figures:
        table.add_column(figure, justify="right")
    return table


def print_pairs(rows: Iterable[tuple[str, str]], console: Console) -> None:
    """Prints pairs of name and text, one per line."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(name, Text(value))
    console.print(table)
