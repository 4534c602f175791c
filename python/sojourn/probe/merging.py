"""Joins a recording to a run by time: adds a server's counters to each row of a load's timeline.

Both carry seconds since 1970. A row's value is interpolated between the samples around it; rows outside the recording
have none. Clocks of different machines differ: give the measured difference as `offset_seconds`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sojourn.failure import CouldNotRun
from sojourn.probe.recording import Recording
from sojourn.queueing.arrays import Array

if TYPE_CHECKING:
    import polars  # It takes as long to import as everything else of most commands.

PREFIX = "probe_"


def merge(timeline: polars.DataFrame, recording: Recording, *, offset_seconds: float = 0.0) -> polars.DataFrame:
    """The timeline with a column `probe_NAME` per counter.

    `timeline` has a column `unix_seconds`. `offset_seconds` is added to the recording's times.
    """
    import polars

    if "unix_seconds" not in timeline.columns:
        raise CouldNotRun(
            "the timeline has no column unix_seconds", "it was written by an older version: measure it again"
        )
    at = timeline["unix_seconds"].to_numpy()
    require_overlap(recording, float(at.min()), float(at.max()), offset_seconds)
    times = np.array(recording.unix_seconds) + offset_seconds
    columns = [
        polars.Series(PREFIX + counter.name, _interpolated(at, times, recording.values(counter.name)))
        for counter in recording.counters
    ]
    return timeline.with_columns(columns)


def require_overlap(recording: Recording, begin: float, end: float, offset_seconds: float) -> None:
    """Refuses a recording that does not overlap the run in time."""
    times = recording.unix_seconds
    if not times or end < times[0] + offset_seconds or begin > times[-1] + offset_seconds:
        raise CouldNotRun(
            "the recording and the run do not overlap in time",
            "probe while the load runs, and correct for the machines' clocks with --offset",
        )


def within(recording: Recording, begin: float, end: float, *, offset_seconds: float = 0.0) -> Recording:
    """The part of a recording between two moments, with interpolated ends; without samples if they do not overlap."""
    times = np.array(recording.unix_seconds) + offset_seconds
    if not times.size or end < times[0] or begin > times[-1]:
        return replace(recording, unix_seconds=[], time_seconds=[], sampling_seconds=[], rows=[])
    begin, end = max(begin, float(times[0])), min(end, float(times[-1]))
    inside = times[(times > begin) & (times < end)]
    at = np.concatenate([[begin], inside, [end]])
    values = [_interpolated(at, times, recording.values(counter.name)) for counter in recording.counters]
    return replace(
        recording,
        unix_seconds=list(at),
        time_seconds=list(np.interp(at, times, recording.time_seconds)),
        sampling_seconds=list(np.interp(at, times, recording.sampling_seconds)),
        rows=[list(row) for row in zip(*values, strict=True)] if values else [[] for _ in at],
    )


def per_interval(recording: Recording, begins: Array, lengths: Array, *, offset_seconds: float) -> dict[str, Array]:
    """Every counter per interval: `probe_NAME_per_second` for a total, the mean `probe_NAME` for a level."""
    times = np.array(recording.unix_seconds) + offset_seconds
    columns = {}
    for counter in recording.counters:
        values = recording.values(counter.name)
        ends = [_interpolated(moments, times, values) for moments in (begins, begins + lengths)]
        if counter.kind == "total":
            columns[f"{PREFIX}{counter.name}_per_second"] = np.asarray((ends[1] - ends[0]) / lengths)
        else:
            columns[f"{PREFIX}{counter.name}"] = _means(begins, lengths, times, values, (ends[0] + ends[1]) / 2)
    return columns


def _means(begins: Array, lengths: Array, times: Array, values: Array, otherwise: Array) -> Array:
    """The mean of the samples within each interval; an interpolated value for intervals without samples."""
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(values[known])])
    first, last = (np.searchsorted(times[known], moments) for moments in (begins, begins + lengths))
    counts = last - first
    return np.asarray(np.where(counts > 0, (sums[last] - sums[first]) / np.maximum(counts, 1), otherwise))


def _interpolated(at: Array, times: Array, values: Array) -> Array:
    known = np.isfinite(values)
    if not known.any():
        return np.full(at.shape, np.nan)
    return np.asarray(np.interp(at, times[known], values[known], left=np.nan, right=np.nan))
