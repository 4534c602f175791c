"""Demands measured at several document sizes: fits g(x), or one g per outcome if hits and misses are separate.

Columns: `size_bytes`, `demand_seconds`; `outcome` (such as hit and miss of a proxy), `requests` (how often each comes).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.calibration import service_demand
from sojourn.calibration.estimate import FloatArray
from sojourn.calibration.fit import Fit, Options, demand_table, interval_record, server
from sojourn.calibration.service_demand import ServiceDemandFit
from sojourn.calibration.stages import UNSEEN, Stages
from sojourn.calibration.tables import Table
from sojourn.failure import CouldNotRun
from sojourn.queueing import system_file
from sojourn.text import toml

START_UTILISATION = 0.5
"""The measurements contain no rate: the file starts at half of the saturation rate."""


def fit(table: Table, options: Options, stages: Stages = UNSEEN) -> Fit:
    """Fits g(x), piecewise where the demand bends."""
    sizes, demands = table.positive("size_bytes"), table.positive("demand_seconds")
    outcomes = np.array(table.texts("outcome", "all"))
    weights = table.numbers("requests", 0.0) if table.has("requests") else np.ones(len(sizes))
    if not weights.any():
        raise CouldNotRun("no row has a request", "give the column requests how many had that size, or leave it out")
    fits = {
        name: _fitted_demand(sizes[own], demands[own], options.seed, name, stages) for name, own in _parts(outcomes)
    }
    document = system_file.empirical_sizes(sizes[weights > 0], weights[weights > 0])
    station = server(options)
    if list(fits) == ["all"]:
        station["demand"] = demand_table(fits["all"].demand)
        mean = float(np.average(fits["all"].demand(sizes), weights=weights))
        route: toml.Table = {"route": ["server"]}
    else:
        share = _outcome_shares(outcomes, weights, options, table.has("requests"))
        mean = sum(share[name] * float(np.average(fit.demand(sizes), weights=weights)) for name, fit in fits.items())
        route = {
            "routes": [
                {
                    "name": name,
                    "probability": share[name],
                    "visits": [{"station": "server", "demand": demand_table(fit.demand)}],
                }
                for name, fit in fits.items()
            ]
        }
    rate = options.rate or START_UTILISATION * options.servers / mean
    return Fit(
        kind="sizes",
        sources=[table.path.name],
        points=len(sizes),
        estimates={f"service_demand {name}": _demand_estimates(fit) for name, fit in fits.items()},
        held_out=[fit.held_out for fit in fits.values() if fit.held_out],
        warnings=[warning for fit in fits.values() for warning in fit.warnings],
        system={
            "name": table.path.stem,
            "document": document | {"comment": "The sizes that were measured: replace them by those of your site."},
            "stations": {"server": station},
            "classes": {"requests": {"rate": system_file.rate(rate), **route}},
        },
    )


def _fitted_demand(sizes: FloatArray, demands: FloatArray, seed: int, name: str, stages: Stages) -> ServiceDemandFit:
    if len(np.unique(sizes)) < 2:
        raise CouldNotRun(
            f"the demands ({name}) are of one document size: g(x) needs at least two",
            "measure documents of several sizes",
        )
    return service_demand.fit(sizes, demands, seed, stages=stages)


def _parts(names: NDArray[np.str_]) -> list[tuple[str, NDArray[np.bool_]]]:
    return [(str(name), names == name) for name in np.unique(names)]


def _outcome_shares(
    outcomes: NDArray[np.str_], weights: FloatArray, options: Options, has_requests: bool
) -> dict[str, float]:
    names = [name for name, _ in _parts(outcomes)]
    if options.hit_ratio is not None:
        if set(names) != {"hit", "miss"}:
            raise CouldNotRun(f"--hit-ratio needs the outcomes hit and miss, not {', '.join(names)}")
        return {"hit": options.hit_ratio, "miss": 1.0 - options.hit_ratio}
    if not has_requests:
        raise CouldNotRun(
            "the frequency of the outcomes is unknown", "give --hit-ratio, or a column requests with their numbers"
        )
    return {name: float(weights[own].sum() / weights.sum()) for name, own in _parts(outcomes)}


def _demand_estimates(fit: ServiceDemandFit) -> toml.Table:
    return {
        "fixed_seconds": interval_record(fit.fixed_seconds),
        "seconds_per_byte": [interval_record(each) for each in fit.seconds_per_byte],
        "knees_bytes": list(fit.demand.knees_bytes),
        "relative_error_median_of_fitted_points": fit.relative_error_median,
        "scatter": fit.scatter,
    }
