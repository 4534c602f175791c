"""The unchanged server, measured in alternation with a changed one.

On a virtual machine the same server takes a quarter more or less time a quarter of an hour later. What it needs before
each climb of the changed server, at that one's loads, shows how fast the machine is meanwhile; what is left between
prediction and measurement is the change's. For another server it is a clock: at light loads of its own it shows how
fast the machine is while that server's light loads are measured, and again during its climbs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sojourn.assessment import rising_load, steps
from sojourn.assessment.climbs import Climbs
from sojourn.assessment.model import Delays, Station
from sojourn.assessment.simulation import Sessions, with_simulated_delays
from sojourn.assessment.summary import Step
from sojourn.assessment.verification.assessed import Assessed


@dataclass
class Unchanged:
    """The unchanged server at a few loads; its steps are known once they are measured."""

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
        return self.assessed.sessions_of(self.climbs.measured(), self.steps, self.assessed.station)

    def slower(self, step: Step) -> float:
        """How much more CPU time its requests cost in a step than in the assessment, as a factor; 1 if unknown."""
        usual = self.assessed.station.demand_at(step.offered_requests_per_second)
        return (step.cpu_for_model or usual) / usual

    @property
    def usually_slower(self) -> float:
        """The same in the middle of its steps."""
        return statistics.median(map(self.slower, self.steps))

    def as_fast_as(self, step: Step, station: Station) -> Station:
        """This server with other resources, on a machine as fast as a step shows it to be.

        Demands and wake-ups are longer by as much as requests cost more CPU time than in the assessment; the delays
        are those that explain the unchanged server's response times.
        """
        slower, assessed = self.slower(step), self.assessed.station
        then = replace(station.slowed(slower), mean_delays=Delays(), p95_delays=Delays())
        alone = replace(then, quota=assessed.quota, capacity=assessed.capacity / slower)
        alone = with_simulated_delays(alone, self._sessions, [step], self.assessed.seed)
        return replace(then, mean_delays=alone.mean_delays, p95_delays=alone.p95_delays)
