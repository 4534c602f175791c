"""The figures of a span from several machines' records: counts are added, latencies come from merged histograms.

Each machine returns one histogram per kind of latency, per cause of failure, and per status, size class and goodness of
an answer (`good_200_10240`, `wrong_404_0`; see `crates/load/src/statistics/step.rs`). Their sums are what a single
machine would have recorded for every request, so nothing here is an approximation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn import _native
from sojourn.loading.result import merged

Record = Mapping[str, Any]
Histograms = Mapping[str, _native.Histogram]

COUNTS = ("requests", "errors", "unfinished", "abandoned", "skipped")
_RATES = ("requests_per_second", "bytes_per_second")
_LATENCIES = (
    "response_time",
    "response_time_sent",
    "time_to_first_byte",
    "time_to_first_byte_intended",
    "transfer_time",
    "connect_time",
    "send_lag",
)
_RECEIVE_LAG = "receive_lag"
_ERROR_TIME = "error_time_"
_CELL_PARTS = 3


def add(histograms: Sequence[Histograms]) -> dict[str, _native.Histogram]:
    """Adds the histograms of several machines, tag by tag."""
    tags = sorted({tag for each in histograms for tag in each})
    return {tag: merged(each[tag] for each in histograms if tag in each) for tag in tags}


def figures(records: Sequence[Record], histograms: Histograms) -> dict[str, Any]:
    """What all machines' clients saw together, under the keys of one machine's record."""
    causes: Counter[str] = Counter()
    for record in records:
        causes.update(record["errors_by_cause"])
    counts = {key: total(records, key) for key in COUNTS}
    return {
        **counts,
        "errors_by_cause": dict(causes),
        "error_time_seconds": {
            tag.removeprefix(_ERROR_TIME): each.summary()
            for tag, each in histograms.items()
            if tag.startswith(_ERROR_TIME)
        },
        "censored": _censored(records, counts),
        "duration_seconds": max(float(record["duration_seconds"]) for record in records),
        **{key: total(records, key) for key in _RATES},
        **{f"{tag}_seconds": histograms[tag].summary() for tag in _LATENCIES if tag in histograms},
        "receive_lag_seconds": _receive_lag(records, histograms),
        "by_status": _by_status(histograms),
        "by_size": _by_size(records, histograms),
    }


def total(records: Sequence[Record], key: str) -> Any:
    """The sum of what the machines have of it."""
    return sum(record.get(key) or 0 for record in records)


def total_if_known(records: Sequence[Record], key: str) -> Any:
    """The sum, or None where a machine has none."""
    values = [record.get(key) for record in records]
    return None if None in values else sum(value for value in values if value is not None)


def _censored(records: Sequence[Record], counts: Mapping[str, int]) -> dict[str, Any]:
    timeouts = sum((record.get("censored") or {}).get("timeouts") or 0 for record in records)
    asked = counts["requests"] + counts["errors"] + counts["unfinished"]
    fraction = (timeouts + counts["unfinished"]) / asked if asked else None
    return {"timeouts": timeouts, "unfinished": counts["unfinished"], "fraction": fraction}


def _receive_lag(records: Sequence[Record], histograms: Histograms) -> Any:
    for record in records:
        found = record.get("receive_lag_seconds")
        if found is None or "unavailable" in found:
            return found or {"unavailable": "a machine does not report it"}
    return histograms[_RECEIVE_LAG].summary()


def _cells(histograms: Histograms) -> list[tuple[bool, int, int, _native.Histogram]]:
    """Complete responses: whether good, status, where their class of sizes begins, response times."""
    cells = []
    for tag, histogram in histograms.items():
        parts = tag.split("_")
        if len(parts) == _CELL_PARTS and parts[0] in ("good", "wrong"):
            cells.append((parts[0] == "good", int(parts[1]), int(parts[2]), histogram))
    return cells


def _by_status(histograms: Histograms) -> dict[str, Any]:
    found: dict[int, list[_native.Histogram]] = {}
    for _, status, _, histogram in _cells(histograms):
        found.setdefault(status, []).append(histogram)
    whole = {status: merged(each) for status, each in sorted(found.items())}
    return {
        str(status): {"responses": len(each), "response_time_seconds": each.summary()} for status, each in whole.items()
    }


def _by_size(records: Sequence[Record], histograms: Histograms) -> list[dict[str, Any]]:
    found: dict[int, list[_native.Histogram]] = {}
    for good, _, bytes_from, histogram in _cells(histograms):
        if good:
            found.setdefault(bytes_from, []).append(histogram)
    # Where a class ends is what the machines say of it.
    ends = {each["bytes_from"]: each["bytes_below"] for record in records for each in record.get("by_size", ())}
    rows = []
    for bytes_from in sorted(found):
        whole = merged(found[bytes_from])
        bounds = {"bytes_from": bytes_from, "bytes_below": ends.get(bytes_from)}
        rows.append({**bounds, "requests": len(whole), "response_time_seconds": whole.summary()})
    return rows
