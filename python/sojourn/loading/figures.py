"""Merges the figures of several machines: adds counts, and computes latencies from merged histograms.

Each machine returns one histogram per kind of latency, per cause of failure, and per status, size class and goodness of
an answer (`good_200_10240`, `wrong_404_0`; see `crates/load/src/statistics/step.rs`). Their sums are what a single
machine would have recorded for every request, so nothing here is an approximation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sojourn import _native
from sojourn.engine.results import (
    Censored,
    LoadRecord,
    NamedFigures,
    Record,
    SizeFigures,
    StatusFigures,
    StepReport,
    Summary,
    Unavailable,
)
from sojourn.loading import named
from sojourn.loading.result import merged

Part = LoadRecord | StepReport
"""A machine's record of a run, or of a step."""
Histograms = Mapping[str, _native.Histogram]

COUNTS = ("requests", "errors", "unfinished", "abandoned", "redirects", "skipped", "handshakes_resumed")
_RATES = ("requests_per_second", "bytes_per_second")
LATENCIES = (
    "response_time",
    "response_time_sent",
    "time_to_first_byte",
    "time_to_first_byte_intended",
    "transfer_time",
    "connect_time",
    "handshake_time",
    "send_lag",
)
_RECEIVE_LAG = "receive_lag"
_ERROR_TIME = "error_time_"
_CELL_PARTS = 3


def add(histograms: Sequence[Histograms]) -> dict[str, _native.Histogram]:
    """Adds the histograms of several machines by tag."""
    tags = sorted({tag for each in histograms for tag in each})
    return {tag: merged(each[tag] for each in histograms if tag in each) for tag in tags}


def figures(records: Sequence[Part], histograms: Histograms) -> dict[str, object]:
    """The combined figures of all machines, in the fields of one machine's record."""
    causes: Counter[str] = Counter()
    for record in records:
        causes.update(record.errors_by_cause)
    counts = {key: total(records, key) for key in COUNTS}
    weights = weights_of(records)
    return {
        **counts,
        "errors_by_cause": dict(causes),
        "error_time_seconds": {
            tag.removeprefix(_ERROR_TIME): summary(each)
            for tag, each in histograms.items()
            if tag.startswith(_ERROR_TIME)
        },
        "censored": _censored(records, counts),
        "duration_seconds": max(record.duration_seconds for record in records),
        **{key: rate(records, weights, key) for key in _RATES},
        **{f"{tag}_seconds": summary(histograms[tag]) for tag in LATENCIES if tag in histograms},
        "receive_lag_seconds": _receive_lag(records, histograms),
        "by_status": _by_status(histograms),
        "by_size": _by_size(records, histograms),
        "abandoned_fraction": _abandoned(counts),
        "by_name": _by_name(records, histograms),
    }


def total(parts: Sequence[Record], key: str) -> float:
    """The sum over the machines."""
    return sum(getattr(part, key) or 0 for part in parts)


def most(values: Sequence[float | None]) -> float | None:
    """The largest known value."""
    return max((value for value in values if value is not None), default=None)


def known_most(values: Sequence[float | Unavailable]) -> float | Unavailable:
    """The largest of the machines' figures; the reason if none has one."""
    return max((value for value in values if not isinstance(value, Unavailable)), default=values[0])


def weights_of(records: Sequence[Part]) -> list[float]:
    """The weights of the machines' rates in their sum, over the time of the longest: one may have ended earlier."""
    longest = max(record.duration_seconds for record in records)
    return [record.duration_seconds / longest if longest > 0 else 1.0 for record in records]


def rate(parts: Sequence[Record], weights: Sequence[float], key: str) -> float:
    """The sum of the machines' rates, or of other figures per second, by their weights."""
    return sum((getattr(part, key) or 0) * weight for part, weight in zip(parts, weights, strict=True))


def total_if_known(parts: Sequence[Record], key: str) -> float | None:
    """The sum over the machines, or None if a machine has no value."""
    values = [getattr(part, key) for part in parts]
    return None if None in values else sum(values)


def summary(histogram: _native.Histogram) -> Summary:
    """A histogram's statistics in the form of a record."""
    return Summary.model_validate(histogram.summary())


