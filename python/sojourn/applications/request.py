"""The options of an application's assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sojourn.applications.prices import Prices
from sojourn.assessment.request import EffortName
from sojourn.tiers.declaration import Tier
from sojourn.tiers.watch import Sources
from sojourn.workload.log import LogOptions


@dataclass(frozen=True)
class Effort:
    """The amount of measurement."""

    step_seconds: float
    settle_seconds: float
    climbs: int
    mixes: int
    """The number of steps that emphasise each endpoint."""


EFFORTS: Mapping[EffortName, Effort] = {
    EffortName.quick: Effort(1.5, 0.5, 1, 1),
    EffortName.normal: Effort(3.0, 0.8, 2, 3),
    EffortName.thorough: Effort(8.0, 2.0, 4, 4),
}


@dataclass(frozen=True)
class ApplicationRequest:
    """The options of one assessment."""

    log: str
    log_options: LogOptions
    target: str
    tiers: Sequence[Tier]
    """The tiers, the one nearest to clients first and the database last."""
    sources: Sources
    endpoints: Sequence[str]
    """The given endpoint patterns."""
    methods: Sequence[str]
    headers: Sequence[str]
    """Header fields of every request."""
    objectives: Sequence[str]
    required_rate: float | None
    """Requests/s at which the objectives must hold; None for the log's busiest minute."""
    rate_max: float | None
    errors_max: float
    effort: Effort
    seed: int
    prices: Prices | None = None
    """The prices of changes."""
    planned: Sequence[str] = ()
    """Changes to make and measure, as typed."""
    restore: str | None = None
    """The command that restores the system after each change."""
