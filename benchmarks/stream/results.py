"""The costs of all repetitions as rows and tables, and ours over the best peer's within each repetition."""

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
    """A server with a number of viewers, over the repetitions."""

    competitor: str
    cells: Sequence[Cost]

    @property
    def sound(self) -> list[Cost]:
        """Returns the repetitions without trouble."""
        return [cell for cell in self.cells if not cell.trouble]

    @property
    def is_sound(self) -> bool:
        """Returns true if most repetitions are sound, so that the row is compared: one may have been disturbed."""
        return len(self.sound) * 2 > len(self.cells)

    def spread(self, figure: Callable[[Cost], float | None]) -> Spread | None:
        """Returns a figure's median, minimum and maximum, over the sound repetitions if these are most."""
        return Spread.of(figure(cell) for cell in (self.sound if self.is_sound else self.cells))

    @property
    def cost(self) -> Spread | None:
        """Returns the server's CPU seconds per second of a stream."""
        return self.spread(lambda cell: cell.cpu_seconds_per_stream_second)

    @property
    def clients(self) -> int:
        """Returns the number of viewers."""
        return self.cells[0].clients

    @property
    def generator_cost(self) -> Spread | None:
        """Returns the generator's CPU seconds per second of a stream."""
        return self.spread(lambda cell: cell.generator_cpu_seconds_per_stream_second)

    @property
    def trouble(self) -> str | None:
        """Returns the trouble of the first repetition that has any, and how many have."""
        found = [cell.trouble for cell in self.cells if cell.trouble]
        return f"{found[0]} ({len(found)} of {len(self.cells)} repetitions)" if found else None

    @property
    def limited_because(self) -> str | None:
        """Returns why the generator was the limit, in the first repetition in which it was."""
        return next((cell.limited_because for cell in self.cells if cell.limited_because), None)


@dataclass(frozen=True)
class Table:
    """All servers with a number of viewers of a film, the cheapest first."""

    rate: str
    transport: str
    clients: int
    rows: Sequence[Row]

    def row(self, competitor: str) -> Row | None:
        return next((row for row in self.rows if row.competitor == competitor), None)

    @property
    def best_peer(self) -> Row | None:
        """Returns the cheapest sound row that is not ours."""
        sound = [row for row in self.rows if row.competitor != OURS and row.cost and row.is_sound]
        return sound[0] if sound else None

    def ours_over(self, other: Row | None) -> Estimate | None:
        """Returns our cost over another's, within repetitions in which both are sound."""
        ours = self.row(OURS)
        if ours is None or other is None or not (ours.is_sound and other.is_sound):
            return None
        theirs = {cell.repetition: cell.cpu_seconds_per_stream_second for cell in other.sound}
        pairs = ((cell.cpu_seconds_per_stream_second, theirs.get(cell.repetition)) for cell in ours.sound)
        return mean_ratio([mine / their for mine, their in pairs if mine and their])


def tables(cells: Iterable[Cost]) -> list[Table]:
    """Returns a table for each measured film, transport and number of viewers."""
    by_place: dict[tuple[str, str, int], dict[str, list[Cost]]] = {}
    for cell in cells:
        rows = by_place.setdefault((cell.transport, cell.rate, cell.clients), {})
        rows.setdefault(cell.competitor, []).append(cell)
    return [
        Table(rate, transport, clients, sorted((Row(*each) for each in rows.items()), key=_cost_of))
        for (transport, rate, clients), rows in sorted(by_place.items(), key=lambda item: place_key(*item[0]))
    ]


def place_key(transport: str, rate: str, clients: int = 0) -> tuple[bool, int, int]:
    """Returns the key that sorts the tables: UDP first, then by rate and by number of viewers."""
    return transport != "udp", media.bits_per_second(rate), clients


def _cost_of(row: Row) -> float:
    return row.cost.median if row.cost else float("inf")
