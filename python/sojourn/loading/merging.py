"""Merges the results of several machines: adds counts and rates, merges histograms, and never averages percentiles.

The merged result has every figure that one machine's has, step by step; see `figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from sojourn import _native
from sojourn.engine.results import MixCheck, UsersReport, WebStone
from sojourn.failure import CouldNotRun
from sojourn.loading import stream_merging
from sojourn.loading.figures import add, figures, rate, total, weights_of
from sojourn.loading.record import MachineShare, RequestsRecord, Step, StreamsRecord
from sojourn.loading.result import KINDS, Column, Interval, LoadResult, merged
from sojourn.loading.step_merging import generators, merged_steps

_ADDED_COLUMNS = ("requests_per_second", "errors_per_second", "bytes_per_second", "in_flight", "connections_open")


@dataclass(frozen=True)
class Part:
    """One machine's share of a load, with its result."""

    host: str
    share: float
    result: LoadResult | None
    failed_because: str | None = None
    clock_offset_seconds: float = 0.0
    round_trip_seconds: float = 0.0
    stream_bits_per_second: Sequence[float] = ()
    """The bit rate of each of its streams, of viewers."""

    @property
    def record(self) -> MachineShare:
        """The machine's entry in the merged result."""
        own = MachineShare(
            host=self.host,
            share=self.share,
            failed_because=self.failed_because,
            clock_offset_seconds=self.clock_offset_seconds,
            round_trip_seconds=self.round_trip_seconds,
            complete=False,
        )
        if self.result is None:
            return own
        record = self.result.record
        common = {
            "machine": record.machine,
            "generator_cpu_fraction": record.generator.cpu_fraction,
            "limited": record.generator.limited,
            "limited_because": record.generator.limited_because,
            "complete": record.complete,
        }
        if isinstance(record, StreamsRecord):
            return own.model_copy(update={**common, "streams": record.streaming.streams.started})
        of_requests = {
            "requests": record.requests,
            "requests_per_second": record.requests_per_second,
            "errors": record.errors,
            "send_lag_p99_seconds": record.generator.send_lag_p99_seconds,
        }
        return own.model_copy(update={**common, **of_requests})


def merge(parts: Sequence[Part], *, reached_by_all: bool = False) -> LoadResult:
    """Merges the results of all machines that have one, all of requests or all of viewers.

    Args:
        parts: of the machines.
        reached_by_all: whether steps are left out that some machines did not reach, each having stopped by itself.

    Raises:
        CouldNotRun: no machine has a result.
    """
    results = [part.result for part in parts if part.result is not None]
    if not results:
        raise CouldNotRun("; ".join(f"{part.host}: {part.failed_because}" for part in parts), "see --cluster")
    # Our clock is the one that other measurements here use, so results can be joined by it.
    offsets = [part.clock_offset_seconds for part in parts if part.result is not None]
    begun = [result.started_at - offset for result, offset in zip(results, offsets, strict=True)]
    started_at = float(np.nanmin(begun))
    if results[0].is_streams:
        return _streams(parts, results, started_at)
    record = _record(parts, results, started_at, reached_by_all)
    steps_log = _native.write_interval_log(started_at, _step_rows(record.steps, results))
    rows = [_interval([each for each in same if each]) for same in zip_longest(*(each.intervals for each in results))]
    intervals_log = _native.write_interval_log(started_at, [row for pair in rows for row in pair])
    return LoadResult(record, _timeline(results, started_at), steps_log, intervals_log)


def _interval(same: Sequence[Interval]) -> list[tuple[str, float, float, _native.Histogram]]:
    start = float(np.mean([each.start_seconds for each in same]))
    length = float(np.mean([each.length_seconds for each in same]))
    return [(kind, start, length, merged(each.latencies[kind] for each in same)) for kind in KINDS]


def _step_rows(
    steps: Sequence[Step], results: Sequence[LoadResult]
) -> list[tuple[str, float, float, _native.Histogram]]:
    """The rows of the merged step log."""
    by_step = zip_longest(*(result.step_latencies for result in results))
    whole = [add([each for each in same if each]) for same in by_step]
    spans = [(step.start_seconds, step.duration_seconds) for step in steps]
    whole = whole[: len(spans)] if spans else whole
    if not spans:
        seconds = max(result.of_requests.duration_seconds for result in results)
        start = min((result.intervals[0].start_seconds for result in results if result.intervals), default=0.0)
        spans = [(start, seconds)] * len(whole)
    return [
        (tag, *span, histogram)
        for span, histograms in zip(spans, whole, strict=True)
        for tag, histogram in histograms.items()
    ]


