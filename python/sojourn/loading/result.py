"""The result of a load run, with its embedded records as arrays and histograms.

`record` is the engine's result with additions (docs/load-results.md defines its keys). Derived figures come from the
histograms, which are merged and never averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from sojourn import _native
from sojourn.engine.results import StreamTimeline
from sojourn.loading.record import RequestsRecord, RunRecord, StreamsRecord
from sojourn.probe.merging import PREFIX, per_interval
from sojourn.probe.recording import Recording

Column = NDArray[np.float64]

EMBEDDED = ("timeline", "histograms", "intervals", "stream_bits_per_second")
"""Keys that the engine adds with `--embed`: a table, two HDR interval logs, and what merging bit rates takes."""
KINDS = ("response_time", "time_to_first_byte_intended")
"""Latencies recorded by interval, by tag."""


@dataclass(frozen=True)
class Interval:
    """An interval of a run, about a second long."""

    start_seconds: float
    """The interval's start, counted from the run's start."""
    length_seconds: float
    latencies: Mapping[str, _native.Histogram]
    """Latencies of requests answered in the interval, by tag: `response_time`, `time_to_first_byte_intended`."""
    errors: float
    """Failed requests; NaN without a timeline."""
    server_cpu_seconds: float
    """CPU time of the observed server; NaN if not observed."""
    generator_cpu_fraction: float

    @property
    def requests(self) -> int:
        """Requests that got a good response."""
        return len(self.latencies[KINDS[0]])


@dataclass(frozen=True)
class LoadResult:
    """A load run. Times are in seconds, rates per second, sizes in bytes; values not measured are NaN or None."""

    record: RunRecord
    """The engine's result, without the embedded records."""
    timeline: Mapping[str, Column]
    """Ten rows per second, as columns of equal length, NaN where not measured; empty if not recorded."""
    histogram_log: str
    """Every step's latencies as an HDR interval log."""
    interval_log: str
    """Every interval's latencies as an HDR interval log."""
    recording: Recording | None = None
    """The probed server's samples during the run."""

    @classmethod
    def of(cls, printed: RunRecord) -> LoadResult:
        """Parses the engine's output, with or without embedded records."""
        columns: Mapping[str, Sequence[float | None]] = {}
        if isinstance(printed.timeline, StreamTimeline):
            columns = printed.timeline.columns
        elif printed.timeline is not None:
            columns = dict(printed.timeline.columns)
        timeline = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
        intervals = printed.intervals if isinstance(printed, RequestsRecord) else None
        return cls(_without(printed, EMBEDDED), timeline, printed.histograms or "", intervals or "")

    def embedded(self) -> dict[str, JsonValue]:
        """The record with its embedded records, as the engine prints it."""
        columns: dict[str, JsonValue] = {
            name: [_plain(value) for value in column] for name, column in self.timeline.items()
        }
        logs: dict[str, JsonValue] = {"histograms": self.histogram_log, "intervals": self.interval_log}
        return {**self.record.as_json(), "timeline": {"columns": columns}, **logs}

    # -- figures

    @property
    def requests(self) -> int:
        """Good responses to requests due in the measured time."""
        return self.record.requests if isinstance(self.record, RequestsRecord) else 0

    @property
    def errors(self) -> int:
        """Requests that failed."""
        return self.record.errors if isinstance(self.record, RequestsRecord) else 0

    @property
    def requests_per_second(self) -> float:
        """Good responses per second; NaN if nothing was measured."""
        return _number(self.record.requests_per_second if isinstance(self.record, RequestsRecord) else None)

    @property
    def is_streams(self) -> bool:
        """True for a run of film viewers, which has other figures than a run of requests."""
        return isinstance(self.record, StreamsRecord)

    @property
    def complete(self) -> bool:
        """True if the run reached its planned end."""
        return self.record.complete

    @property
    def limited_because(self) -> str | None:
        """The reason why the generator was the limit, not the server; None if it was not."""
        generator = self.record.generator
        return (generator.limited_because or "it reported so") if generator.limited else None

    @property
    def lost_machines(self) -> list[str]:
        """The machines that have no result: of a load that several generated."""
        return [each.host for each in self.record.machines if each.failed_because]

    @property
    def is_whole_without_lost(self) -> bool:
        """Whether machines were lost, and all others have generated load to the end."""
        lost = self.lost_machines
        return bool(lost) and all(each.complete for each in self.record.machines if each.host not in lost)

    @property
    def of_requests(self) -> RequestsRecord:
        """The record, for a run of requests."""
        assert isinstance(self.record, RequestsRecord), "viewers made it"
        return self.record

    @property
    def of_streams(self) -> StreamsRecord:
        """The record, for a run of viewers."""
        assert isinstance(self.record, StreamsRecord), "requests made it"
        return self.record

    def quantile(self, fraction: float, kind: str = "response_time") -> float:
        """A quantile of a latency in seconds; NaN if unknown."""
        return _number(self.latencies[kind].quantile(fraction)) if kind in self.latencies else np.nan

    def quantiles(self, fractions: Sequence[float], kind: str = "response_time") -> Column:
        """Several quantiles, as an array."""
        return np.array([self.quantile(fraction, kind) for fraction in fractions])

    @cached_property
    def latencies(self) -> Mapping[str, _native.Histogram]:
        """Latencies of all steps by kind: `response_time`, `connect_time` and others that the engine records."""
        merged: dict[str, _native.Histogram] = {}
        for tag, _, _, histogram in _native.read_interval_log(self.histogram_log):
            merged.setdefault(tag, _native.Histogram()).merge(histogram)
        return merged

    @cached_property
    def step_latencies(self) -> Sequence[Mapping[str, _native.Histogram]]:
        """Latencies by step, in the order of `record.steps`."""
        steps: dict[float, dict[str, _native.Histogram]] = {}
        for tag, start, _, histogram in _native.read_interval_log(self.histogram_log):
            steps.setdefault(start, {})[tag] = histogram
        return [steps[start] for start in sorted(steps)]

    @cached_property
    def started_at(self) -> float:
        """The start of the run in seconds since the epoch, by the generator's clock; NaN if unknown."""
        if self.record.started_unix_seconds is not None:
            return self.record.started_unix_seconds
        line = next((line for line in self.histogram_log.splitlines() if line.startswith("#[StartTime: ")), None)
        return float(line.split()[1]) if line else np.nan

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """The run's intervals; empty if not recorded."""
        rows: dict[float, tuple[float, dict[str, _native.Histogram]]] = {}
        for tag, start, length, histogram in _native.read_interval_log(self.interval_log):
            rows.setdefault(start, (length, {}))[1][tag] = histogram
        return tuple(self._interval(start, length, kinds) for start, (length, kinds) in sorted(rows.items()))

    def _interval(self, start: float, length: float, kinds: dict[str, _native.Histogram]) -> Interval:
        within = np.zeros(0, dtype=bool)
        if "time_seconds" in self.timeline:
            # A row's time is the end of its tenth of a second.
            times = self.timeline["time_seconds"] - 0.05
            within = (times >= start) & (times < start + length)

        def mean(name: str) -> float:
            if name not in self.timeline or not within.any():
                return np.nan
            column = self.timeline[name][within]
            known = column[~np.isnan(column)]
            return float(known.mean()) if known.size else np.nan

        for kind in KINDS:
            kinds.setdefault(kind, _native.Histogram())
        errors, server = mean("errors_per_second") * length, mean("server_cpu_fraction") * length
        return Interval(start, length, kinds, errors, server, mean("generator_cpu_fraction"))

    @cached_property
    def interval_table(self) -> Mapping[str, Column]:
        """The intervals as columns of equal length, as `--csv` and `--parquet` write them."""
        if self.is_streams:
            return self._stream_table()
        columns: dict[str, list[float]] = {}
        for interval in self.intervals:
            for name, value in _row(interval).items():
                columns.setdefault(name, []).append(value)
        table = {name: np.array(values) for name, values in columns.items()}
        if not table:
            return {}
        table["unix_seconds"] = self.started_at + table["time_seconds"]
        return {**table, **self._probe_columns(table["unix_seconds"], table["length_seconds"])}

    def _stream_table(self) -> Mapping[str, Column]:
        """Converts the timeline of streams, which has one row per interval, at its end."""
        if not self.timeline:
            return {}
        own = {name: column for name, column in self.timeline.items() if not name.startswith(PREFIX)}
        lengths = own["length_seconds"]
        begins = {name: own[name] - lengths for name in ("time_seconds", "unix_seconds")}
        table = {**begins, **{name: column for name, column in own.items() if name not in begins}}
        return {**table, **self._probe_columns(table["unix_seconds"], lengths)}

    def _probe_columns(self, begins: Column, lengths: Column) -> Mapping[str, Column]:
        if self.recording is None:
            return {}
        offset = self.record.probe.offset_seconds if self.record.probe else 0.0
        return per_interval(self.recording, begins, lengths, offset_seconds=offset)


def merged(histograms: Iterable[_native.Histogram]) -> _native.Histogram:
    """The sum of histograms, as if everything had been recorded in one."""
    whole = _native.Histogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}


def _row(interval: Interval) -> dict[str, float]:
    length = interval.length_seconds
    row = {
        "time_seconds": interval.start_seconds,
        "length_seconds": length,
        "requests": float(interval.requests),
        "requests_per_second": interval.requests / length if length > 0 else np.nan,
        "errors_per_second": interval.errors / length if length > 0 else np.nan,
    }
    for kind, histogram in interval.latencies.items():
        for name, fraction in QUANTILES.items():
            row[f"{kind}_{name}_seconds"] = _number(histogram.quantile(fraction))
    row["generator_cpu_fraction"] = interval.generator_cpu_fraction
    row["server_cpu_fraction"] = interval.server_cpu_seconds / length if length > 0 else np.nan
    return row


def _without(record: RunRecord, names: Sequence[str]) -> RunRecord:
    kept = {name: value for name, value in record if name in record.model_fields_set and name not in names}
    return type(record).model_construct(**kept)


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
