"""The times of every request: demands and r, by maximum likelihood or from recorded starts of service.

Columns: `accepted_at_seconds`, `ended_at_seconds`; `started_at_seconds`, `class`, `size_bytes`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from sojourn.calibration import response_times, service_demand
from sojourn.calibration.estimate import FloatArray, IndexArray
from sojourn.calibration.fit import Fit, Options, demand_table, interval_record, server
from sojourn.calibration.stages import UNSEEN, Stages
from sojourn.calibration.tables import Table
from sojourn.failure import CouldNotRun
from sojourn.queueing import system_file
from sojourn.text import toml

SIZE_GROUPS_MAX = 60
"""The number of size groups for fitting g."""
EXPLAINED_MIN = 0.8
"""If g explains less of the variance, the demand does not depend on the size."""


def fit(table: Table, options: Options, stages: Stages = UNSEEN) -> Fit:
    """Fits r, and the demand by class or by size."""
    accepted, ended = table.numbers("accepted_at_seconds", 0.0), table.numbers("ended_at_seconds", 0.0)
    started = table.numbers("started_at_seconds", 0.0) if table.has("started_at_seconds") else None
    order = np.argsort(accepted, kind="stable")
    classes = np.array(table.texts("class", "requests"))[order]
    requests = response_times.Requests(
        accepted[order], ended[order], None if started is None else started[order], list(classes)
    )
    found = response_times.fit(requests, options.servers, options.seed, stages)
    span = float(accepted.max() - accepted.min())
    if span <= 0:
        raise CouldNotRun(
            f"{table.path}: all requests were accepted at one time", "give the requests of a longer period"
        )
    warnings = list(found.warnings)
    document, demand = _by_size(table, found.demands, order, options, warnings, stages)
    described: toml.Table = {}
    for name, law in found.laws.items():
        own = demand or law_table(law)
        described[name] = {
            "rate": system_file.rate(float(np.sum(classes == name)) / span),
            "route": [{"station": "server", "demand": own}],
        }
    return Fit(
        kind="requests",
        sources=[table.path.name],
        points=len(accepted),
        estimates={
            "demand_seconds": {name: interval_record(each) for name, each in found.demands_seconds.items()},
            "r": found.r if found.r is not None else "not reached",
            "r_log_likelihood": found.r_log_likelihoods,
            "law": {name: {"family": law["family"], "scv": law["scv"]} for name, law in found.laws.items()},
        },
        held_out=list(found.held_out),
        warnings=warnings,
        system={
            "name": table.path.stem,
            **document,
            "stations": {"server": server(options, found.r)},
            "classes": described,
        },
    )


DemandBySize: TypeAlias = "toml.Table | list[toml.Table] | None"
"""A demand in a system file: a line, several pieces, or None."""


def _by_size(
    table: Table, demands: FloatArray, order: IndexArray, options: Options, warnings: list[str], stages: Stages
) -> tuple[toml.Table, DemandBySize]:
    """The document law and g, if the table has sizes that explain the demand."""
    if not table.has("size_bytes"):
        return {}, None
    sizes = table.positive("size_bytes")[order]
    distinct = np.unique(sizes)
    if len(distinct) == 1:
        return {}, None
    parts = np.linspace(0, 1, SIZE_GROUPS_MAX)[1:-1]
    group = np.digitize(sizes, np.quantile(sizes, parts))
    if group.min() == group.max():
        # Nearly all requests have one size.
        group = np.digitize(sizes, np.quantile(distinct, parts))
    members = [group == index for index in np.unique(group)]
    points = np.array([[sizes[own].mean(), demands[own].mean()] for own in members])
    found = service_demand.fit(points[:, 0], points[:, 1], options.seed, stages=stages)
    explained = 1.0 - float(np.var(demands - found.demand(sizes)) / np.var(demands))
    if explained < EXPLAINED_MIN:
        warnings.append(
            f"The size explains {max(0.0, explained):.0%} of the variance of the demand: demands are written as laws "
            "by class, not as a function of the size."
        )
        return {}, None
    return {"document": system_file.empirical_sizes(sizes)}, demand_table(found.demand)


def law_table(law: toml.Table) -> toml.Table | str:
    """Converts a distribution of `fit_laws` in seconds to the form of a system file."""
    parameters, family = law["parameters"], law["family"]
    if family == "deterministic":
        return system_file.time(parameters["mean"])
    if family == "exponential":
        return {"law": "exponential", "mean": system_file.time(parameters["mean"])}
    if family in ("log-normal", "shifted-log-normal"):
        shift = {"shift": system_file.time(parameters["shift"])} if "shift" in parameters else {}
        return {"law": "log-normal", "mu": parameters["mu"], "sigma": parameters["sigma"], "unit": "s", **shift}
    if family == "bounded-pareto":
        low, high = (system_file.time(parameters[name]) for name in ("min", "max"))
        return {"law": "pareto", "shape": parameters["shape"], "min": low, "max": high}
    parts = []
    for place, weight in (("first", parameters["probability"]), ("second", 1.0 - parameters["probability"])):
        mean, stages = system_file.time(parameters[f"mean_{place}"]), int(parameters.get(f"stages_{place}", 1))
        part = {"law": "erlang", "mean": mean, "stages": stages} if stages > 1 else {"law": "exponential", "mean": mean}
        parts.append({"weight": weight, **part})
    return {"law": "mixture", "parts": parts}
