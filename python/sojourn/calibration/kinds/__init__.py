"""The kinds of tables that can be fitted, one file each, and their table.

A kind is recognised by its columns: mandatory ones, optional ones, and the function that computes a `Fit`.
`docs/calibration.md` documents the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sojourn.calibration.fit import Fit, Options
from sojourn.calibration.kinds import intervals, requests, scaling, sizes
from sojourn.calibration.stages import UNSEEN, Stages
from sojourn.calibration.tables import Table
from sojourn.failure import CouldNotRun
from sojourn.queueing import System, SystemFileError


@dataclass(frozen=True)
class Kind:
    """A kind of table."""

    needs: tuple[str, ...]
    fit: Callable[[Table, Options, Stages], Fit]


KINDS: dict[str, Kind] = {
    "requests": Kind(("accepted_at_seconds", "ended_at_seconds"), requests.fit),
    "sizes": Kind(("size_bytes", "demand_seconds"), sizes.fit),
    "intervals": Kind(("utilisation",), intervals.fit),
    "scaling": Kind(("clients", "requests_per_second"), scaling.fit),
}
"""The kinds in order of preference for tables that fit several."""


def fit_table(table: Table, options: Options, kind: str | None = None, stages: Stages = UNSEEN) -> Fit:
    """Fits a table as the named kind, or as the one that its columns imply."""
    if kind is None:
        kind = next((name for name, each in KINDS.items() if table.has(*each.needs)), None)
    if kind is None or not table.has(*KINDS[kind].needs):
        known = "; ".join(f"{name}: {', '.join(each.needs)}" for name, each in KINDS.items())
        asked = f" of kind {kind}" if kind else ""
        raise CouldNotRun(f"{table.path} lacks the columns of a table{asked}", f"columns by kind: {known}")
    found = KINDS[kind].fit(table, options, stages)
    try:
        System(found.system_text())
    except SystemFileError as error:
        raise CouldNotRun(
            f"{table.path}: these numbers are beyond the limits of a system file: {error.message}",
            "look at the units of the columns",
        ) from None
    return found
