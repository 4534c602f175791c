"""The state of an assessment after its predictions, as the starting point of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sojourn.assessment.model import Mix, Station
from sojourn.assessment.plausibility import CALIBRATION_PLAUSIBLE
from sojourn.assessment.prediction import at_measured_speeds
from sojourn.assessment.request import Effort
from sojourn.assessment.simulation import Sessions
from sojourn.assessment.steps import ClimbStep
from sojourn.assessment.summary import DemandFit, Knee, Step
from sojourn.loading.fleet import Fleet
from sojourn.machine.cores import Cores
from sojourn.results.run_folder import RunFolder
from sojourn.systems import Launch, Server

SAME_RATE = 0.1
"""The largest relative distance of a step's throughput from the capacity at which it still represents the server's CPU
share there.
"""


def capacity(knee: Knee, station: Station) -> float:
    """The capacity in requests/s: as measured, or the model's if only a bound was measured."""
    return max(knee.requests_per_second, station.capacity) if knee.is_lower_bound else knee.requests_per_second


def processor_fraction(steps: Sequence[Step], capacity: float) -> float:
    """The server's CPU share in the step that delivered the capacity; 1 where unknown."""
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
    """The server's start parameters."""
    cores: Cores
    sessions: Sessions
    """With the repetitions of its steps."""
    mix: Mix
    demand_fit: DemandFit
    station: Station
    knee: Knee
    light: Sequence[Step]
    """The steps that the server kept up with, by ascending load."""
    processor_fraction: float
    """The CPU share of the server's processes at capacity; interrupts and others use the rest."""
    helpers: int | None
    """The server's number of helpers, if it has any."""
    helper_limit: float | None
    """The rate at which all helpers would be busy, in requests/s; None where they did too little to tell."""
    target_p95_seconds: float
    effort: Effort
    seed: int
    disturbances: Sequence[str] = ()
    """Disturbances of the assessment, on which its predictions rest."""
    fleet: Fleet | None = None
    """The machines that generate the rising load, with this one; this one alone if none."""

    @property
    def capacity(self) -> float:
        """The capacity of the unchanged server in requests/s."""
        return capacity(self.knee, self.station)

    @property
    def capacity_range(self) -> tuple[float, float]:
        """The interval of the capacity as factors: the knee's, or the calibration's where the knee is only a bound."""
        knee, factor = self.knee, self.station.calibration
        if not knee.is_lower_bound and knee.requests_per_second > 0:
            return knee.low / knee.requests_per_second, knee.high / knee.requests_per_second
        least, most = CALIBRATION_PLAUSIBLE
        return factor.estimate / min(factor.high, most), factor.estimate / max(factor.low, least)

    @property
    def is_local(self) -> bool:
        """True if the server was started here, so that it can be started differently."""
        return self.server.builds_site

    def sessions_of(
        self, measured: Mapping[float, Sequence[ClimbStep]], steps: Sequence[Step], station: Station | None
    ) -> Sessions:
        """The sessions of other measurements, with how fast the cores of `station` were in them where that is known."""
        sessions = replace(self.sessions, measured=measured)
        if station is None:
            return sessions
        return at_measured_speeds(sessions, steps, station.demands, has_quota=station.quota is not None)
