"""What the import and the characterisation of the log say, read from the summary's two open dictionaries.

The native half names their keys; this file alone knows the names. A key that is absent reads as `None` or as
an empty list, and the page says plainly that the figure is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LogNormal:
    """The log-normal fit of transfer sizes."""

    mu: float
    sigma: float
    distance: float | None
    """Kolmogorov-Smirnov: the largest gap between the fit and the log."""


@dataclass(frozen=True)
class ParetoTail:
    """The Pareto fit of the largest sizes."""

    alpha: float
    minimum_bytes: float
    tail_fraction: float
    distance: float | None


class Characteristics:
    """The log in figures (seed IBM RC22629, Table 1), its sizes, its popularity and its day."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def figure(self, name: str) -> float | None:
        """A figure of the log as a whole."""
        return _number(self._values, name)

    def data_bytes_for(self, percentage: int) -> float | None:
        """Memory that holds the documents of that share of all requests."""
        return _number(self._values, f"data_{percentage}_percent_bytes")

    def size_quantiles(self) -> list[tuple[float, float]]:
        """The distribution function of transfer sizes: bytes and the fraction of transfers not larger."""
        return _pairs(self._values.get("size_cdf"), "size_bytes", "fraction")

    def log_normal(self) -> LogNormal | None:
        """The log-normal fit, if there is one."""
        fit = self._values.get("size_log_normal")
        mu, sigma = _number(fit, "mu"), _number(fit, "sigma")
        if mu is None or sigma is None:
            return None
        return LogNormal(mu, sigma, _number(fit, "kolmogorov_smirnov"))

    def pareto_tail(self) -> ParetoTail | None:
        """The Pareto tail, if there is one."""
        fit = self._values.get("size_pareto_tail")
        alpha, minimum = _number(fit, "alpha"), _number(fit, "minimum_bytes")
        fraction = _number(fit, "tail_fraction")
        if alpha is None or minimum is None or fraction is None:
            return None
        return ParetoTail(alpha, minimum, fraction, _number(fit, "kolmogorov_smirnov"))

    def popularity(self) -> list[tuple[float, float]]:
        """Documents by rank: rank and requests."""
        return _pairs(self._values.get("popularity"), "rank", "requests")

    def popularity_slope(self) -> float | None:
        """The exponent of Zipf's law: requests fall as rank to the minus this."""
        return _number(self._values, "popularity_slope")

    def daily_rhythm(self) -> list[tuple[float, float]]:
        """Hour of the day and the mean rate in it, in requests/s."""
        return _pairs(self._values.get("daily_rhythm"), "hour", "requests_per_second")


class LogImport:
    """What was read, what was left out, and why."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def figure(self, name: str) -> float | None:
        """A count of the import."""
        return _number(self._values, name)

    def skipped(self) -> list[tuple[str, float]]:
        """Well-formed requests that were set aside: reason and how many."""
        by_reason = self._values.get("skipped_requests")
        if not isinstance(by_reason, Mapping):
            return []
        reasons = [(str(reason).replace("_", " "), _number(by_reason, reason)) for reason in by_reason]
        return [(reason, value) for reason, value in reasons if value]

    def malformed_first(self) -> list[tuple[str, str, str]]:
        """The first malformed lines: number, why, and how they begin."""
        rows = self._values.get("malformed_first")
        if not isinstance(rows, list):
            return []
        names = ("line", "message", "text")
        found = (tuple(str(row.get(name, "")) for name in names) for row in rows if isinstance(row, Mapping))
        return [(line, message, _visible(text)) for line, message, text in found]


def _visible(text: str) -> str:
    """Control characters as their pictures, so that a line of zeros does not look like an empty one."""
    return "".join(chr(0x2400 + ord(character)) if ord(character) < 32 else character for character in text)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(values: object, name: str) -> float | None:
    value = values.get(name) if isinstance(values, Mapping) else None
    return float(value) if value is not None and _is_number(value) else None


def _pairs(rows: object, first: str, second: str) -> list[tuple[float, float]]:
    if not isinstance(rows, list):
        return []
    found = ((_number(row, first), _number(row, second)) for row in rows)
    return [(x, y) for x, y in found if x is not None and y is not None]
