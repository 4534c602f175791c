"""Writes a run for other programs: CSV, Parquet, Prometheus' text format, HDR interval logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.engine.results import Summary
from sojourn.loading import stream_metrics
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult
from sojourn.results import writing
from sojourn.results.run_folder import parquet
from sojourn.text.prometheus import Exposition, Samples

if TYPE_CHECKING:
    import polars  # It takes as long to import as everything else of most commands.

PROMETHEUS_QUANTILES = {"0.5": "p50", "0.9": "p90", "0.95": "p95", "0.99": "p99", "0.999": "p999", "1": "max"}


@dataclass(frozen=True)
class Output:
    """An output format of a run."""

    name: str
    help: str
    content: Callable[[LoadResult], bytes]


def write(result: LoadResult, files: Mapping[str, Path]) -> list[Path]:
    """Writes the run to files, by format name; returns those that were written."""
    return [path for name, path in files.items() if writing.write(path, OUTPUTS[name].content(result))]


def intervals(result: LoadResult) -> polars.DataFrame:
    """A row per interval; NaN becomes null, which means not measured."""
    import polars

    return polars.DataFrame(dict(result.interval_table)).fill_nan(None)


def timeline(result: LoadResult) -> polars.DataFrame:
    """The run's timeline at ten rows per second."""
    import polars

    return polars.DataFrame(dict(result.timeline)).fill_nan(None)


def prometheus(result: LoadResult) -> str:
    """Prometheus' text format, for the node exporter's textfile collector or a push gateway."""
    record, written = result.record, Exposition("sojourn_load_")
    if result.is_streams:
        _add_streams(written, result)
    else:
        _add_requests(written, result.of_requests)
    for key, times in record:
        if key.endswith("_seconds") and isinstance(times, Summary) and times.mean is not None:
            quantiles = {quantile: getattr(times, name) for quantile, name in PROMETHEUS_QUANTILES.items()}
            about = "See the documentation of the load's results."
            written.summary(key, about, quantiles, times.mean * times.count, times.count)
    generator = record.generator
    written.family("generator_cpu_fraction", "gauge", "CPU of the generator.", _one(generator.cpu_fraction))
    limited = "1 if the generator, not the server, was the limit: do not compare."
    written.family("generator_limited", "gauge", limited, _one(generator.limited))
    written.family("complete", "gauge", "1 if the run is complete.", _one(record.complete))
    return written.text()


def _one(value: float | None) -> Samples:
    return [({}, value)]


def _by(label: str, counts: Mapping[str, int]) -> Samples:
    """A sample per cause or status; 0 without labels if there are none."""
    return [({label: each}, count) for each, count in counts.items()] or _one(0)


def _add_requests(written: Exposition, record: RequestsRecord) -> None:
    written.family("requests", "gauge", "Good responses.", _one(record.requests))
    written.family("errors", "gauge", "Requests that failed.", _by("cause", record.errors_by_cause))
    written.family("requests_per_second", "gauge", "Good responses per second.", _one(record.requests_per_second))
    written.family("bytes_per_second", "gauge", "Bytes received per second.", _one(record.bytes_per_second))


def _add_streams(written: Exposition, result: LoadResult) -> None:
    """Streams by outcome; packets or segments received, late and lost."""
    streaming = result.of_streams.streaming
    streams, starvation = streaming.streams, streaming.starvation
    for name in ("started", "judged", "conforming", "timed_out", "films_over", "unfinished"):
        written.family(f"streams_{name}", "gauge", f"Streams: {name.replace('_', ' ')}.", _one(getattr(streams, name)))
    share = "Share of the judged streams that conform."
    written.family("streams_conforming_fraction", "gauge", share, _one(streams.conforming_fraction))
    refused = _by("status", streams.refused_by_status)
    written.family("streams_refused", "gauge", "Streams that the server refused.", refused)
    written.family("streams_failed", "gauge", "Streams that failed.", _by("cause", streams.failures_by_cause))
    kind, came = stream_metrics.name(result), stream_metrics.pieces(result)
    said = {stream_metrics.PACKETS: "RTP packets", stream_metrics.SEGMENTS: "Segments"}[kind]
    for name in ("received", "expected", "lost", "late", "reordered", "duplicates", "void", "overflowed"):
        written.family(f"{kind}_{name}", "gauge", f"{said}: {name}.", _one(getattr(came, name, None)))
    written.family(
        "starvations", "gauge", "Starvations: how often a player had nothing to show.", _one(starvation.count)
    )
    written.family("starvation_seconds", "gauge", "How long players had nothing to show.", _one(starvation.seconds))
    about = "RTP packets, or responses with segments, including their headers."
    written.family("bytes_per_second", "gauge", about, _one(result.record.bytes_per_second))


_OUTPUTS = (
    Output("csv", "a row per interval", lambda run: intervals(run).write_csv().encode()),
    Output("parquet", "a row per interval", lambda run: parquet(intervals(run))),
    Output("prometheus", "Prometheus' text format", lambda run: prometheus(run).encode()),
)
OUTPUTS = {output.name: output for output in _OUTPUTS}
