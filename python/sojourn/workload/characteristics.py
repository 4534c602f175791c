"""Reads the results of log import and characterisation from the summary's two untyped dictionaries.

The native module defines the keys (`crates/workload`: `import/report.rs` and `characterise/`); only this file uses
them. An absent key gives `None` or an empty list, and the page says that the figure is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.workload.coverage import Coverage, coverage

Part = Mapping[str, Any]
"""A part of the native module's description of a trace, untyped because keys differ between versions."""


@dataclass(frozen=True)
class LogNormal:
    """The log-normal fit of the transfer sizes above zero."""

    mu: float
    sigma: float
    goodness: str


@dataclass(frozen=True)
class ParetoTail:
    """The Pareto fit of the largest sizes."""

    alpha: float
    minimum_bytes: float
    tail_fraction: float
    goodness: str


@dataclass(frozen=True)
class LoggedTimes:
    """Logged request durations in seconds."""

    name: str
    """The path, with its host if the log records it; or a description of the group."""
    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float


class Characteristics:
    """A log's statistics: the figures of IBM RC22629, Table 1, sizes, popularity and daily rhythm."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def figure(self, name: str) -> float | None:
        """A figure of Table 1."""
        return _number(self._part("table1"), name)

    def data_bytes_for(self, percentage: int) -> float | None:
        """Memory for the documents of this share of all requests."""
        return self.figure(f"data_{percentage}_percent_bytes")

    def size_distribution(self) -> list[tuple[float, float]]:
        """The CDF of transfer sizes: bytes, and the fraction of transfers up to that size."""
        return _pairs(self._part("transfer_sizes").get("cdf"), "size_bytes", "fraction")

    def empty_fraction(self) -> float:
        """The fraction of empty transfers, which no distribution of sizes includes."""
        sizes = self._part("transfer_sizes")
        return (_number(sizes, "zero_count") or 0.0) / (_number(sizes, "count") or 1.0)

    def log_normal(self) -> LogNormal | None:
        """The log-normal fit, if there is one."""
        fit = self._part("transfer_sizes").get("log_normal")
        mu, sigma = _number(fit, "mu"), _number(fit, "sigma")
        return None if mu is None or not sigma else LogNormal(mu, sigma, _goodness(fit))

    def pareto_tail(self) -> ParetoTail | None:
        """The Pareto tail, if there is one."""
        fit = self._part("transfer_sizes").get("pareto_tail")
        alpha, minimum = _number(fit, "alpha"), _number(fit, "minimum_bytes")
        fraction = _number(fit, "tail_fraction")
        if alpha is None or fraction is None or not minimum:
            return None
        return ParetoTail(alpha, minimum, fraction, _goodness(fit))

    def popularity(self) -> list[tuple[float, float]]:
        return _pairs(self._part("popularity").get("ranks"), "rank", "requests")

    def popularity_slope(self) -> float | None:
        """The exponent of Zipf's law: requests are proportional to rank to the minus this."""
        return _number(self._part("popularity"), "slope")

    def popularity_goodness(self) -> str:
        """The goodness of fit of Zipf's law."""
        return _goodness(self._part("popularity"))

    def daily_rhythm(self) -> list[tuple[float, float]]:
        """The mean rate in requests/s by hour of the day; hours outside the log are absent."""
        return _pairs(self._part("rhythm").get("hours"), "hour", "requests_per_second")

    def request_times(self) -> list[LoggedTimes]:
        """Durations of all requests and of their upstreams, then of the paths with the largest totals."""
        times = self._part("request_times")
        rows = [("all requests", times.get("request_time_seconds")), ("upstream", times.get("upstream_time_seconds"))]
        for path in times.get("paths", []):
            name = visible(f"{path['host']}{path['path']}")
            rows.append((name, path["request_time_seconds"]))
            rows.append((f"{name}, upstream", path["upstream_time_seconds"]))
        return [LoggedTimes(name, **each) for name, each in rows if each is not None]

    def _part(self, name: str) -> Part:
        part = self._values.get(name)
        return part if isinstance(part, Mapping) else {}


class LogImport:
    """The counts of an import."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def figure(self, name: str) -> float | None:
        """A count of the import."""
        return _number(self._values, name)

    def format(self) -> str:
        """The log format, with the evidence if it was detected."""
        name = str(self._values.get("format", "unknown"))
        detected = self._values.get("format_detected")
        if not isinstance(detected, Mapping):
            return name
        return f"{name}: reads {detected.get('sample_entries')} of the first {detected.get('sample_lines')} lines"

    def logs(self) -> list[tuple[str, str]]:
        """The names and contents of several logs; then files that are not logs."""
        rows = [
            (visible(str(log["name"])), f"{log['lines']:,} lines, {log['format']}, {log['malformed']:,} malformed")
            for log in _rows(self._values.get("logs"))
        ]
        skipped = _rows(self._values.get("not_logs"))
        return rows + [
            (visible(str(file["name"])), f"skipped, no log: {visible(str(file['why']))}") for file in skipped
        ]

    def coverage(self) -> Coverage | None:
        """The share of the log's requests that a static copy of its site can answer."""
        return coverage(self._values)

    def warnings(self) -> list[str]:
        """Warnings in full sentences."""
        found = self._values.get("warnings")
        return [str(warning) for warning in found] if isinstance(found, list) else []

    def malformed_examples(self) -> list[tuple[str, str, str]]:
        """The first malformed lines: number, reason, and beginning."""
        rows = self._values.get("malformed_examples")
        if not isinstance(rows, list):
            return []
        names = ("line", "message", "text")
        found = (
            (f"{row.get('log', '')} {row.get('line', '')}".strip(), *(str(row.get(name, "")) for name in names[1:]))
            for row in rows
            if isinstance(row, Mapping)
        )
        return [(line, message, visible(text)) for line, message, text in found]


def visible(text: str) -> str:
    """Escapes control characters, so that none reaches a terminal and a line of zeros does not look empty."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _goodness(fit: object) -> str:
    """A fit's distance with a verdict in words."""
    distance = _number(fit, "kolmogorov_smirnov")
    if distance is None or not isinstance(fit, Mapping):
        return "fit not judged"
    return f"{fit.get('goodness', 'unjudged')} fit, Kolmogorov-Smirnov distance {distance:.3f}"


def _number(values: object, name: str) -> float | None:
    value = values.get(name) if isinstance(values, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if value is not None and is_number else None


def _rows(rows: object) -> list[Mapping[str, object]]:
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _pairs(rows: object, first: str, second: str) -> list[tuple[float, float]]:
    if not isinstance(rows, list):
        return []
    found = ((_number(row, first), _number(row, second)) for row in rows)
    return [(x, y) for x, y in found if x is not None and y is not None]
