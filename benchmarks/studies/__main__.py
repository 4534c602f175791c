"""`benchmarks/studies/bench`: runs the studies within a budget, and writes the page from their folders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import command_line, machine, run
from benchmarks.studies.page import Found, page
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

    The studies' folders are below runs/study. A study that was also run alone there, by sojourn study NAME, is shown
    with that run in place of its share of the budget. Ctrl-C keeps the measurements, and the same command continues
    there. The errors of models come from the assessments in runs.

    Example: benchmarks/studies/bench --budget 4h
    """
    asked = ["study", "--all", "--budget", budget]
    ended = subprocess.run([SOJOURN, *asked], cwd=machine.ROOT, stdout=subprocess.DEVNULL, check=False)
    runs = machine.ROOT / RUNS
    suffix = f"-{budget.replace(' ', '')}"
    text = page(
        chosen(index.summaries(runs), suffix), index.assessed(runs), f"sojourn {' '.join(asked)}", machine.revision()
    )
    run.finish(NAME, text, (runs, docs), complete=ended.returncode == EXIT_RAN, console=talk)


def chosen(found: Sequence[Found], suffix: str) -> list[Found]:
    """Of each study the run in the folder with its name, or the one whose folder ends with the budget."""
    alone = {summary["study"] for path, summary in found if str(path).endswith(f"/{summary['study']}")}
    return [
        (path, summary)
        for path, summary in found
        if str(path).endswith(f"/{summary['study']}" if summary["study"] in alone else suffix)
    ]


if __name__ == "__main__":
    command_line.run(_bench)
