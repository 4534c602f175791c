"""The stored record of a load point: metrics, the server's counters, and reasons for distrust."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sojourn.loading import metrics
from sojourn.loading.metric import known
from sojourn.loading.result import LoadResult
from sojourn.probe.totals import CounterUse
from sojourn.study.folder import Record, nothing
from sojourn.systems import Running

METRICS = (
    "rps",
    "throughput",
    "mean",
    "p50",
    "p95",
    "p99",
    "ttfb.p50",
    "ttfb.p95",
    "ttfb.p99",
    "error_rate",
    "generator.cpu",
    "server.cpu",
    "server.cpu_per_request",
    "server.cpu_user_per_request",
    "server.cpu_system_per_request",
    "server.minor_faults",
    "server.major_faults",
)
"""Metrics stored for every point, besides those that the study's checks and plots use."""
STREAM_METRICS = (
    "conforming",
    "served",
    "unfinished",
    "refused",
    "timed_out",
    "late_or_lost",
    "starved",
    "throughput",
    "setup.p95",
    "start.p95",
    "behind.p99",
    "generator.cpu",
    "server.cpu",
    "server.cpu_per_stream_second",
    "server.minor_faults",
    "server.major_faults",
    "server.disk_reads",
    "server.l1d_misses",
    "server.llc_misses",
)
"""The same for points with film viewers."""
DUE = "due_seconds"
"""The key of the times at which the requests were due, from the begin of the measured time; it may be missing."""
DISTURBED = 0.02
"""The share of the generator's core taken by others above which they may have caused the generator's limit."""
_DUE_DIGITS = 6
_NOTHING = "no request was answered in the measured time"


def measured(result: LoadResult, server: Running, names: Sequence[str]) -> Record:
    """The record of a measured point."""
    wanted = {name: metrics.find(name) for name in names}
    values = {name: metric.of_run(result) for name, metric in wanted.items()}
    lacking = {name: why for name, metric in wanted.items() if (why := metric.lacking_because(result)) is not None}
    if not result.is_streams and result.requests == 0:
        lacking = {name: _NOTHING for name, value in values.items() if math.isnan(value)} | lacking
    counters = result.record.probe.counters if result.record.probe else {}
    return {
        "failed": None if result.complete else str(result.record.stopped_because),
        "generator_limited": result.limited_because,
        "disturbed": is_disturbed(result),
        "server_version": server.version,
        "server_command": server.command,
        **_outcomes(result),
        # JSON has no NaN, so values that were not measured are null.
        "metrics": {name: None if math.isnan(value) else value for name, value in values.items()},
        "unavailable": lacking,
        "counters": {name: _figure(each) for name, each in counters.items()},
    }


def due(result: LoadResult, warm_up_seconds: float) -> Record:
    """When each request was due, also those of the warm-up, if the load recorded it."""
    requests = result.of_requests.each_request
    if requests is None:
        return {}
    return {DUE: sorted(round(each - warm_up_seconds, _DUE_DIGITS) for each in requests.due_seconds)}


def _outcomes(result: LoadResult) -> Record:
    """The number of requests, or of streams by outcome."""
    if result.is_streams:
        return {"streams": result.of_streams.streaming.streams.as_json()}
    return {"requests": result.requests, "errors": result.errors}


def is_disturbed(result: LoadResult) -> bool:
    """Returns true if the generator was the limit while other programs or the hypervisor took its core."""
    generator = result.record.generator
    # A value that was not measured exceeds nothing.
    taken = any(known(each) > DISTURBED for each in (generator.core_wait_fraction, generator.core_steal_fraction))
    return taken and result.limited_because is not None


def failed(because: str, server: Running) -> Record:
    """The record of a failed point."""
    return {**nothing(because), "server_version": server.version, "server_command": server.command}


def _figure(counter: CounterUse) -> float | None:
    """A counter's total over the measured time, or a level's mean; None if missing."""
    return counter.mean if counter.total is None else counter.total
