"""The unchanged server, measured in alternation with a changed one.

On a virtual machine the same server takes a quarter more or less time a quarter of an hour later. What it needs at the
loads of the changed server, before each of that one's climbs, shows how fast the machine is meanwhile; what is left
between prediction and measurement is the change's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sojourn.assessment import rising_load, steps
from sojourn.assessment.climbs import Climbs
from sojourn.assessment.model import Delays, Station
from sojourn.assessment.prediction import at_measured_speeds
from sojourn.assessment.simulation import Sessions, with_simulated_delays
from sojourn.assessment.summary import Step
from sojourn.assessment.verification.assessed import Assessed


@dataclass
class Unchanged:
    """The unchanged server at the compared loads; its steps are known once they are measured."""

    assessed: Assessed
    climb: rising_load.Climb
    climbs: Climbs
    rates: Sequence[float]
    """Requests/s, ascending."""

    def measure(self, number: int) -> None:
        """Measures each load once, with the sessions of the draw `number`; before the first time the caches fill."""
        if not self.climbs:
            self.climb.at("warm-up", self.rates)
        self.climb.at(f"repetition-{number}", self.rates, draw=number)

    @cached_property
    def steps(self) -> list[Step]:
        """Each load over all measurements."""
        return steps.over_levels(self.climbs.levels())

    @cached_property
    def _sessions(self) -> Sessions:
        station = self.assessed.station
        sessions = replace(self.assessed.sessions, measured=self.climbs.measured())
        return at_measured_speeds(sessions, self.steps, station.demands, has_quota=station.quota is not None)

    def as_fast_as(self, step: Step, station: Station) -> Station:
        """A changed station on a machine as fast as a step of the unchanged server shows it to be.

        Demands and wake-ups are longer by as much as requests cost more CPU time than in the assessment; the delays
        are those that explain the unchanged server's response times.
        """
        assessed = self.assessed.station
        usual = assessed.demand_at(step.offered_requests_per_second)
        slower = (step.cpu_for_model or usual) / usual
        then = replace(
            station,
            demands=slower * station.demands,
            wakeup_seconds=slower * station.wakeup_seconds,
            capacity=station.capacity / slower,
            mean_delays=Delays(),
            p95_delays=Delays(),
        )
        alone = replace(then, quota=assessed.quota, capacity=assessed.capacity / slower)
        alone = with_simulated_delays(alone, self._sessions, [step], self.assessed.seed)
        return replace(then, mean_delays=alone.mean_delays, p95_delays=alone.p95_delays)
