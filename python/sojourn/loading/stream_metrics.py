"""Metrics of runs of film viewers, which the common table includes for thresholds and searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sojourn.engine.results import Deliveries, Packets, StreamFigures, Streaming, Summary
from sojourn.failure import CouldNotRun
from sojourn.loading.metric import Metric, known
from sojourn.loading.record import StreamsRecord
from sojourn.loading.result import LoadResult

Pieces = Packets | Deliveries
"""Counts of packets, or of segments, by outcome."""

STREAM_LATENCIES = {
    "setup": ("setup_time", "streams: time from connecting until PLAY was answered, or the playlist there"),
    "start": ("time_to_first_packet", "streams: time from PLAY, or the first segment's request, to the first packet"),
    "behind": ("behind", "streams: how far packets or segments fell behind the pace of the first"),
    "jitter": ("jitter", "streams by RTSP: jitter of each track at its end"),
    "startup": ("startup_time", "streams by HLS: time from connecting until the player shows something"),
    "segment": ("segment_time", "streams by HLS: time from requesting a segment until it is complete"),
}
"""Latencies by the name before the dot: the histogram's tag, and the description."""


def _figure(of: Callable[[Streaming], object]) -> Callable[[LoadResult], float]:
    """A figure of the streams' outcomes; NaN in a run of requests."""
    return lambda run: known(of(run.record.streaming)) if isinstance(run.record, StreamsRecord) else math.nan


def _piece(of: Callable[[Pieces], object]) -> Callable[[LoadResult], float]:
    """A figure of packets or segments; NaN in a run of requests."""
    return lambda run: known(of(found)) if (found := pieces(run)) else math.nan


def _late_or_lost(run: LoadResult) -> float:
    found = pieces(run)
    if not found or not found.expected:
        return math.nan
    return (found.late + found.lost) / found.expected


def _served(run: LoadResult) -> float:
    """Viewers without a packet by the end of the run are not judged, but were not served either."""
    if not isinstance(run.record, StreamsRecord):
        return math.nan
    streams: StreamFigures = run.record.streaming.streams
    came = streams.judged + streams.unfinished
    return streams.conforming / came if came else math.nan


def _cpu_per_stream_second(run: LoadResult) -> float:
    return known(run.record.probe.cpu_seconds_per_stream_second) if run.record.probe else math.nan


STREAM_METRICS = (
    Metric(
        "conforming",
        "streams: the conforming share",
        "fraction",
        "higher",
        _figure(lambda streaming: streaming.streams.conforming_fraction),
    ),
    Metric(
        "served",
        "streams: the conforming share, where streams without a packet at the end count as failed",
        "fraction",
        "higher",
        _served,
    ),
    Metric(
        "unfinished",
        "streams: how many had no packet yet when the run ended",
        "count",
        "lower",
        _figure(lambda streaming: streaming.streams.unfinished),
    ),
    Metric(
        "refused",
        "streams: how many the server refused",
        "count",
        "lower",
        _figure(lambda streaming: streaming.streams.refused),
    ),
    Metric(
        "timed_out",
        "streams: how many waited too long",
        "count",
        "lower",
        _figure(lambda streaming: streaming.streams.timed_out),
    ),
    Metric(
        "lost",
        "streams: the share of packets or segments lost",
        "fraction",
        "lower",
        _piece(lambda found: found.lost_fraction),
    ),
    Metric(
        "late",
        "streams: the share of packets or segments late",
        "fraction",
        "lower",
        _piece(lambda found: found.late_fraction),
    ),
    Metric(
        "late_or_lost", "streams: the share of packets or segments late or lost", "fraction", "lower", _late_or_lost
    ),
    Metric(
        "starved",
        "streams: how many starved at times",
        "count",
        "lower",
        _figure(lambda streaming: streaming.starvation.streams),
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
    """Refuses metrics that a run of viewers does not have."""
    for metric in metrics:
        kind = metric.name.split(".")[0]
        names = [*(each.name for each in STREAM_METRICS), *_COMMON]
        if metric.name not in names and kind not in STREAM_LATENCIES:
            latencies = [f"{kind}.pNN" for kind in STREAM_LATENCIES]
            raise CouldNotRun(f"{metric.name!r} is not a metric of streams", f"one of {', '.join(names + latencies)}")


PACKETS = "packets"
SEGMENTS = "segments"

Time = tuple[str, Callable[[StreamsRecord], Summary | None]]

_TIMES: dict[str, tuple[Time, ...]] = {
    PACKETS: (
        ("connecting until playing", lambda record: record.setup_time_seconds),
        ("PLAY until the first packet", lambda record: record.time_to_first_packet_seconds),
        ("packets behind the first's pace", lambda record: record.behind_seconds),
        ("jitter of tracks", lambda record: record.jitter_seconds),
    ),
    SEGMENTS: (
        ("connecting until the playlist", lambda record: record.setup_time_seconds),
        ("asking until the first byte", lambda record: record.time_to_first_packet_seconds),
        ("connecting until it is shown", lambda record: record.startup_time_seconds),
        ("asking until a whole segment", lambda record: record.segment_time_seconds),
        ("segments behind the first's pace", lambda record: record.behind_seconds),
    ),
}


def name(result: LoadResult) -> str:
    """`packets` or `segments`."""
    return PACKETS if result.of_streams.streaming.segments is None else SEGMENTS


def pieces(result: LoadResult) -> Pieces | None:
    """Their counts by outcome; None in a run of requests."""
    if not isinstance(result.record, StreamsRecord):
        return None
    return result.record.streaming.segments or result.record.streaming.packets


def times(result: LoadResult) -> tuple[Time, ...]:
    """The rows of a table of times, with their keys in the record."""
    return _TIMES[name(result)]
