"""What the import and the characterisation of the log say, read from the summary's two open dictionaries.

The native half names their keys (`crates/workload`: `import/report.rs` and `characterise/`); this file alone
knows the names. A key that is absent reads as `None` or as an empty list, and the page says plainly that the
figure is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.workload.coverage import Coverage, coverage

Part = Mapping[str, Any]
"""A part of what the native module says of a trace; summaries of every version are read, whose keys differ."""


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
    """How long requests took by the log, in seconds."""

    name: str
    """The path, behind its host where the log has one; or what they are."""
    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float


class Characteristics:
    """The log in figures (seed IBM RC22629, Table 1), its sizes, its popularity and its day."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def figure(self, name: str) -> float | None:
        """A figure of Table 1."""
        return _number(self._part("table1"), name)

    def data_bytes_for(self, percentage: int) -> float | None:
        """Memory that holds the documents of that share of all requests."""
        return self.figure(f"data_{percentage}_percent_bytes")

    def size_distribution(self) -> list[tuple[float, float]]:
        """The distribution function of transfer sizes: bytes and the fraction of transfers not larger."""
        return _pairs(self._part("transfer_sizes").get("cdf"), "size_bytes", "fraction")

    def empty_fraction(self) -> float:
        """The fraction of transfers without a byte; no distribution of sizes covers them."""
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
        """The exponent of Zipf's law: requests fall as rank to the minus this."""
        return _number(self._part("popularity"), "slope")

    def popularity_goodness(self) -> str:
        """The goodness of fit of Zipf's law."""
        return _goodness(self._part("popularity"))

    def daily_rhythm(self) -> list[tuple[float, float]]:
        """Hour of the day and the mean rate in it, in requests/s; hours that the log does not hold are absent."""
        return _pairs(self._part("rhythm").get("hours"), "hour", "requests_per_second")

    def request_times(self) -> list[LoggedTimes]:
        """The times of all requests of the log and of its upstreams, then of the paths that took the most."""
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
    """What was read, what was left out, and why."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def figure(self, name: str) -> float | None:
        """A count of the import."""
        return _number(self._values, name)

    def format(self) -> str:
        """The log format, and by what it was chosen where it was not given."""
        name = str(self._values.get("format", "unknown"))
        detected = self._values.get("format_detected")
        if not isinstance(detected, Mapping):
            return name
        return f"{name}: reads {detected.get('sample_entries')} of the first {detected.get('sample_lines')} lines"

    def logs(self) -> list[tuple[str, str]]:
        """Where there are several logs: what each is called, and what it held; then the files that are none."""
        rows = [
            (visible(str(log["name"])), f"{log['lines']:,} lines, {log['format']}, {log['malformed']:,} malformed")
            for log in _rows(self._values.get("logs"))
        ]
        skipped = _rows(self._values.get("not_logs"))
        return rows + [
            (visible(str(file["name"])), f"skipped, no log: {visible(str(file['why']))}") for file in skipped
        ]

    def coverage(self) -> Coverage | None:
        """The share of the log's requests that a static copy of its site can stand for."""
        return coverage(self._values)

    def warnings(self) -> list[str]:
        """What to be careful of, in sentences."""
        found = self._values.get("warnings")
        return [str(warning) for warning in found] if isinstance(found, list) else []

    def malformed_examples(self) -> list[tuple[str, str, str]]:
        """The first malformed lines: number, why, and how they begin."""
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
    """A text with its control characters as escapes: a line of zeros is no empty one, and none may reach a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _goodness(fit: object) -> str:
    """The distance of a fit and the word for it, as people read them."""
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
