"""A session of measurements: measures its parts one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.selection import shuffled
from benchmarks.stream import capacity, costs, pace
from benchmarks.stream.capacity import Capacity
from benchmarks.stream.costs import Cost
from benchmarks.stream.effort import CAPACITY, COST_SECONDS_MIN, COSTS, PACE, Effort, Part
from benchmarks.stream.pace import Pace
from benchmarks.stream.results import Row
from benchmarks.stream.viewers import Play
from sojourn.machine.cores import Cores


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


@dataclass(frozen=True)
class MeasurementSession:
    """The parts to measure, and the measurements so far."""

    plays: Sequence[Play]
    pace_film: Path
    effort: Effort
    seed: int
    cores: Cores
    measured: Measured = field(default_factory=Measured)

    def measurements(self, parts: Sequence[Part]) -> Iterator[Cost | Capacity | Pace]:
        """Measures the parts lazily: each measurement when the caller takes it."""
        measures: dict[Part, Callable[[], Iterator[Cost | Capacity | Pace]]] = {
            COSTS: self._costs,
            CAPACITY: self._capacities,
            PACE: self._paces,
        }
        for part in parts:
            for measurement in measures[part]():
                self.measured.add(measurement)
                yield measurement

    def count(self, parts: Sequence[Part]) -> int:
        repetitions = self.effort.repetitions
        costs_count = len(self.plays) * len(self.effort.clients) * repetitions
        counts = {COSTS: costs_count, CAPACITY: len(self.plays), PACE: repetitions}
        return sum(counts[part] for part in parts)

    def _costs(self) -> Iterator[Cost]:
        """Measures all cells of each repetition in a random order, so that no server always follows the same one."""
        cells = [(play, clients) for play in self.plays for clients in self.effort.clients]
        for repetition in range(self.effort.repetitions):
            for play, clients in shuffled(cells, repetition, self.seed):
                yield costs.measure(play, clients, repetition, self.effort.cost_seconds, self.cores)

    def _capacities(self) -> Iterator[Capacity]:
        for play in shuffled(self.plays, 0, self.seed):
            rows = [self._row(play, clients) for clients in self.effort.clients]
            start = capacity.start_clients(rows, all_are_judged=math.isinf(capacity.judged_max(play.transport)))
            yield capacity.measure(play, start, self.effort, self.cores)

    def _row(self, play: Play, clients: int) -> Row:
        """Returns the cost for a number of viewers; measures it once, unrecorded, if the session has no costs."""
        place = (play.competitor.name, play.rate, play.transport, clients)
        known = [
            cost for cost in self.measured.costs if place == (cost.competitor, cost.rate, cost.transport, cost.clients)
        ]
        return Row(play.competitor.name, known or [costs.measure(play, clients, 0, COST_SECONDS_MIN, self.cores)])

    def _paces(self) -> Iterator[Pace]:
        for repetition in range(self.effort.repetitions):
            yield pace.measure(
                self.pace_film, self.effort.pace_streams, repetition, self.effort.pace_seconds, self.cores
            )
