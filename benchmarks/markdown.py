"""What the pages of all benchmarks have: tables, what makes a run's figures doubtful, the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.server.busy import BUSY_FRACTION_MAX
from sojourn.report.assessment.measurement_tables import written
from sojourn.text import format


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str | None = None) -> str:
    """A table; `alignment` has a letter per column, l or r: without it the first is a name, the others are figures."""
    letters = alignment or "l" + "r" * (len(header) - 1)
    rules = ["---:" if each == "r" else "---" for each in letters]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rules, *rows))


def warnings(run: Mapping[str, Any], *, complete: bool) -> str:
    """What makes the figures of a run doubtful."""
    said = "" if complete else "\n**Incomplete**: the run was interrupted; the tables hold what it had.\n"
    if run.get("quick"):
        said += "\n**Quick**: this run only tried whether everything runs; its figures mean nothing.\n"
    if run["busy_fraction"] > BUSY_FRACTION_MAX:
        share = format.percent(run["busy_fraction"])
        said += f"\n**Disturbed**: other work used {share} of the machine when the run began.\n"
    return said


def machine_rows(environment: Mapping[str, object]) -> list[list[str]]:
    """A row for each thing that is known of the machine."""
    rows = [(name.replace("_", " "), written(name, value)) for name, value in environment.items()]
    return [[name, value.replace("|", "\\|").replace("\t", " ")] for name, value in rows]
