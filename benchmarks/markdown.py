"""Parts of all benchmarks' pages: tables, warnings about doubtful figures, the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.machine import BUSY_FRACTION_MAX
from sojourn.report.assessment.measurement_tables import written
from sojourn.text import format


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str | None = None) -> str:
    """Returns a table; `alignment` has l or r per column; by default only the first column is left-aligned."""
    letters = alignment or "l" + "r" * (len(header) - 1)
    rules = ["---:" if each == "r" else "---" for each in letters]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rules, *rows))


def warnings(run: Mapping[str, Any], *, complete: bool) -> str:
    """Returns reasons to doubt the figures of a run."""
    said = "" if complete else "\n**Incomplete**: the run was interrupted; the tables hold what it had.\n"
    if run.get("quick"):
        said += "\n**Quick**: this run only tried whether everything runs; its figures mean nothing.\n"
    if run["busy_fraction"] > BUSY_FRACTION_MAX:
        share = format.percent(run["busy_fraction"])
        said += f"\n**Disturbed**: other work used {share} of the machine when the run began.\n"
    return said


def machine_rows(environment: Mapping[str, object]) -> list[list[str]]:
    """Returns a row for each known property of the machine."""
    rows = [(name.replace("_", " "), written(name, value)) for name, value in environment.items()]
    return [[name, value.replace("|", "\\|").replace("\t", " ")] for name, value in rows]
