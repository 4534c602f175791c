"""CPU time that each core lost to other programs during the rising load, from the timeline's windows."""

from __future__ import annotations

import polars

from sojourn.report.assessment.plots.timeline import CLIMB, GENERATOR_LOST, SERVER_LOST, TIME
from sojourn.report.assessment.run import Run
from sojourn.report.markup import Markup
from sojourn.report.tables import Row, absent, grid
from sojourn.text import format

TITLE = "Time lost to other programs, per core"
LIMIT_SECONDS = 1e-3
"""The most that a core may lose in an undisturbed window: the engine's limit for precise sources."""
_CORES = {"server": SERVER_LOST, "generator": GENERATOR_LOST}


def lost_time(run: Run) -> Markup:
    """One row per core: the share of time lost, the worst window, and the number of disturbed windows."""
    if run.timeline is None or not {CLIMB, TIME} <= set(run.timeline.columns):
        return absent("table-lost", TITLE, f"there is no timeline: {run.because_incomplete}")
    known = {name: _windows(run.timeline, column) for name, column in _CORES.items() if column in run.timeline.columns}
    rows = [_row(name, windows) for name, windows in known.items() if windows.height]
    if not rows:
        return absent("table-lost", TITLE, "the timeline does not contain it")
    head = ("Core of the", "Lost", "Most in a window", "Windows that lost over 1 ms", "Windows")
    note = "To other processes, interrupts and the hypervisor, over all climbs, in windows of 0.1 s."
    return grid("table-lost", TITLE, [head], rows, note)


def _windows(timeline: polars.DataFrame, column: str) -> polars.DataFrame:
    """The loss in each window with a known loss and length."""
    # A row's length is the time since the previous row of the same climb.
    length = polars.col(TIME).diff().over(CLIMB).alias("length")
    return timeline.select(polars.col(column).alias("lost"), length).drop_nulls()


def _row(name: str, windows: polars.DataFrame) -> Row:
    lost, length = windows["lost"].to_numpy(), windows["length"].to_numpy()
    return (
        name,
        format.percent(float(lost.sum() / length.sum())),
        format.seconds(float(lost.max())),
        format.percent(float((lost > LIMIT_SECONDS).mean())),
        format.count(windows.height),
    )
