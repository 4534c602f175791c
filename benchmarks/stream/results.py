"""The costs of all repetitions as rows and tables, and ours beside the best peer's, repetition by repetition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.ratio import mean_ratio
from benchmarks.server.results import Spread
from benchmarks.stream.competitors import OURS
from benchmarks.stream.costs import Cost
from sojourn.loading.confidence import Estimate
from sojourn.workload import media


@dataclass(frozen=True)
class Row:
    """A server with so many viewers, over the repetitions."""

    competitor: str
    cells: Sequence[Cost]

    @property
    def sound(self) -> list[Cost]:
        """The repetitions without trouble."""
        return [cell for cell in self.cells if not cell.trouble]

    @property
    def is_sound(self) -> bool:
        """Whether most repetitions are, so that the row is compared: one may have been disturbed."""
        return len(self.sound) * 2 > len(self.cells)

    def spread(self, figure: Callable[[Cost], float | None]) -> Spread | None:
        """A figure's median and ends, over the sound repetitions if these are most."""
        return Spread.of(figure(cell) for cell in (self.sound if self.is_sound else self.cells))

    @property
    def cost(self) -> Spread | None:
        """CPU seconds per second of a stream."""
        return self.spread(lambda cell: cell.cpu_seconds_per_stream_second)

    @property
    def clients(self) -> int:
        """How many watch."""
        return self.cells[0].clients

    @property
    def generator_cost(self) -> Spread | None:
        """The generator's CPU seconds per second of a stream."""
        return self.spread(lambda cell: cell.generator_cpu_seconds_per_stream_second)

    @property
    def trouble(self) -> str | None:
        """The first repetition's trouble that had any, and how many had."""
        found = [cell.trouble for cell in self.cells if cell.trouble]
        return f"{found[0]} ({len(found)} of {len(self.cells)} repetitions)" if found else None

    @property
    def limited_because(self) -> str | None:
        """Why the generator was the limit, in the first repetition in which it was."""
        return next((cell.limited_because for cell in self.cells if cell.limited_because), None)


@dataclass(frozen=True)
class Table:
    """All servers with so many viewers of a film, the cheapest first."""

    rate: str
    transport: str
    clients: int
    rows: Sequence[Row]

    def row(self, competitor: str) -> Row | None:
        """One of them."""
        return next((row for row in self.rows if row.competitor == competitor), None)

    @property
    def best_peer(self) -> Row | None:
        """The cheapest of those that are sound and not ours."""
        sound = [row for row in self.rows if row.competitor != OURS and row.cost and row.is_sound]
        return sound[0] if sound else None

    def ours_over(self, other: Row | None) -> Estimate | None:
        """Our cost over another's, of the repetitions in which both are sound."""
        ours = self.row(OURS)
        if ours is None or other is None or not (ours.is_sound and other.is_sound):
            return None
        theirs = {cell.repetition: cell.cpu_seconds_per_stream_second for cell in other.sound}
        pairs = ((cell.cpu_seconds_per_stream_second, theirs.get(cell.repetition)) for cell in ours.sound)
        return mean_ratio([mine / their for mine, their in pairs if mine and their])


def tables(cells: Iterable[Cost]) -> list[Table]:
    """A table per film, way of packets and number of viewers that was measured."""
    by_place: dict[tuple[str, str, int], dict[str, list[Cost]]] = {}
    for cell in cells:
        rows = by_place.setdefault((cell.transport, cell.rate, cell.clients), {})
        rows.setdefault(cell.competitor, []).append(cell)
    return [
        Table(rate, transport, clients, sorted((Row(*each) for each in rows.items()), key=_cost_of))
        for (transport, rate, clients), rows in sorted(by_place.items(), key=lambda item: place_key(*item[0]))
    ]


def place_key(transport: str, rate: str, clients: int = 0) -> tuple[bool, int, int]:
    """The order of the tables: UDP first, then by rate and by how many watch."""
    return transport != "udp", media.bits_per_second(rate), clients


def _cost_of(row: Row) -> float:
    return row.cost.median if row.cost else float("inf")
