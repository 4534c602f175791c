"""Metrics of the requests with one name: a scenario's requests, or endpoints.

`login` is a name, `GET /api/*` matches several; their histograms are merged and their counts added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from urllib.parse import quote

from sojourn import _native
from sojourn.engine.results import NamedFigures
from sojourn.failure import CouldNotRun
from sojourn.loading.metric import Metric
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult, merged

TAGS = ("response_time", "time_to_first_byte_intended")
"""The latencies recorded by name."""
_KNOWN = "use pNN, mean, max, ttfb.pNN, rps, errors or error_rate"
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "%,")


def tag(kind: str, name: str) -> str:
    """The tag of a name's histogram in an HDR log, where blanks and commas are not allowed."""
    return f"{kind}:{quote(name, safe=_PRINTABLE)}"


def server_timing_tag(metric: str, name: str) -> str:
    """The tag of the histogram of a `Server-Timing` metric."""
    return tag(f"server_timing_{quote(metric, safe=_PRINTABLE)}", name)


def figures_of(result: LoadResult, pattern: str) -> list[NamedFigures]:
    """The figures of the names that match a pattern; only the name itself if it equals the pattern."""
    record = result.record
    all_names = record.by_name if isinstance(record, RequestsRecord) else []
    exact = [each for each in all_names if each.name == pattern]
    return exact or [each for each in all_names if fnmatchcase(each.name, pattern)]


def latency(pattern: str, metric: Metric, kind: str, figure: Callable[[_native.Histogram], float]) -> Metric:
    """A latency metric of the requests with matching names, derived from the metric of all requests.

    Args:
        pattern: their names.
        metric: of all requests.
        kind: the tag of its histograms.
        figure: what is said of the histogram.

    Raises:
        CouldNotRun: it is not kept by name.
    """
    if kind not in TAGS:
        raise CouldNotRun(f"{metric.name} is not available by name", _KNOWN)

    def of_run(run: LoadResult) -> float:
        tags = [tag(kind, each.name) for each in figures_of(run, pattern)]
        found = [run.latencies[each] for each in tags if each in run.latencies]
        return figure(merged(found)) if found else math.nan

    return Metric(f"{pattern} {metric.name}", f"{metric.help}, of {pattern}", "time", metric.better, of_run)


def count(pattern: str, metric: Metric) -> Metric:
    """A rate, count or share of the requests with matching names, derived from the metric of all requests.

    Raises:
        CouldNotRun: it is not kept by name.
    """
    if metric.name not in _COUNTS:
        raise CouldNotRun(f"{metric.name} is not available by name", _KNOWN)
    figure = _COUNTS[metric.name]

    def of_run(run: LoadResult) -> float:
        found = figures_of(run, pattern)
        return figure(found) if found else math.nan

    return Metric(f"{pattern} {metric.name}", f"{metric.help}, of {pattern}", metric.quantity, metric.better, of_run)


def _error_rate(found: list[NamedFigures]) -> float:
    missed = sum(each.errors + each.unfinished for each in found)
    asked = missed + sum(each.requests for each in found)
    return missed / asked if asked else math.nan


_COUNTS: dict[str, Callable[[list[NamedFigures]], float]] = {
    "rps": lambda found: math.fsum(each.requests_per_second or 0.0 for each in found),
    "errors": lambda found: float(sum(each.errors for each in found)),
    "error_rate": _error_rate,
}
