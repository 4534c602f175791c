"""The result of a fit: estimates, errors on held-out points, and a system file with its station."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from sojourn.calibration.estimate import HeldOut
from sojourn.calibration.service_demand import ServiceDemand
from sojourn.queueing import system_file
from sojourn.results.records import Interval, Record
from sojourn.text import toml
from sojourn.text.toml import Table


class MeasuredTime(Record):
    """A mean response time that was measured at a load."""

    requests_per_second: float
    mean_seconds: float


class Fit(Record):
    """Estimates, their predictive accuracy, and the resulting system."""

    kind: str
    sources: list[str]
    points: int
    estimates: Table
    """Units in the keys; intervals as estimate, low and high."""
    held_out: list[HeldOut]
    warnings: list[str]
    measured: list[MeasuredTime] = Field(default_factory=list)
    """Response times that were measured at loads of the system's first class, if it has a rate."""
    system: Table
    """The system as `system_file.write` takes it."""

    def evidence(self) -> str:
        """The estimates and their accuracy, a line each."""
        lines = [f"Fitted by sojourn fit from {', '.join(self.sources)}: {self.points:,} points."]
        lines += [f"{name}: {said(value)}" for name, value in self.estimates.items() if said(value)]
        lines += [
            f"error on held-out points, {error.quantity}: median {error.relative_error_median:.1%}, largest "
            f"{error.relative_error_max:.1%} ({error.method})"
            for error in self.held_out
        ]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def system_text(self) -> str:
        """The system file, with the evidence as its first comment."""
        return system_file.write(self.system, self.evidence())


@dataclass(frozen=True)
class Options:
    """Parameters that the measurements do not contain."""

    servers: int = 1
    """Cores that share the work."""
    r: int | None = None
    """The most requests in service at once, if the table does not show it; None for processor sharing."""
    rate: float | None = None
    """Requests/s for the system file; None for the measured rate, or half of saturation."""
    hit_ratio: float | None = None
    seed: int = 1


def said(value: object) -> str:
    """An estimate in words; empty for values that are not figures."""
    if isinstance(value, Mapping):
        if set(value) == {"estimate", "low", "high"}:
            return f"{value['estimate']:.6g} ({value['low']:.6g} to {value['high']:.6g})"
        return "; ".join(f"{name} {said(each)}" for name, each in value.items() if said(each))
    if isinstance(value, list):
        return ", ".join(filter(None, map(said, value)))
    return f"{value:.6g}" if isinstance(value, int | float) else value if isinstance(value, str) else ""


def server(options: Options, seen: int | None = None) -> toml.Table:
    """The station without its demand; `seen` is the r found in the points."""
    limit = seen or options.r
    station: toml.Table = {"discipline": "ps"} if limit is None else {"discipline": "lps", "r": limit}
    return station | ({"servers": options.servers} if options.servers > 1 else {})


def demand_table(demand: ServiceDemand) -> dict[str, str] | list[dict[str, str]]:
    """Converts a service demand to the `demand` of a station."""
    pieces = [
        ({} if np.isinf(piece.below_bytes) else {"below": system_file.size(piece.below_bytes)})
        | {
            "fixed": system_file.time(piece.fixed_seconds),
            "per_byte": system_file.time_per_byte(piece.seconds_per_byte),
        }
        for piece in demand.pieces()
    ]
    return pieces[0] if len(pieces) == 1 else pieces


def interval_record(interval: Interval) -> dict[str, float]:
    """The form of an interval in `Fit.estimates`."""
    return interval.model_dump()
