"""What a person asked an assessment for, and how it is kept in the run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from sojourn.assessment import demand, rising_load
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
    """None: one, or as short as the limit of open connections asks for."""
    content_limit_bytes: int
    work_dir: Path | None
    probe: bool
    """True if the server's counters are sampled under the rising load."""
    seed: int
    effort: Effort
    static_only: bool = False
    """True to go on where a static copy stands for little of the log."""
    require_quiet: bool = False
    """True to refuse a machine with other work."""
    processors: float | None = None
    """Of its processor's time, what the server may use; None: all."""
    verify: tuple[str, ...] = ()
    """The changes that are made afterwards, to try what is predicted of them."""


def settings(request: Request, think_scale: float) -> Settings:
    """The request as the summary records it."""
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
    """The same as a file of the run folder."""
    lines = ["# What was asked for: sojourn assess", f"log = {json.dumps(log)}"]
    # Numbers, booleans and strings are written alike in JSON and TOML; what was left open has no key.
    lines += [f"{name} = {json.dumps(value)}" for name, value in settings.model_dump(exclude_none=True).items()]
    return "\n".join(lines) + "\n"


class EffortName(StrEnum):
    quick = "quick"
    normal = "normal"
    thorough = "thorough"


@dataclass(frozen=True)
class Effort:
    """The lengths of the two measuring stages."""

    demand: demand.Effort
    rising_load: rising_load.Effort

    def with_repetitions(self, repetitions: int | None) -> Effort:
        """The same with another number of climbs, where one is given."""
        if repetitions is None:
            return self
        return replace(self, rising_load=replace(self.rising_load, repetitions=repetitions))


EFFORTS: Mapping[EffortName, Effort] = {
    EffortName.quick: Effort(demand.Effort(1, 0.2, 0.1), rising_load.Effort(1, 1.0, 0.5)),
    EffortName.normal: Effort(demand.Effort(2, 0.4, 0.15), rising_load.Effort(5, 2.5, 0.8)),
    EffortName.thorough: Effort(demand.Effort(5, 1.0, 0.3), rising_load.Effort(9, 8.0, 2.0)),
}
