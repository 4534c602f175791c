"""The live view: usage in the last second, a line per counter that changes."""

from __future__ import annotations

import numpy as np
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sojourn.engine.results import Counter
from sojourn.probe.recording import Recording
from sojourn.probe.totals import Used, totals
from sojourn.queueing.arrays import Array
from sojourn.report.terminal import table
from sojourn.text import format

WINDOW_SECONDS = 1.0
SPARK_SAMPLES = 40
HEAD = ("counter", "now", "")
"""The head of the columns."""
_SPARKS = " ▁▂▃▄▅▆▇█"


def view(recording: Recording) -> Group:
    """A screenful: counters other than 0, with their current rate or level and their recent course."""
    grid = table(*HEAD)
    for row in rows(recording):
        grid.add_row(*row)
    head = Text(f"{title(recording)}; Ctrl-C ends", style="bold")
    return Group(head, grid, Text(_missing(recording), style="dim"))


def title(recording: Recording) -> str:
    """The probed processes and how long they have been probed."""
    elapsed = recording.time_seconds[-1] - recording.time_seconds[0] if recording.time_seconds else 0.0
    pids = ", ".join(map(str, recording.pids[:8])) or "no process"
    return f"{pids}: {format.duration(elapsed)}, {len(recording.rows):,} samples"


def rows(recording: Recording) -> list[tuple[str, str, str]]:
    """Counters other than 0: name, current rate or level, recent course."""
    found = []
    for counter in recording.counters:
        course = _course(recording, counter)
        seen = course[np.isfinite(course)]
        if seen.size and seen.any():
            found.append((counter.name, _written(counter, float(seen[-1])), spark(course)))
    return found


def print_totals(recording: Recording, console: Console) -> None:
    """Prints usage from the first to the last sample."""
    console.print(_totals_table(totals(recording)))
    because: dict[str, list[str]] = {}
    for used in totals(recording):
        if used.unavailable is not None:
            because.setdefault(used.unavailable, []).append(used.counter.name)
    for why, names in because.items():
        console.print(Text(f"unavailable: {', '.join(names)}: {why}", style="dim"))


def spark(values: Array) -> str:
    """Values as a bar chart from 0 to their maximum; blanks where values are missing."""
    seen = values[np.isfinite(values)]
    top = float(seen.max()) if seen.size else 0.0
    bars = [
        " " if not np.isfinite(value) or top <= 0 else _SPARKS[max(0, round(8 * float(value) / top))]
        for value in values[-SPARK_SAMPLES:]
    ]
    return "".join(bars)


def _course(recording: Recording, counter: Counter) -> Array:
    """Levels unchanged; totals as rates over the last second before each sample."""
    values = recording.values(counter.name)[-4 * SPARK_SAMPLES :]
    times = np.array(recording.time_seconds[-len(values) :])
    if counter.kind == "level" or len(values) < 2:
        return values if counter.kind == "level" else np.array([])
    before = np.maximum(np.searchsorted(times, times - WINDOW_SECONDS, side="right") - 1, 0)
    elapsed = times - times[before]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((values - values[before]) / elapsed)[1:]


def _written(counter: Counter, value: float) -> str:
    per_second = "/s" if counter.kind == "total" else ""
    match counter.unit:
        case "B":
            return format.size(value) + per_second
        # Seconds of CPU time per second are cores.
        case "s" if per_second:
            return f"{format.number(value)} cores"
        case "s":
            return format.seconds(value)
        case _:
            return format.number(value) + per_second


def _missing(recording: Recording) -> str:
    count = len(recording.unavailable) + len(recording.missing)
    return f"{count} counters are unavailable; the summary says why" if count else ""


def _totals_table(used: list[Used]) -> Table:
    grid = table("counter", "total", "now or per second", "least", "most")
    for each in used:
        counter = each.counter
        if each.total is not None and each.per_second is not None:
            total = format.size(each.total) if counter.unit == "B" else format.number(each.total, 4)
            unit = " s" if counter.unit == "s" else ""
            grid.add_row(counter.name, total + unit, _written(counter, each.per_second), "", "")
        elif each.mean is not None and each.minimum is not None and each.maximum is not None:
            grid.add_row(
                counter.name,
                "",
                *(_written(counter, value) for value in (each.mean, each.minimum, each.maximum)),
            )
    return grid
