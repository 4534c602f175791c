"""Writes the fitted model as a system file, for `sojourn simulate` and for editing by hand.

The file's requests are independent (a Poisson process), the connection's cost is spread over all of them, and sizes
are grouped, each group keeping its mean; the assessment's own simulation has the sessions.
"""

from __future__ import annotations

from sojourn.assessment.model import Mix, Station
from sojourn.assessment.summary import DemandFit
from sojourn.queueing import system_file
from sojourn.text.toml import Table

COMMENT = "Fitted by sojourn assess; see model.py of the assessment for what the figures mean."


def describe(
    name: str,
    mix: Mix,
    station: Station,
    fit: DemandFit,
    rate: float,
    access_line_bits_per_second: float | None,
) -> Table:
    """Describes the system for `system_file.write`.

    Args:
        name: what the system is called.
        mix: the log's requests.
        station: the fitted server.
        fit: the demand per document size, before calibration.
        rate: the request rate to start from, requests/s.
        access_line_bits_per_second: adds the access line, if there is one.
    """
    quota = station.quota_of_requests
    share = quota.share if quota else 1.0
    # A processor with a limit is, in the mean, slower by its share: so the file has the measured capacity.
    factor = station.calibration.estimate / share
    opening = fit.connection_seconds.estimate if fit.connection_seconds else 0.0
    busy = float(station.demands.mean()) / share
    fixed = factor * (fit.fixed_seconds.estimate + opening * float(mix.opens_connection.mean()))
    limit: Table = {"discipline": "ps"} if station.r is None else {"discipline": "lps", "r": station.r}
    stations: Table = {
        "server": limit
        | {
            "demand": {
                "fixed": system_file.time(fixed),
                "per_byte": system_file.time_per_byte(factor * fit.seconds_per_byte.estimate),
            }
        },
        "network": {
            "comment": "Wake-ups, the network stack, and what interruptions of the core add at this rate.",
            "discipline": "is",
            # The demand in the file is that of a busy server.
            "demand": system_file.time(max(0.0, station.mean_delay(rate) + station.demand_at(rate) - busy)),
        },
    }
    route = ["network", "server"]
    if access_line_bits_per_second:
        stations["line"] = {"discipline": "ps", "rate": system_file.bandwidth(access_line_bits_per_second)}
        route.append("line")
    return {
        "name": name,
        "document": system_file.empirical_sizes(mix.sizes_bytes),
        "stations": stations,
        "classes": {"requests": {"rate": system_file.rate(rate), "route": route}},
    }
