"""What an assessment knows once it has predicted, and what the changes start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.assessment.model import Mix, Station
from sojourn.assessment.plausibility import CALIBRATION_PLAUSIBLE
from sojourn.assessment.request import Effort
from sojourn.assessment.simulation import Sessions
from sojourn.assessment.summary import DemandFit, Knee, Step
from sojourn.machine.cores import Cores
from sojourn.results.run_folder import RunFolder
from sojourn.systems import Launch, Server
from sojourn.systems.server import LOOPBACK

SAME_RATE = 0.1
"""Relative; a step whose throughput is further from the capacity does not show what the server had at it."""


def capacity(knee: Knee, station: Station) -> float:
    """Requests/s: as measured, or the model's where only a bound was measured."""
    return max(knee.requests_per_second, station.capacity) if knee.is_lower_bound else knee.requests_per_second


def processor_fraction(steps: Sequence[Step], capacity: float) -> float:
    """What the server had of its processor in the step that delivered the capacity; 1 where that is not known."""
    known = [
        (abs(step.requests_per_second.median / capacity - 1), step.server_cpu_fraction.median)
        for step in steps
        if step.server_cpu_fraction is not None and step.server_cpu_fraction.median > 0
    ]
    away, fraction = min(known, default=(SAME_RATE, 1.0))
    return min(1.0, fraction) if away < SAME_RATE else 1.0


@dataclass(frozen=True)
class Assessed:
    """An assessment before its changes."""

    folder: RunFolder
    trace: Path
    """The log's sessions as a file."""
    server: Server
    launch: Launch
    """How the server was started."""
    cores: Cores
    sessions: Sessions
    mix: Mix
    demand_fit: DemandFit
    station: Station
    knee: Knee
    processor_fraction: float
    """Of its processor, what the server's processes had at the capacity; interrupts and others have the rest."""
    helpers: int | None
    """How many the server ran with, if it has any."""
    helper_limit: float | None
    """The rate at which they would all be busy, requests/s; None where they did too little to tell."""
    target_p95_seconds: float
    effort: Effort
    seed: int
    disturbances: Sequence[str] = ()
    """What disturbed the assessment: its predictions rest on disturbed measurements."""

    @property
    def capacity(self) -> float:
        """What the unchanged server takes, requests/s."""
        return capacity(self.knee, self.station)

    @property
    def capacity_range(self) -> tuple[float, float]:
        """Factors on the capacity: the knee's interval, or the calibration's where the knee is only a bound."""
        knee, factor = self.knee, self.station.calibration
        if not knee.is_lower_bound and knee.requests_per_second > 0:
            return knee.low / knee.requests_per_second, knee.high / knee.requests_per_second
        least, most = CALIBRATION_PLAUSIBLE
        return factor.estimate / min(factor.high, most), factor.estimate / max(factor.low, least)

    @property
    def is_local(self) -> bool:
        """True if the server was started here, so that it can be started otherwise."""
        return self.server.builds_site and self.launch.address == LOOPBACK
