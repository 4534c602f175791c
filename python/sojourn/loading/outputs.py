"""Writes a run for other programs: CSV, Parquet, Prometheus' text format, HDR interval logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars

from sojourn.engine.results import Summary
from sojourn.loading import stream_metrics
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult
from sojourn.results import writing
from sojourn.results.run_folder import parquet

Samples = list[tuple[str, float | None]]
"""Pairs of labels and value; a family without values is left out."""
Family = tuple[str, str, str, Samples]

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
    return polars.DataFrame(dict(result.interval_table)).fill_nan(None)


def timeline(result: LoadResult) -> polars.DataFrame:
    """The run's timeline at ten rows per second."""
    return polars.DataFrame(dict(result.timeline)).fill_nan(None)


def prometheus(result: LoadResult) -> str:
    """Prometheus' text exposition format 0.0.4, for the node exporter's textfile collector or a push gateway."""
    record, lines = result.record, list[str]()

    def family(name: str, kind: str, help_text: str, samples: Samples) -> None:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            lines.append(f"# HELP sojourn_load_{name} {help_text}")
            lines.append(f"# TYPE sojourn_load_{name} {kind}")
            lines.extend(f"sojourn_load_{name}{labels} {float(value):.9g}" for labels, value in known)

    if result.is_streams:
        for each in families(result):
            family(*each)
    else:
        _requests(result.of_requests, family)
    for key, times in record:
        if not key.endswith("_seconds") or not isinstance(times, Summary) or times.mean is None:
            continue
        samples: Samples = [(f'{{quantile="{q}"}}', getattr(times, name)) for q, name in PROMETHEUS_QUANTILES.items()]
        family(key, "summary", "See the documentation of the load's results.", samples)
        lines.append(f"sojourn_load_{key}_sum {times.mean * times.count:.9g}")
        lines.append(f"sojourn_load_{key}_count {times.count}")
    family("generator_cpu_fraction", "gauge", "CPU of the generator.", [("", record.generator.cpu_fraction)])
    limited: Samples = [("", int(record.generator.limited))]
    family("generator_limited", "gauge", "1 if the generator, not the server, was the limit: do not compare.", limited)
    family("complete", "gauge", "1 if the run went to its end.", [("", int(record.complete))])
    return "\n".join(lines) + "\n"


def _requests(record: RequestsRecord, family: Callable[[str, str, str, Samples], None]) -> None:
    family("requests", "gauge", "Good answers.", [("", record.requests)])
    causes: Samples = [(f'{{cause="{cause}"}}', count) for cause, count in record.errors_by_cause.items()]
    family("errors", "gauge", "Requests that failed.", causes or [("", 0)])
    family("requests_per_second", "gauge", "Good answers per second.", [("", record.requests_per_second)])
    family("bytes_per_second", "gauge", "Bytes received per second.", [("", record.bytes_per_second)])


_OUTPUTS = (
    Output("csv", "a row per interval", lambda run: intervals(run).write_csv().encode()),
    Output("parquet", "a row per interval", lambda run: parquet(intervals(run))),
    Output("prometheus", "Prometheus' text format", lambda run: prometheus(run).encode()),
)
OUTPUTS = {output.name: output for output in _OUTPUTS}


def families(result: LoadResult) -> Iterator[Family]:
    """The metric families of a streaming run: streams by outcome, packets received, late and lost."""
    streaming = result.of_streams.streaming
    streams, starvation = streaming.streams, streaming.starvation
    for name in ("started", "judged", "conforming", "timed_out", "films_over", "unfinished"):
        yield f"streams_{name}", "gauge", f"Streams: {name.replace('_', ' ')}.", [("", getattr(streams, name))]
    share: Samples = [("", streams.conforming_fraction)]
    yield "streams_conforming_fraction", "gauge", "Share of the judged streams that conform.", share
    refused: Samples = [(f'{{status="{status}"}}', count) for status, count in streams.refused_by_status.items()]
    yield "streams_refused", "gauge", "Streams that the server refused.", refused or [("", 0)]
    failed: Samples = [(f'{{cause="{cause}"}}', count) for cause, count in streams.failures_by_cause.items()]
    yield "streams_failed", "gauge", "Streams that failed.", failed or [("", 0)]
    kind, came = stream_metrics.name(result), stream_metrics.pieces(result)
    said = {stream_metrics.PACKETS: "Packets of RTP", stream_metrics.SEGMENTS: "Segments"}[kind]
    for name in ("received", "expected", "lost", "late", "reordered", "duplicates", "void", "overflowed"):
        yield f"{kind}_{name}", "gauge", f"{said}: {name}.", [("", getattr(came, name, None))]
    yield "starvations", "gauge", "Times that a player had nothing to show.", [("", starvation.count)]
    yield "starvation_seconds", "gauge", "How long players had nothing to show.", [("", starvation.seconds)]
    yield (
        "bytes_per_second",
        "gauge",
        "Packets of RTP, or answers with segments, with their headers.",
        [("", result.record.bytes_per_second)],
    )
