"""The options of an application's assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.applications.prices import Prices
from sojourn.applications.summary import ApplicationSummary
from sojourn.applications.verdicts import ABANDONED_MAX
from sojourn.assessment.choices import EffortName
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

    log: str | None
    """None where a scenario is all there is."""
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
    login: Path | None = None
    """A scenario file with the login alone, for a log's requests."""
    bodies: Path | None = None
    """A scenario or a recording with what stands for a log's writes."""
    scenario: Path | None = None
    """In place of the log's requests."""
    users: int | None = None
    """The number of users that log in."""
    in_sessions: bool = False
    """Make the log's mix by its sessions, with their order and pauses."""
    required_users: int | None = None
    """With whom the objectives must hold; then users make the load, in rising numbers, and not arrivals."""
    baseline: tuple[ApplicationSummary, str] | None = None
    """An earlier run, and what it is called."""
    fall_max: float = 0.0
    """A capacity may be less than the baseline's by this share."""
    abandoned_max: float = ABANDONED_MAX
    """The share of requests below the knee that may be abandoned."""
    trust: Sequence[str] = ()
    """The engine's options about certificates and the version of HTTP."""

    @property
    def connecting(self) -> list[str]:
        """The engine's options of every request."""
        return [*(word for field in self.headers for word in ("--header", field)), *self.trust]