def _streams(parts: Sequence[Part], results: Sequence[LoadResult], started_at: float) -> LoadResult:
    """The merged run of viewers."""
    records = [result.of_streams for result in results]
    latencies = add([result.latencies for result in results])
    rates = [rate for part in parts for rate in part.stream_bits_per_second]
    fields = {
        **_common(parts, records, started_at),
        "kind": records[0].kind,
        **stream_merging.figures(records, latencies, rates),
    }
    record = StreamsRecord.model_validate(fields)
    start = min((step.start_seconds for step in record.steps), default=0.0)
    seconds = max((step.duration_seconds for step in record.steps), default=0.0)
    rows = [(tag, start, seconds, histogram) for tag, histogram in latencies.items()]
    timeline = stream_merging.timeline([result.timeline for result in results], started_at)
    return LoadResult(record, timeline, _native.write_interval_log(started_at, rows), "")


def _common(
    parts: Sequence[Part], records: Sequence[RequestsRecord] | Sequence[StreamsRecord], started_at: float
) -> dict[str, object]:
    """The fields that runs of both kinds have."""
    lost = [f"{part.host}: {part.failed_because}" for part in parts if part.failed_because]
    stopped = [
        f"{part.host}: {part.result.record.stopped_because}"
        for part in parts
        if part.result and not part.result.complete
    ]
    return {
        **{key: getattr(records[0], key) for key in ("tool", "version", "url", "seed", "connection")},
        "complete": not lost and not stopped,
        "interrupted": any(record.interrupted for record in records),
        "stopped_because": "; ".join([*lost, *stopped]) or None,
        "started_unix_seconds": started_at,
        "warnings": list(dict.fromkeys(warning for record in records for warning in record.warnings)),
        "machines": [part.record for part in parts],
    }


def _record(
    parts: Sequence[Part], results: Sequence[LoadResult], started_at: float, reached_by_all: bool
) -> RequestsRecord:
    records = [result.of_requests for result in results]
    latencies = add([result.latencies for result in results])
    webstone = _webstone(records)
    fields = {
        **_common(parts, records, started_at),
        **({"webstone": webstone} if webstone else {}),
        "failed_because": "; ".join(record.failed_because for record in records if record.failed_because) or None,
        "mix": _mix([record.mix for record in records if record.mix]),
        **figures(records, latencies),
        "generator": generators([record.generator for record in records], _reasons(parts), latencies),
        "users": _users([record.users for record in records if record.users]),
        "steps": merged_steps(records, [result.step_latencies for result in results], reached_by_all=reached_by_all),
    }
    return RequestsRecord.model_validate(fields)


def _reasons(parts: Sequence[Part]) -> list[str]:
    limits = [(part.host, part.result.limited_because) for part in parts if part.result]
    return [f"{host}: {because}" for host, because in limits if because]


def _mix(parts: Sequence[MixCheck]) -> MixCheck | None:
    """Machines draw independently, so their chi-squared statistics and degrees of freedom add up."""
    if not parts:
        return None
    from scipy.special import chdtrc

    freedom, chi_square = int(total(parts, "degrees_of_freedom")), total(parts, "chi_square")
    return MixCheck(
        draws=int(total(parts, "draws")),
        chi_square=chi_square,
        degrees_of_freedom=freedom,
        p_value=float(chdtrc(freedom, chi_square)),
    )


def _users(parts: Sequence[UsersReport]) -> UsersReport | None:
    """Merges user statistics; each machine has its own users from the same rows."""
    if not parts:
        return None
    return parts[0].model_copy(update={"users": int(total(parts, "users"))})


_WEBSTONE_ADDED = (
    "server_connection_rate_per_second",
    "server_error_rate_per_second",
    "server_throughput_mebibit_per_second",
    "littles_load_factor",
)


def _webstone(records: Sequence[RequestsRecord]) -> WebStone | None:
    """Rates and loads add up; the other figures are ratios of them."""
    weighted = zip(records, weights_of(records), strict=True)
    known = [(record.webstone, weight) for record, weight in weighted if record.webstone]
    if not known:
        return None
    parts, weights = [part for part, _ in known], [weight for _, weight in known]
    added = {key: rate(parts, weights, key) for key in _WEBSTONE_ADDED}
    connections, errors, throughput, load = added.values()
    return WebStone(
        **added,
        error_level_percent=100 * errors / connections if connections else None,
        average_response_time_ms=1e3 * load / connections if connections else None,
        average_client_throughput_mebibit_per_second=throughput / load if load else None,
    )


def _timeline(results: Sequence[LoadResult], started_at: float) -> dict[str, Column]:
    timelines = [result.timeline for result in results if result.timeline]
    if not timelines:
        return {}
    rows = min(len(timeline["time_seconds"]) for timeline in timelines)
    times = timelines[0]["time_seconds"][:rows]
    columns = {"time_seconds": times, "unix_seconds": started_at + times}
    for name in _ADDED_COLUMNS:
        columns[name] = np.sum([timeline[name][:rows] for timeline in timelines], axis=0)
    name = "generator_cpu_fraction"
    columns[name] = np.max([timeline[name][:rows] for timeline in timelines], axis=0)
    return columns
