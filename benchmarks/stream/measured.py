"""The measurements of a run so far, by part."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.stream.capacity import Capacity
from benchmarks.stream.costs import Cost
from benchmarks.stream.pace import Pace


@dataclass(frozen=True)
class Measured:
    """The measurements of each part, in the order of their ends."""

    costs: list[Cost] = field(default_factory=list)
    capacities: list[Capacity] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)

    def add(self, measurement: Cost | Capacity | Pace) -> None:
        """Adds a measurement to its part."""
        if isinstance(measurement, Cost):
            self.costs.append(measurement)
        elif isinstance(measurement, Capacity):
            self.capacities.append(measurement)
        else:
            self.paces.append(measurement)
