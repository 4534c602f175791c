"""Throughput against the number of clients: a station whose speed follows the universal scalability law.

Columns: `clients`, `requests_per_second`.
"""

from __future__ import annotations

from sojourn.calibration import scalability
from sojourn.calibration.fit import Fit, Options, server
from sojourn.calibration.stages import UNSEEN, Stages
from sojourn.calibration.tables import Table
from sojourn.failure import CouldNotRun
from sojourn.queueing import system_file
from sojourn.text import toml

CLIENTS_MAX = 1_000_000


def fit(table: Table, options: Options, stages: Stages = UNSEEN) -> Fit:
    """Fits the law; the station serves one request in 1 / gamma seconds."""
    clients, throughputs = table.numbers("clients", 1.0), table.positive("requests_per_second")
    if clients.max() > CLIENTS_MAX:
        raise CouldNotRun(f"{table.path}: {clients.max():g} clients", f"a system file has {CLIENTS_MAX:,} at the most")
    found = scalability.fit(clients, throughputs, options.seed, stages)
    law = found.law
    station: toml.Table = server(options) | {
        "speed": {"alpha": law["alpha"]["estimate"], "beta": law["beta"]["estimate"]},
        "demand": system_file.time(1.0 / law["gamma"]["estimate"]),
    }
    # The speed already includes the effect of several servers.
    station.pop("servers", None)
    return Fit(
        kind="scaling",
        sources=[table.path.name],
        points=len(clients),
        estimates={
            "gamma_per_second": law["gamma"],
            "alpha": law["alpha"],
            "beta": law["beta"],
            "peak_clients": law["peak_load"],
            "peak_per_second": law["peak_throughput"],
        },
        held_out=[found.held_out],
        warnings=list(found.warnings),
        system={
            "name": table.path.stem,
            "stations": {"server": station},
            "classes": {"clients": {"users": int(clients.max()), "think_time": "0s", "route": ["server"]}},
        },
    )
