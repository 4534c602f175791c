"""Joining a recording to a run by time: what a server used in each row of a load's timeline, from any machine.

Both carry seconds since 1970. A row's value is interpolated between the samples around it; rows beyond the
recording have none. Clocks of different machines differ: give the difference that was measured as `offset_seconds`.
"""

from __future__ import annotations

import numpy as np
import polars

from sojourn.failure import CouldNotRun
from sojourn.probe.recording import Recording
from sojourn.queueing.arrays import Array


def merge(timeline: polars.DataFrame, recording: Recording, *, offset_seconds: float = 0.0) -> polars.DataFrame:
    """The timeline with a column `probe_NAME` per counter.

    `timeline` has a column `unix_seconds`. `offset_seconds` is added to the recording's times.
    """
    if "unix_seconds" not in timeline.columns:
        raise CouldNotRun(
            "the timeline has no column unix_seconds", "it was written by an older version: measure it again"
        )
    at = timeline["unix_seconds"].to_numpy()
    times = np.array(recording.unix_seconds) + offset_seconds
    if not times.size or at.max() < times[0] or at.min() > times[-1]:
        raise CouldNotRun(
            "the recording and the run do not overlap in time",
            "probe while the load runs, and mind the difference of the machines' clocks (--offset)",
        )
    columns = [
        polars.Series(f"probe_{counter.name}", _interpolated(at, times, recording.values(counter.name)))
        for counter in recording.counters
    ]
    return timeline.with_columns(columns)


def _interpolated(at: Array, times: Array, values: Array) -> Array:
    known = np.isfinite(values)
    if not known.any():
        return np.full(at.shape, np.nan)
    return np.asarray(np.interp(at, times[known], values[known], left=np.nan, right=np.nan))
