"""How much time an assessment takes: three presets, fixed so that runs can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sojourn.assessment import demand, rising_load


class EffortName(StrEnum):
    """The presets."""

    quick = "quick"
    normal = "normal"
    thorough = "thorough"


@dataclass(frozen=True)
class Effort:
    """The two measuring stages' efforts."""

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
