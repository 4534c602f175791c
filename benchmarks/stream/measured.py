"""What a run has measured so far, by part."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.stream.capacity import Capacity
from benchmarks.stream.costs import Cost
from benchmarks.stream.pace import Pace


@dataclass(frozen=True)
class Measured:
    """The measurements in the order in which they ended."""

    costs: list[Cost] = field(default_factory=list)
    capacities: list[Capacity] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)

    def add(self, measurement: Cost | Capacity | Pace) -> None:
        """Keeps a measurement with those of its part."""
        if isinstance(measurement, Cost):
            self.costs.append(measurement)
        elif isinstance(measurement, Capacity):
            self.capacities.append(measurement)
        else:
            self.paces.append(measurement)
