"""A sitting of the benchmark: its parts one after the other, each measurement kept as it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.order import shuffled
from benchmarks.stream import capacity, costs, pace
from benchmarks.stream.effort import COST_SECONDS_MIN, Effort, Part
from benchmarks.stream.record import Record
from benchmarks.stream.results import Row
from benchmarks.stream.viewers import Play
from sojourn import cores
from sojourn.cores import Cores


@dataclass(frozen=True)
class Sitting:
    """What is measured, and where it is kept and said."""

    plays: Sequence[Play]
    pace_film: Path
    effort: Effort
    seed: int
    cores: Cores
    record: Record
    talk: Console

    def measure(self, parts: Sequence[Part]) -> bool:
        """Measures the parts; whether it came to the end."""
        measures = {"costs": self._costs, "capacity": self._capacities, "pace": self._paces}
        with cores.keep_off_server_core(self.cores):
            try:
                for part in parts:
                    measures[part]()
            except KeyboardInterrupt:
                return False
        return True

    def _costs(self) -> None:
        """Each repetition has all cells in an order of its own, so that no server always follows another."""
        cells = [(play, clients) for play in self.plays for clients in self.effort.clients]
        done, total = 0, len(cells) * self.effort.repetitions
        for repetition in range(self.effort.repetitions):
            for play, clients in shuffled(cells, repetition, self.seed):
                cost = costs.measure(play, clients, repetition, self.effort.cost_seconds, self.cores)
                self.record.add(cost)
                done += 1
                self._say(f"costs {done} of {total}: {play.name}, {cost.said}")

    def _capacities(self) -> None:
        effort = self.effort
        for number, play in enumerate(shuffled(self.plays, 0, self.seed), 1):
            start = capacity.start_clients(self._row(play, clients) for clients in effort.clients)
            found = capacity.measure(
                play, start, effort.search_seconds, effort.search_budget_seconds, effort.precision, self.cores
            )
            self.record.add(found)
            self._say(f"capacity {number} of {len(self.plays)}: {play.name}: {found.said}")

    def _row(self, play: Play, clients: int) -> Row:
        """What so many viewers cost; measured once, and not kept, where costs are no part of this sitting."""
        place = (play.contestant.name, play.rate, play.transport, clients)
        known = [
            cost for cost in self.record.costs if place == (cost.contestant, cost.rate, cost.transport, cost.clients)
        ]
        return Row(play.contestant.name, known or [costs.measure(play, clients, 0, COST_SECONDS_MIN, self.cores)])

    def _paces(self) -> None:
        effort = self.effort
        for repetition in range(effort.repetitions):
            found = pace.measure(self.pace_film, effort.pace_streams, repetition, effort.pace_seconds, self.cores)
            self.record.add(found)
            self._say(f"pace {repetition + 1} of {effort.repetitions}: {effort.pace_streams:,} streams: {found.said}")

    def _say(self, words: str) -> None:
        self.talk.print(words, highlight=False, soft_wrap=True)
