"""What a plan answers, as records: one object of `--format json`, and what the report is drawn from.

Units are in the names. A time that does not exist, because a station would be overloaded, is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass


@dataclass(frozen=True)
class Now:
    """The system as it is, under the target's load."""

    seconds: float
    met: bool
    by: str
    simulated_seconds: float
    half_width_seconds: float | None
    throughput_per_second: float
    """Of the jobs that finish."""
    loss_probability: float
    """The share of the jobs that is turned away; times are of the others."""
    unstable_station: str | None


@dataclass(frozen=True)
class LeverAnswer:
    """What one parameter must be, all else as it is."""

    parameter: str
    label: str
    present: float
    needed: float | None
    """None where this parameter alone cannot meet the target."""
    unit: str
    present_text: str
    needed_text: str | None
    setting: str | None
    """For `--set`."""
    searched_by: str
    simulated_seconds: float
    """The metric at `needed`; where there is none, the best that this parameter alone can reach."""
    half_width_seconds: float | None
    best_text: str
    """Where the best was reached."""


@dataclass(frozen=True)
class LargestTraffic:
    """How much traffic the system takes within the target."""

    factor: float | None
    throughput_per_second: float
    simulated_seconds: float
    half_width_seconds: float | None
    loss_probability: float
    searched_by: str


@dataclass(frozen=True)
class Doubling:
    """What twice as much of one resource gives."""

    parameter: str
    label: str
    seconds: float
    change_fraction: float
    """Of the metric; negative is faster."""
    by: str
    largest_traffic_factor: float | None
    saturation_throughput_per_second: float | None
    bottleneck: str | None


@dataclass(frozen=True)
class SweepPoint:
    """A system in a sweep."""

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
    """A choice of the priced parameters."""

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
    """No other is both cheaper and faster; the cheapest first."""
    cheapest: Mix | None
    """The cheapest that meets the target, confirmed by simulation."""
    simulated_seconds: float | None
    half_width_seconds: float | None


@dataclass(frozen=True)
class Growth:
    """Until when the system lasts."""

    fraction_per_year: float
    start: str
    target_missed_on: str | None
    saturated_on: str | None
    saturated_station: str | None
    traffic_factor_at_target: float | None
    traffic_factor_at_saturation: float | None


@dataclass(frozen=True)
class Plan:
    """Everything that was asked."""

    system: str
    target: str
    metric: str
    limit_seconds: float
    loss_max: float | None
    """The share of the jobs that may be turned away; None where none can be."""
    load: str | None
    settings: list[str]
    seed: int
    simulations: int
    floor_seconds: float
    """The metric if every limited station were infinitely fast: no resource of the system reaches below."""
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
    sweeps: list[Sweep]
    mix: CheapestMix | None
    growth: Growth | None
    never_validated: list[str]
    """The figures that no measurement has confirmed, with the reasons."""


def as_json(value: object) -> object:
    """Records as dictionaries; what is not finite as None, which JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return as_json(asdict(value))
    if isinstance(value, Mapping):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
