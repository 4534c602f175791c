"""A run for other programs: CSV, Parquet, Prometheus' text format, HDR interval logs. One row of a table each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars

from sojourn.failure import CouldNotRun
from sojourn.loading.prometheus import families as stream_families
from sojourn.loading.result import LoadResult

PROMETHEUS_QUANTILES = {"0.5": "p50", "0.9": "p90", "0.95": "p95", "0.99": "p99", "0.999": "p999", "1": "max"}


@dataclass(frozen=True)
class Output:
    """A format that a run can be written in."""

    name: str
    help: str
    write: Callable[[LoadResult, Path], None]


def write(result: LoadResult, files: Mapping[str, Path]) -> None:
    """Writes the run to files, by the format's name."""
    for name, path in files.items():
        try:
            OUTPUTS[name].write(result, path)
        except OSError as error:
            raise CouldNotRun(f"cannot write {path}: {error.strerror}", f"give another --{name}") from error


def intervals(result: LoadResult) -> polars.DataFrame:
    """A row per interval; NaN becomes null, as tables say that a thing was not measured."""
    return polars.DataFrame(dict(result.interval_table)).fill_nan(None)


def timeline(result: LoadResult) -> polars.DataFrame:
    """Ten rows a second."""
    return polars.DataFrame(dict(result.timeline)).fill_nan(None)


def prometheus(result: LoadResult) -> str:
    """Prometheus' text exposition format 0.0.4, for the node exporter's textfile collector or a push gateway."""
    record, lines = result.record, list[str]()

    def family(name: str, kind: str, help_text: str, samples: list[tuple[str, Any]]) -> None:
        known = [(labels, value) for labels, value in samples if isinstance(value, int | float)]
        if known:
            lines.append(f"# HELP sojourn_load_{name} {help_text}")
            lines.append(f"# TYPE sojourn_load_{name} {kind}")
            lines.extend(f"sojourn_load_{name}{labels} {float(value):.9g}" for labels, value in known)

    if result.is_streams:
        for each in stream_families(result):
            family(*each)
    else:
        _requests(record, family)
    for key in [key for key, value in record.items() if key.endswith("_seconds") and isinstance(value, dict)]:
        times = record[key]
        if "p99" not in times or not times["count"]:
            continue
        samples = [(f'{{quantile="{q}"}}', times[name]) for q, name in PROMETHEUS_QUANTILES.items()]
        family(key, "summary", "See the documentation of the load's results.", samples)
        lines.append(f"sojourn_load_{key}_sum {times['mean'] * times['count']:.9g}")
        lines.append(f"sojourn_load_{key}_count {times['count']}")
    generator = record["generator"]
    family("generator_cpu_fraction", "gauge", "CPU of the generator.", [("", generator["cpu_fraction"])])
    limited = [("", int(generator["limited"]))]
    family("generator_limited", "gauge", "1 if the generator, not the server, was the limit: do not compare.", limited)
    family("complete", "gauge", "1 if the run went to its end.", [("", int(record["complete"]))])
    return "\n".join(lines) + "\n"


def _requests(record: Mapping[str, Any], family: Callable[[str, str, str, list[tuple[str, Any]]], None]) -> None:
    family("requests", "gauge", "Good answers.", [("", record["requests"])])
    causes = [(f'{{cause="{cause}"}}', count) for cause, count in record["errors_by_cause"].items()]
    family("errors", "gauge", "Requests that failed.", causes or [("", 0)])
    family("requests_per_second", "gauge", "Good answers per second.", [("", record["requests_per_second"])])
    family("bytes_per_second", "gauge", "Bytes received per second.", [("", record["bytes_per_second"])])


_OUTPUTS = (
    Output("csv", "a row per interval", lambda run, path: intervals(run).write_csv(path)),
    Output("parquet", "a row per interval", lambda run, path: intervals(run).write_parquet(path)),
    Output("prometheus", "Prometheus' text format", lambda run, path: _text(path, prometheus(run))),
)
OUTPUTS = {output.name: output for output in _OUTPUTS}


def _text(path: Path, text: str) -> None:
    path.write_text(text)
