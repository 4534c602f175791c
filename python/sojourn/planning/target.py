"""Parses a target: `p95 < 300ms at 40 req/s`, `mean of members < 1s and loss < 0.1%`.

STATISTIC [of CLASS] < TIME [and loss < SHARE] [at LOAD]. The statistic is mean or a percentile (p50, p90, p95, p99,
p999) of the response time, over all classes unless one is named; `residence` is the mean time per visit to a station.
Times are of finished jobs, so where a system refuses jobs the target also limits their share: 1 % by default. The load
is a rate of all open classes together (`40 req/s`, `40/s`) or a number of users; by default the file's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sojourn.failure import CouldNotRun
from sojourn.planning.system_document import SystemDocument, nearest
from sojourn.queueing import ClassModel
from sojourn.text import quantity

Statistic = Literal["mean", "p50", "p90", "p95", "p99", "p999", "residence"]
LOSS_MAX_DEFAULT = 0.01
"""The default limit of refused jobs."""
STATISTICS: tuple[Statistic, ...] = ("mean", "p50", "p90", "p95", "p99", "p999", "residence")

EXAMPLE = "write it as in 'p95 < 300ms at 40 req/s' or 'mean of members < 1s'"
_TARGET = re.compile(
    rf"\s*(?P<statistic>\w+)(?:\s+of\s+(?P<subject>[^\s<]+))?\s*<=?\s*(?P<limit>{quantity.NUMBER}\s*\S+)"
    rf"(?:\s+and\s+loss\s*<=?\s*(?P<loss>{quantity.NUMBER})\s*%)?"
    rf"(?:\s+at\s+(?P<load>{quantity.NUMBER})\s*(?P<unit>[^\s0-9.].*?))?\s*"
)
_RATES = {"/s": 1.0, "req/s": 1.0, "requests/s": 1.0, "jobs/s": 1.0, "/min": 1 / 60, "req/min": 1 / 60, "/h": 1 / 3600}


@dataclass(frozen=True)
class Metric:
    """A time metric: a statistic of the response time, or the residence time at a station."""

    statistic: Statistic
    subject: str | None
    """A class (None for all together), or the station of a residence time."""

    def __str__(self) -> str:
        if self.statistic == "residence":
            return f"mean residence at {self.subject}"
        of = f" of {self.subject}" if self.subject else ""
        return f"{'mean' if self.statistic == 'mean' else self.statistic} response time{of}"


@dataclass(frozen=True)
class Target:
    """A limit on a metric, at a load."""

    metric: Metric
    limit_seconds: float
    load: str | None
    """The load as written; see `loaded`."""
    text: str
    loss_max: float | None = None
    """The largest allowed share of refused jobs; None if no station refuses jobs."""


def parse_target(text: str, document: SystemDocument) -> tuple[Target, SystemDocument]:
    """Parses a target; returns it with the system at the target's load.

    Raises:
        CouldNotRun: if it is malformed or names an unknown class or station.
    """
    match = _TARGET.fullmatch(text)
    if match is None:
        raise CouldNotRun(f"{text!r} is not a target", EXAMPLE)
    name, subject = match["statistic"], match["subject"]
    statistic = next((each for each in STATISTICS if each == name), None)
    if statistic is None:
        raise CouldNotRun(f"{text!r}: {name} is not a statistic", nearest(name, STATISTICS))
    known = [each.name for each in (document.system.stations if name == "residence" else document.system.classes)]
    kind = "station" if name == "residence" else "class"
    if subject is None and statistic == "residence":
        raise CouldNotRun(f"{text!r}: residence is of a station", f"write residence of {known[0]} < 100ms")
    if subject is not None and subject not in known:
        raise CouldNotRun(f"{text!r}: no {kind} is named {subject}", nearest(subject, known))
    limit = quantity.seconds(match["limit"])
    loaded = document if match["load"] is None else _loaded(document, float(match["load"]), match["unit"], text)
    load = None if match["load"] is None else f"{match['load']} {match['unit']}"
    return Target(Metric(statistic, subject), limit, load, *_loss(match["loss"], text, loaded)), loaded


def _loss(share: str | None, text: str, document: SystemDocument) -> tuple[str, float | None]:
    """Splits the loss limit from the target's text."""
    text = " ".join(text.split())
    if document.system.is_lossy:
        return (text, float(share) / 100) if share else (f"{text} and loss < {LOSS_MAX_DEFAULT:.0%}", LOSS_MAX_DEFAULT)
    if share is not None:
        raise CouldNotRun(f"{text!r}: no station rejects jobs", "leave the loss out, or give a station a queue")
    return text, None


def _loaded(document: SystemDocument, load: float, unit: str, text: str) -> SystemDocument:
    if load <= 0:
        raise CouldNotRun(f"{text!r}: the load must be above zero", EXAMPLE)
    if unit in ("user", "users"):
        closed = [each for each in document.system.classes if each.users is not None]
        return _shared(document, closed, [float(each.users or 0) for each in closed], load, "users", "", text)
    if unit not in _RATES:
        raise CouldNotRun(f"{text!r}: {unit} is not a load", f"write {', '.join(_RATES)} or users")
    classes = [each for each in document.system.classes if each.rate_per_second is not None]
    rates = [each.rate_per_second or 0.0 for each in classes]
    return _shared(document, classes, rates, load * _RATES[unit], "rate", "/s", text)


def _shared(
    document: SystemDocument,
    classes: list[ClassModel],
    present: list[float],
    load: float,
    key: str,
    unit: str,
    text: str,
) -> SystemDocument:
    """Divides the load among the classes in their present proportions."""
    if not classes:
        kind, other = ("closed", "a rate") if key == "users" else ("open", "users")
        raise CouldNotRun(f"{text!r}: the system has no {kind} class", f"give the load as {other}")
    shares = [load * each / sum(present) for each in present]
    values = [f"{max(1, round(share))}" if key == "users" else f"{share!r}" for share in shares]
    return document.set(
        *(f"class.{each.name}.{key}={value}{unit}" for each, value in zip(classes, values, strict=True))
    )
