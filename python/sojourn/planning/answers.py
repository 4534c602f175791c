"""The answers of a plan as records: the object of `--format json`, and the input of the report.

Units are in the names. A time is None if a station would be overloaded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass


@dataclass(frozen=True)
class Now:
    """The system as it is, at the target's load."""

    seconds: float
    met: bool
    by: str
    confirmed_seconds: float
    half_width_seconds: float | None
    """Half the width of the simulation's interval; None where an exact solver confirms."""
    confirmed_by: str
    throughput_per_second: float
    """Throughput of finished jobs."""
    loss_probability: float
    """The share of refused jobs; times are of the others."""
    unstable_station: str | None


@dataclass(frozen=True)
class LeverAnswer:
    """The value that one parameter needs, with all others unchanged."""

    parameter: str
    label: str
    present: float
    needed: float | None
    """None if this parameter alone cannot meet the target."""
    unit: str
    present_text: str
    needed_text: str | None
    setting: str | None
    """The setting for `--set`."""
    searched_by: str
    confirmed_seconds: float
    """The metric at `needed`, or the best that this parameter alone can reach."""
    half_width_seconds: float | None
    confirmed_by: str
    """`simulation`, or the solver where it is exact."""
    best_text: str
    """The value at which the best was reached."""


@dataclass(frozen=True)
class LargestTraffic:
    """The largest traffic within the target."""

    factor: float | None
    throughput_per_second: float
    confirmed_seconds: float
    half_width_seconds: float | None
    confirmed_by: str
    loss_probability: float
    searched_by: str


@dataclass(frozen=True)
class Doubling:
    """The effect of doubling one resource."""

    parameter: str
    label: str
    seconds: float
    change_fraction: float
    """The change of the metric; negative is faster."""
    by: str
    largest_traffic_factor: float | None
    saturation_throughput_per_second: float | None
    bottleneck: str | None


@dataclass(frozen=True)
class SweepPoint:
    """One point of a sweep."""

    value: float
    seconds: float
    mean_seconds: float
    throughput_per_second: float
    half_width_seconds: float | None
    by: str
    loss_probability: float


@dataclass(frozen=True)
class Sweep:
    """A metric against one parameter."""

    parameter: str
    label: str
    kind: str
    unit: str
    present: float
    points: list[SweepPoint]


@dataclass(frozen=True)
class Mix:
    """A combination of values of the priced parameters."""

    values: dict[str, float]
    text: str
    settings: list[str]
    cost: float
    seconds: float
    by: str


@dataclass(frozen=True)
class CheapestMix:
    """Cost against the metric."""

    priced: dict[str, str]
    present_cost: float
    evaluated: int
    front: list[Mix]
    """The Pareto front of cost and metric, cheapest first."""
    cheapest: Mix | None
    """The cheapest mix that meets the target, confirmed."""
    confirmed_seconds: float | None
    half_width_seconds: float | None
    confirmed_by: str | None


@dataclass(frozen=True)
class Growth:
    """The dates until which the system suffices."""

    fraction_per_year: float
    start: str
    target_missed_on: str | None
    saturated_on: str | None
    saturated_station: str | None
    traffic_factor_at_target: float | None
    traffic_factor_at_saturation: float | None


@dataclass(frozen=True)
class Plan:
    """All answers of a plan."""

    system: str
    target: str
    metric: str
    limit_seconds: float
    loss_max: float | None
    """The largest allowed share of refused jobs; None if no station refuses jobs."""
    load: str | None
    settings: list[str]
    seed: int
    simulations: int
    floor_seconds: float
    """The metric if every limited station were infinitely fast: a lower bound for all changes of resources."""
    floor_because: str
    reachable: bool
    now: Now
    bottleneck: str | None
    next_bottleneck: str | None
    saturation_throughput_per_second: float | None
    saturation_users: float | None
    levers: list[LeverAnswer]
    largest_traffic: LargestTraffic
    doubling: list[Doubling]
    not_doubled: list[str]
    """Levers that cannot be twice as large with all others unchanged, with the reasons."""
    sweeps: list[Sweep]
    mix: CheapestMix | None
    growth: Growth | None
    never_validated: list[str]
    """Figures that no measurement has confirmed, with the reasons."""


def as_json(value: object) -> object:
    """Converts records to dictionaries, and infinite values to None, because JSON has none."""
    if is_dataclass(value) and not isinstance(value, type):
        return as_json(asdict(value))
    if isinstance(value, Mapping):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
