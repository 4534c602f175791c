"""What can be asked of a run of viewers, and of no other; thresholds and searches find it in the common table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sojourn.failure import CouldNotRun
from sojourn.loading.metric import Metric, known
from sojourn.loading.result import LoadResult

STREAM_LATENCIES = {
    "setup": ("setup_time", "streams: time from connecting until PLAY was answered"),
    "start": ("time_to_first_packet", "streams: time from PLAY to the first packet"),
    "behind": ("behind", "streams: by how much packets came after the pace of the first"),
    "jitter": ("jitter", "streams: jitter of each track at its end"),
}
"""By the name before the dot: the histogram's tag, and what it measures."""


def _figure(part: str, name: str) -> Callable[[LoadResult], float]:
    """A figure of a part of what became of the streams; NaN in a run of requests."""
    return lambda run: known(((run.record.get("streaming") or {}).get(part) or {}).get(name))


def _late_or_lost(run: LoadResult) -> float:
    packets = (run.record.get("streaming") or {}).get("packets")
    if not packets or not packets["expected"]:
        return math.nan
    return float((packets["late"] + packets["lost"]) / packets["expected"])


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
    Metric("refused", "streams: how many the server refused", "count", "lower", _figure("streams", "refused")),
    Metric("timed_out", "streams: how many waited too long", "count", "lower", _figure("streams", "timed_out")),
    Metric(
        "lost", "streams: the share of packets that were lost", "fraction", "lower", _figure("packets", "lost_fraction")
    ),
    Metric(
        "late", "streams: the share of packets that came late", "fraction", "lower", _figure("packets", "late_fraction")
    ),
    Metric("late_or_lost", "streams: the share of packets that were late or lost", "fraction", "lower", _late_or_lost),
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
