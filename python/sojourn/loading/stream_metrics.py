"""What can be asked of a run of viewers, and of no other; thresholds and searches find it in the common table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sojourn.failure import CouldNotRun
from sojourn.loading.metric import Metric, known
from sojourn.loading.result import LoadResult

STREAM_LATENCIES = {
    "setup": ("setup_time", "streams: time from connecting until PLAY was answered, or the playlist there"),
    "start": ("time_to_first_packet", "streams: time from PLAY, or the first segment's request, to the first packet"),
    "behind": ("behind", "streams: by how much packets or segments came after the pace of the first"),
    "jitter": ("jitter", "streams by RTSP: jitter of each track at its end"),
    "startup": ("startup_time", "streams by HLS: time from connecting until the player shows something"),
    "segment": ("segment_time", "streams by HLS: time from asking for a segment until it is there whole"),
}
"""By the name before the dot: the histogram's tag, and what it measures."""


def _figure(part: str, name: str) -> Callable[[LoadResult], float]:
    """A figure of a part of what became of the streams; NaN in a run of requests."""
    return lambda run: known(((run.record.get("streaming") or {}).get(part) or {}).get(name))


def _piece(name: str) -> Callable[[LoadResult], float]:
    """A figure of packets or segments; NaN in a run of requests."""
    return lambda run: known(pieces(run).get(name))


def _late_or_lost(run: LoadResult) -> float:
    found = pieces(run)
    if not found or not found["expected"]:
        return math.nan
    return float((found["late"] + found["lost"]) / found["expected"])


def _served(run: LoadResult) -> float:
    """Viewers without a packet at the end of the run are not judged, but were not served either."""
    streams = (run.record.get("streaming") or {}).get("streams") or {"judged": 0, "unfinished": 0}
    came = streams["judged"] + streams["unfinished"]
    return float(streams["conforming"] / came) if came else math.nan


def _cpu_per_stream_second(run: LoadResult) -> float:
    return known((run.record.get("probe") or {}).get("cpu_seconds_per_stream_second"))


STREAM_METRICS = (
    Metric(
        "conforming",
        "streams: the share that conforms",
        "fraction",
        "higher",
        _figure("streams", "conforming_fraction"),
    ),
    Metric(
        "served",
        "streams: the share that conforms, of these and those that had no packet yet when the run ended",
        "fraction",
        "higher",
        _served,
    ),
    Metric(
        "unfinished",
        "streams: how many had no packet yet when the run ended",
        "count",
        "lower",
        _figure("streams", "unfinished"),
    ),
    Metric("refused", "streams: how many the server refused", "count", "lower", _figure("streams", "refused")),
    Metric("timed_out", "streams: how many waited too long", "count", "lower", _figure("streams", "timed_out")),
    Metric("lost", "streams: the share of packets or segments lost", "fraction", "lower", _piece("lost_fraction")),
    Metric("late", "streams: the share of packets or segments late", "fraction", "lower", _piece("late_fraction")),
    Metric(
        "late_or_lost", "streams: the share of packets or segments late or lost", "fraction", "lower", _late_or_lost
    ),
    Metric(
        "starved", "streams: how many had nothing to show at times", "count", "lower", _figure("starvation", "streams")
    ),
    Metric(
        "server.cpu_per_stream_second",
        "streams: CPU time of the probed server per second of a stream",
        "time",
        "lower",
        _cpu_per_stream_second,
    ),
)
_COMMON = (
    "throughput",
    "generator.cpu",
    "server.cpu",
    "server.minor_faults",
    "server.major_faults",
    "server.disk_reads",
    "server.l1d_misses",
    "server.llc_misses",
)


def require_of_streams(metrics: Sequence[Metric]) -> None:
    """Refuses figures that a run of viewers does not have."""
    for metric in metrics:
        kind = metric.name.split(".")[0]
        names = [*(each.name for each in STREAM_METRICS), *_COMMON]
        if metric.name not in names and kind not in STREAM_LATENCIES:
            latencies = [f"{kind}.pNN" for kind in STREAM_LATENCIES]
            raise CouldNotRun(f"{metric.name!r} is no figure of streams", f"one of {', '.join(names + latencies)}")


PACKETS = "packets"
SEGMENTS = "segments"

_TIMES = {
    PACKETS: (
        ("connecting until playing", "setup_time_seconds"),
        ("PLAY until the first packet", "time_to_first_packet_seconds"),
        ("packets behind the first's pace", "behind_seconds"),
        ("jitter of tracks", "jitter_seconds"),
    ),
    SEGMENTS: (
        ("connecting until the playlist", "setup_time_seconds"),
        ("asking until the first byte", "time_to_first_packet_seconds"),
        ("connecting until it is shown", "startup_time_seconds"),
        ("asking until a whole segment", "segment_time_seconds"),
        ("segments behind the first's pace", "behind_seconds"),
    ),
}


def name(result: LoadResult) -> str:
    """`packets` or `segments`."""
    return SEGMENTS if SEGMENTS in result.record["streaming"] else PACKETS


def pieces(result: LoadResult) -> Mapping[str, Any]:
    """What became of them; nothing in a run of requests."""
    streaming = result.record.get("streaming") or {}
    return streaming.get(SEGMENTS) or streaming.get(PACKETS) or {}


def times(result: LoadResult) -> tuple[tuple[str, str], ...]:
    """Rows of a table of times, by the result's keys."""
    return _TIMES[name(result)]
