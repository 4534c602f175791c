"""Utilisation and throughputs over intervals: demands by class, by the utilisation law.

Columns: `utilisation` (busy share of all servers, 0 to 1), `requests_per_second`, or `requests_per_second.CLASS` each.
"""

from __future__ import annotations

import numpy as np

from sojourn.calibration import utilisation_law
from sojourn.calibration.fit import Fit, Options, interval_record, server
from sojourn.calibration.stages import UNSEEN, Stages
from sojourn.calibration.tables import Table
from sojourn.failure import CouldNotRun
from sojourn.queueing import system_file
from sojourn.text import toml

BACKGROUND_MIN = 0.005
"""A smaller utilisation without requests is left out of the file."""
EXPLAINED_MIN = 1e-9
"""A class that explains less of the utilisation than this has no demand: the value is a rounding error."""


def fit(table: Table, options: Options, stages: Stages = UNSEEN) -> Fit:
    """Fits a demand per class, and the background load."""
    utilisation = table.positive("utilisation")
    if utilisation.max() > 1.0:
        raise CouldNotRun(
            f"{table.path}: utilisation is {utilisation.max():g} in a row, above 1",
            "it is the busy share of all servers together, from 0 to 1",
        )
    prefix = "requests_per_second"
    columns = [name for name in table.frame.columns if name == prefix or name.startswith(prefix + ".")]
    classes = [name.removeprefix(prefix).removeprefix(".") or "requests" for name in columns]
    if not columns:
        raise CouldNotRun(f"{table.path} has no throughput", f"add {prefix}, or {prefix}.CLASS for each class")
    throughputs = np.column_stack([table.numbers(name, 0.0) for name in columns])
    unused = [name for name, column in zip(classes, throughputs.T, strict=True) if not column.any()]
    if unused:
        raise CouldNotRun(
            f"{table.path}: no interval has requests of {', '.join(unused)}",
            "leave the column out, or measure with load",
        )
    found = utilisation_law.fit(throughputs, utilisation, classes, options.servers, options.seed, stages=stages)
    means = throughputs.mean(axis=0)
    if options.rate is not None:
        # The measured mix at the requested rate.
        means = means * options.rate / means.sum()
    described: toml.Table = {
        name: {
            "rate": system_file.rate(mean),
            "route": [{"station": "server", "demand": system_file.time(demand.estimate)}],
        }
        for name, mean, demand in zip(classes, means, found.demands_seconds, strict=True)
        if demand.estimate * mean > EXPLAINED_MIN
    }
    if not described:
        raise CouldNotRun(
            f"{table.path}: the utilisation does not rise with the requests: they have no demand",
            "measure intervals of different load",
        )
    background = found.background_utilisation.estimate
    if background > BACKGROUND_MIN * options.servers:
        demand = float(np.average([each.estimate for each in found.demands_seconds], weights=means))
        described["background"] = {
            "comment": "The utilisation that no request explains, as jobs of the mean demand.",
            "rate": system_file.rate(background / demand),
            "route": [{"station": "server", "demand": system_file.time(demand)}],
        }
    return Fit(
        kind="intervals",
        sources=[table.path.name],
        points=len(utilisation),
        estimates={
            "demand_seconds": dict(zip(classes, map(interval_record, found.demands_seconds), strict=True)),
            "background_utilisation": interval_record(found.background_utilisation),
            "condition_number": found.condition_number,
            "throughput_error_at_most": found.throughput_error,
            "variance_inflation_factor": dict(zip(classes, found.inflation_factors, strict=True)),
        },
        held_out=[found.held_out],
        warnings=list(found.warnings),
        system={"name": table.path.stem, "stations": {"server": server(options)}, "classes": described},
    )
