"""Results of several machines as one: counts and rates are added, histograms merged, percentiles never averaged.

What cannot be merged exactly (summaries whose histograms a machine does not hand over) is left out, not guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.loading.result import KINDS, Column, Interval, LoadResult, merged

ADDED = ("requests", "errors", "unfinished", "abandoned", "skipped", "requests_per_second", "bytes_per_second")
_ADDED_COLUMNS = ("requests_per_second", "errors_per_second", "bytes_per_second", "in_flight", "connections_open")


@dataclass(frozen=True)
class Part:
    """One machine's share of a load and what came of it."""

    host: str
    share: float
    result: LoadResult | None
    failed_because: str | None = None
    clock_offset_seconds: float = 0.0
    round_trip_seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The machine's entry in the merged result."""
        record = self.result.record if self.result else None
        generator = record["generator"] if record else {}
        return {
            "host": self.host,
            "share": self.share,
            "machine": record.get("machine") if record else None,
            "failed_because": self.failed_because,
            "clock_offset_seconds": self.clock_offset_seconds,
            "round_trip_seconds": self.round_trip_seconds,
            "requests": record["requests"] if record else None,
            "requests_per_second": record["requests_per_second"] if record else None,
            "errors": record["errors"] if record else None,
            "generator_cpu_fraction": generator.get("cpu_fraction"),
            "send_lag_p99_seconds": generator.get("send_lag_p99_seconds"),
            "limited": generator.get("limited"),
            "limited_because": generator.get("limited_because"),
            "complete": record["complete"] if record else False,
        }


def merge(parts: Sequence[Part]) -> LoadResult:
    """One result of all machines that have one.

    Raises:
        CouldNotRun: none has.
    """
    results = [part.result for part in parts if part.result is not None]
    if not results:
        raise CouldNotRun("; ".join(f"{part.host}: {part.failed_because}" for part in parts), "see --on")
    tags = sorted({tag for result in results for tag in result.latencies})
    latencies = {tag: merged(each.latencies[tag] for each in results if tag in each.latencies) for tag in tags}
    started_at = float(np.nanmin([result.started_at for result in results]))
    seconds = max(float(result.record["duration_seconds"]) for result in results)
    start = min((result.intervals[0].start_seconds for result in results if result.intervals), default=0.0)
    steps_log = _native.write_interval_log(started_at, [(tag, start, seconds, latencies[tag]) for tag in tags])
    rows = [_interval([each for each in same if each]) for same in zip_longest(*(each.intervals for each in results))]
    intervals_log = _native.write_interval_log(started_at, [row for pair in rows for row in pair])
    return LoadResult(_record(parts, results, latencies, seconds), _timeline(results), steps_log, intervals_log)


def _interval(same: Sequence[Interval]) -> list[tuple[str, float, float, _native.Histogram]]:
    start = float(np.mean([each.start_seconds for each in same]))
    length = float(np.mean([each.length_seconds for each in same]))
    return [(kind, start, length, merged(each.latencies[kind] for each in same)) for kind in KINDS]


def _record(
    parts: Sequence[Part], results: Sequence[LoadResult], latencies: dict[str, _native.Histogram], seconds: float
) -> dict[str, Any]:
    records = [result.record for result in results]
    lost = [f"{part.host}: {part.failed_because}" for part in parts if part.failed_because]
    stopped = [
        f"{part.host}: {part.result.record['stopped_because']}"
        for part in parts
        if part.result and not part.result.complete
    ]
    causes: Counter[str] = Counter()
    for record in records:
        causes.update(record["errors_by_cause"])
    first = records[0]
    return {
        **{key: first[key] for key in ("tool", "version", "url", "seed", "connection")},
        "complete": not lost and not stopped,
        "interrupted": any(record["interrupted"] for record in records),
        "stopped_because": "; ".join([*lost, *stopped]) or None,
        "warnings": list(dict.fromkeys(warning for record in records for warning in record.get("warnings", ()))),
        **{key: sum(record.get(key) or 0 for record in records) for key in ADDED},
        "errors_by_cause": dict(causes),
        "duration_seconds": seconds,
        **{f"{tag}_seconds": histogram.summary() for tag, histogram in latencies.items()},
        "generator": _generator(parts, records, latencies),
        "machines": [part.as_json() for part in parts],
        "steps": [],
    }


def _generator(
    parts: Sequence[Part], records: Sequence[Any], latencies: dict[str, _native.Histogram]
) -> dict[str, Any]:
    """The busiest machine's figures: the load is only as good as its worst part."""
    limits = [(part.host, part.result.limited_because) for part in parts if part.result]
    reasons = [f"{host}: {because}" for host, because in limits if because]
    lag = latencies["send_lag"].quantile(0.99) if "send_lag" in latencies else None
    generators = [record["generator"] for record in records]

    def most(key: str) -> float | None:
        return max((each[key] for each in generators if isinstance(each.get(key), int | float)), default=None)

    return {
        **{key: most(key) for key in ("cpu_fraction", "cpu_seconds_per_request", "core_wait_fraction")},
        "core_steal_fraction": most("core_steal_fraction"),
        "timer_slack_seconds": most("timer_slack_seconds"),
        "send_lag_limit_seconds": most("send_lag_limit_seconds"),
        "limited": bool(reasons),
        "limited_because": "; ".join(reasons) or None,
        "reasons": reasons,
        "send_lag_p99_seconds": lag,
    }


def _timeline(results: Sequence[LoadResult]) -> dict[str, Column]:
    timelines = [result.timeline for result in results if result.timeline]
    if not timelines:
        return {}
    rows = min(len(timeline["time_seconds"]) for timeline in timelines)
    columns = {"time_seconds": timelines[0]["time_seconds"][:rows]}
    for name in _ADDED_COLUMNS:
        columns[name] = np.sum([timeline[name][:rows] for timeline in timelines], axis=0)
    name = "generator_cpu_fraction"
    columns[name] = np.max([timeline[name][:rows] for timeline in timelines], axis=0)
    return columns
