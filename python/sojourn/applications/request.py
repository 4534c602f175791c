"""What a person asked an assessment of an application for."""

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
    """How long is measured."""

    step_seconds: float
    settle_seconds: float
    climbs: int
    mixes: int
    """Steps with much of one endpoint, for each endpoint."""


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
    """Those that clients meet first, first; the database last."""
    sources: Sources
    endpoints: Sequence[str]
    """Patterns that were given."""
    methods: Sequence[str]
    headers: Sequence[str]
    """Fields of every request."""
    objectives: Sequence[str]
    required_rate: float | None
    """Requests/s at which the objectives have to hold; None is the log's busiest minute."""
    rate_max: float | None
    errors_max: float
    effort: Effort
    seed: int
    prices: Prices | None = None
    """What changes cost."""
    planned: Sequence[str] = ()
    """Changes that are carried out, as they were typed."""
    restore: str | None = None
    """The command that puts the system back as it was after each."""
