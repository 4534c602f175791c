"""The options of an assessment, and their form in the run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sojourn.assessment import demand, rising_load
from sojourn.assessment.choices import EffortName
from sojourn.assessment.summary import Settings
from sojourn.systems import Server
from sojourn.workload.log import LogOptions


@dataclass(frozen=True)
class Request:
    """The options of one assessment."""

    log: str
    server: Server
    architecture: str
    target_p95_seconds: float
    access_line_bits_per_second: float | None
    log_options: LogOptions
    think_scale: float | None
    """The factor on think times; None for 1, or less where the limit of open connections requires it."""
    content_limit_bytes: int
    work_dir: Path | None
    probe: bool
    """True to sample the server's counters under the rising load."""
    seed: int
    effort: Effort
    static_only: bool = False
    """True to continue even if a static copy represents little of the log."""
    require_quiet: bool = False
    """True to refuse a machine with other work."""
    processors: float | None = None
    """The server's share of its processor; None without a limit."""
    verify: tuple[str, ...] = ()
    """The changes to make afterwards in order to verify predictions."""


def settings(request: Request, think_scale: float) -> Settings:
    """The options in the form of the summary."""
    return Settings(
        server=request.server.name,
        architecture=request.architecture if request.server.has_architectures else None,
        target_p95_seconds=request.target_p95_seconds,
        access_line_bits_per_second=request.access_line_bits_per_second,
        session_gap_seconds=request.log_options.session_gap_seconds,
        log_options=request.log_options.given(),
        think_scale=think_scale,
        think_scale_because=None,
        repetitions=request.effort.rising_load.repetitions,
        seed=request.seed,
        processors=request.processors,
    )


def as_study(log: str, settings: Settings) -> str:
    """The options as a file of the run folder."""
    lines = ["# What was asked for: sojourn assess", f"log = {json.dumps(log)}"]
    # JSON and TOML write numbers, booleans and strings alike; unset options are omitted.
    lines += [f"{name} = {json.dumps(value)}" for name, value in settings.model_dump(exclude_none=True).items()]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Effort:
    """The lengths of the two measuring stages."""

    demand: demand.Effort
    rising_load: rising_load.Effort

    def with_repetitions(self, repetitions: int | None) -> Effort:
        """The same effort with another number of climbs, if given."""
        if repetitions is None:
            return self
        return replace(self, rising_load=replace(self.rising_load, repetitions=repetitions))


EFFORTS: Mapping[EffortName, Effort] = {
    EffortName.quick: Effort(demand.Effort(1, 0.2, 0.1), rising_load.Effort(1, 1.0, 0.5)),
    EffortName.normal: Effort(demand.Effort(2, 0.4, 0.15), rising_load.Effort(5, 2.5, 0.8)),
    EffortName.thorough: Effort(demand.Effort(5, 1.0, 0.3), rising_load.Effort(9, 8.0, 2.0)),
}
