"""A benchmark's run: describes it, saves each cell when it ends, and writes the page."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from rich.console import Console

from benchmarks import machine
from benchmarks.machine import BUSY_FRACTION_MAX, busy_fraction
from benchmarks.markdown import machine_rows, table_of, warnings
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES
from sojourn.machine import environment
from sojourn.text import format
from sojourn.workload import site

SMALL_SITE_BYTES_MAX = 1_000_000


class Kept(Protocol):
    """The result of one measurement."""

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""


K = TypeVar("K", bound=Kept)


def describe(program: str, console: Console) -> dict[str, Any]:
    """Describes the benchmark, the time and the machine; warns if other programs keep the machine busy."""
    described = environment.describe()
    busy = busy_fraction()
    if busy > BUSY_FRACTION_MAX:
        console.print(f"warning: other work uses {format.percent(busy)} of this machine")
    return {
        "revision": machine.revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join([program, *sys.argv[1:]]),
        "busy_fraction": busy,
        "environment": described,
    }


def small_site(folder: Path) -> Path:
    """Makes a site of one small document."""
    site.build(folder, [("/500B", 500)], SMALL_SITE_BYTES_MAX)
    return folder


def keep(
    cells: Iterable[K], run: Mapping[str, Any], path: Path, console: Console, said: Callable[[int, K], str]
) -> tuple[list[K], bool]:
    """Measures the cells and saves each when it ends, after the run's description; returns true if it reached the end.

    `said` is called for each cell, with its number from one.
    """
    kept: list[K] = []
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.write(json.dumps(run) + "\n")
        try:
            for number, cell in enumerate(cells, 1):
                kept.append(cell)
                file.write(json.dumps(cell.as_json()) + "\n")
                file.flush()
                console.print(said(number, cell), highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            return kept, False
    return kept, True


def circumstances(run: Mapping[str, Any], *, complete: bool) -> dict[str, Any]:
    """Returns what every page says about how, where and when it was measured."""
    return {
        "date": run["date"],
        "command": run["command"],
        "revision": run["revision"],
        "warnings": warnings(run, complete=complete),
        "repetitions": run["repetitions"],
        "seed": run["seed"],
        "machine": table_of(["", ""], machine_rows(run["environment"])),
    }


def finish(name: str, text: str, folders: Iterable[Path | None], *, complete: bool, console: Console) -> NoReturn:
    """Writes the page if it is wanted, and ends."""
    for folder in filter(None, folders):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(text)
        console.print(f"page: {folder / f'{name}.md'}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)
