"""The command lines of the benchmarks: the options that they share, and how they begin and end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sojourn.failure import EXIT_COULD_NOT_RUN, CouldNotRun

Only = Annotated[
    str | None, typer.Option(help="What to measure: names, comma-separated; * is a wildcard, --list shows all.")
]
Repetitions = Annotated[int, typer.Option(min=1, max=1000, help="Repetitions of each cell.")]
Duration = Annotated[str, typer.Option(help="Measured time of each cell.")]
Seed = Annotated[int, typer.Option(help="Seed for the order of the cells.")]
Output = Annotated[Path, typer.Option(help="The run's folder.")]
Docs = Annotated[Path | None, typer.Option(help="Also write the page, and its plots, to this folder.")]


def run(benchmark: Callable[..., None]) -> None:
    """Runs it with the options of the command line; prints an error in two lines."""
    # However it ends, the results are kept and the servers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        typer.run(benchmark)
    except CouldNotRun as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_COULD_NOT_RUN)
