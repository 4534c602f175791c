"""Shared by all kinds: the form of a server, its intervals and its service demand in a fit."""

from __future__ import annotations

import numpy as np

from sojourn.calibration.fit import Options
from sojourn.calibration.service_demand import ServiceDemand
from sojourn.queueing import system_file
from sojourn.results.records import Interval
from sojourn.text import toml


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
