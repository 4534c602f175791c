"""The options that the benchmarks share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Only = Annotated[
    str | None, typer.Option(help="What to measure: names, comma-separated; * is a wildcard, --list shows all.")
]
Repetitions = Annotated[int, typer.Option(min=1, max=1000, help="Repetitions of each cell.")]
Duration = Annotated[str, typer.Option(help="Measured time of each cell.")]
Seed = Annotated[int, typer.Option(help="Seed for the order of the cells.")]
Output = Annotated[Path, typer.Option(help="The run's folder.")]
Docs = Annotated[Path | None, typer.Option(help="Also write the page, and its plots, to this folder.")]