def _censored(records: Sequence[Part], counts: Mapping[str, float]) -> Censored:
    timeouts = sum(record.censored.timeouts for record in records)
    asked = counts["requests"] + counts["errors"] + counts["unfinished"]
    fraction = (timeouts + counts["unfinished"]) / asked if asked else None
    return Censored(timeouts=timeouts, unfinished=int(counts["unfinished"]), fraction=fraction)


def _abandoned(counts: Mapping[str, float]) -> float | None:
    asked = counts["requests"] + counts["errors"] + counts["unfinished"] + counts["abandoned"]
    return counts["abandoned"] / asked if asked else None


def _receive_lag(records: Sequence[Part], histograms: Histograms) -> Summary | Unavailable:
    lacking = (each.receive_lag_seconds for each in records if isinstance(each.receive_lag_seconds, Unavailable))
    return next(lacking, None) or summary(histograms[_RECEIVE_LAG])


def _cells(histograms: Histograms) -> list[tuple[bool, int, int, _native.Histogram]]:
    """Complete responses: whether good, status, start of their size class, response times."""
    cells = []
    for tag, histogram in histograms.items():
        parts = tag.split("_")
        if len(parts) == _CELL_PARTS and parts[0] in ("good", "wrong"):
            cells.append((parts[0] == "good", int(parts[1]), int(parts[2]), histogram))
    return cells


def _by_status(histograms: Histograms) -> dict[str, StatusFigures]:
    found: dict[int, list[_native.Histogram]] = {}
    for _, status, _, histogram in _cells(histograms):
        found.setdefault(status, []).append(histogram)
    whole = {status: merged(each) for status, each in sorted(found.items())}
    return {
        str(status): StatusFigures(responses=len(each), response_time_seconds=summary(each))
        for status, each in whole.items()
    }


def _by_name(records: Sequence[Part], histograms: Histograms) -> list[NamedFigures]:
    """Merges figures by name, in the order of the first machine."""
    found: dict[str, list[tuple[NamedFigures, float]]] = {}
    for record, weight in zip(records, weights_of(records), strict=True):
        for each in record.by_name:
            found.setdefault(each.name, []).append((each, weight))
    return [_named(name, each, histograms) for name, each in found.items()]


def _named(name: str, weighted: Sequence[tuple[NamedFigures, float]], histograms: Histograms) -> NamedFigures:
    parts, weights = [part for part, _ in weighted], [weight for _, weight in weighted]
    causes: Counter[str] = Counter()
    for part in parts:
        causes.update(part.errors_by_cause)
    counts = ("requests", "errors", "redirects", "unfinished", "abandoned")
    answered = total(parts, "requests")
    body = sum((part.response_bytes_mean or 0.0) * part.requests for part in parts)
    none = _native.Histogram()
    return NamedFigures.model_validate(
        {
            "name": name,
            **{key: total(parts, key) for key in counts},
            "requests_per_second": rate(parts, weights, "requests_per_second"),
            "errors_by_cause": dict(causes),
            "first_failure": next((part.first_failure for part in parts if part.first_failure), None),
            "response_bytes_mean": body / answered if answered else None,
            **{f"{kind}_seconds": summary(histograms.get(named.tag(kind, name), none)) for kind in named.TAGS},
            "server_timing_seconds": {
                metric: summary(histograms.get(named.server_timing_tag(metric, name), none))
                for metric in sorted({each for part in parts for each in part.server_timing_seconds})
            },
        }
    )


def _by_size(records: Sequence[Part], histograms: Histograms) -> list[SizeFigures]:
    found: dict[int, list[_native.Histogram]] = {}
    for good, _, bytes_from, histogram in _cells(histograms):
        if good:
            found.setdefault(bytes_from, []).append(histogram)
    # The upper end of a size class, as the machines report it.
    ends = {each.bytes_from: each.bytes_below for record in records for each in record.by_size}
    rows = []
    for bytes_from in sorted(found):
        whole = merged(found[bytes_from])
        rows.append(
            SizeFigures(
                bytes_from=bytes_from,
                bytes_below=ends.get(bytes_from),
                requests=len(whole),
                response_time_seconds=summary(whole),
            )
        )
    return rows
