"""`benchmarks/studies/bench`: runs the studies within a budget, and writes the page from their folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import command_line, machine, run
from benchmarks.studies.page import page
from sojourn.commands.study import RUNS
from sojourn.failure import EXIT_RAN
from sojourn.report.study import index

NAME = "study-results"
SOJOURN = Path(sys.executable).parent / "sojourn"
talk = Console(stderr=True)


def _bench(
    budget: Annotated[str, typer.Option(help="Time for all studies together; whole, they need a day.")] = "3h",
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
) -> None:
    """Run all studies in a budget, and write one page of all findings.

    The studies' folders are below runs/study. Ctrl-C keeps the measurements, and the same command continues there. The
    errors of models come from the assessments in runs.

    Example: benchmarks/studies/bench --budget 4h
    """
    asked = ["study", "--all", "--budget", budget]
    ended = subprocess.run([SOJOURN, *asked], cwd=machine.ROOT, stdout=subprocess.DEVNULL, check=False)
    runs = machine.ROOT / RUNS
    suffix = f"-{budget.replace(' ', '')}"
    made = [(path, summary) for path, summary in index.summaries(runs) if path.name.endswith(suffix)]
    text = page(made, index.assessed(runs), f"sojourn {' '.join(asked)}", machine.revision())
    run.finish(NAME, text, (runs, docs), complete=ended.returncode == EXIT_RAN, console=talk)


if __name__ == "__main__":
    command_line.run(_bench)
