"""Measures servers in turn: those of a condition all run, and each is loaded for a moment, round after round.

The speed of a virtual machine changes within seconds, by half and more. Two servers of one round are loaded at about
the same speed, so the ratios within the rounds say more than the ratio of two medians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

from rich.console import Console
from scipy.stats import binom

from benchmarks.selection import shuffled
from benchmarks.server.cell import Cell, Setting
from benchmarks.server.competitors import Competitor
from benchmarks.server.conditions import Condition
from benchmarks.server.progress import Progress
from benchmarks.server.results import Record, Row, Table
from sojourn.machine import cores
from sojourn.systems import Running

ROUNDS_MIN = 6
"""With fewer ratios, the range of all of them covers the median in less than 95 % of cases."""
TAIL = 0.025
"""The probability that the median is beyond either end of an interval."""

K = TypeVar("K", bound=Condition)


@dataclass(frozen=True)
class Ratio:
    """What one server costs of another, over the rounds: the median, and its interval at 95 % by the ratios' ranks."""

    median: float
    low: float
    high: float
    rounds: int

    @staticmethod
    def of(row: Row, other: Row) -> Ratio | None:
        """Returns None if too few rounds have both figures."""
        theirs = {cell.repetition: cell.cost for cell in other.cells}
        pairs = [(cell.cost, theirs.get(cell.repetition)) for cell in row.cells]
        ratios = sorted(ours / cost for ours, cost in pairs if ours and cost)
        rounds = len(ratios)
        if rounds < ROUNDS_MIN:
            return None
        # How many ratios are below the median is binomial, as heads of a coin are.
        place = 0
        while binom.cdf(place + 1, rounds, 0.5) <= TAIL:
            place += 1
        return Ratio(median(ratios), ratios[place], ratios[-1 - place], rounds)


@dataclass(frozen=True)
class InTurn(Generic[K]):
    """How a benchmark measures servers that stay."""

    serving: Callable[[K, Competitor, Setting], AbstractContextManager[Running]]
    """Starts and checks a server.

    Raises:
        CouldNotRun: it does not start, or answers wrongly.
    """
    load: Callable[[K, Competitor, int, Setting, Running], Cell]

    def measure(
        self,
        chosen: Sequence[K],
        everybody: Sequence[Competitor],
        repetitions: int,
        setting: Setting,
        record: Record,
        console: Console,
    ) -> bool:
        """Measures all rounds of each condition; returns true if it reached the end."""
        taking = [(condition, [each for each in everybody if each.takes(condition)]) for condition in chosen]
        loads = [setting.seconds_of(condition) for condition, who in taking for _ in range(repetitions * len(who))]
        with cores.keep_off_server_core(setting.cores), Progress(console, loads) as progress:
            try:
                for condition, who in taking:
                    with ExitStack() as servers:
                        running = [
                            (each, servers.enter_context(self.serving(condition, each, setting))) for each in who
                        ]
                        for repetition in range(repetitions):
                            for each, server in shuffled(running, repetition, setting.seed):
                                progress.begin(f"{condition.name} {each.name}")
                                cell = self.load(condition, each, repetition, setting, server)
                                record.add(cell)
                                progress.done(cell)
            except KeyboardInterrupt:
                return False
        return True


def lines(tables: Sequence[Table]) -> list[str]:
    """Returns a line for each server, compared with the reference, or the floor where there is none."""
    found = []
    for table in tables:
        other = table.reference or table.best("null")
        for row in table.rows:
            if other is None or row is other or row.trouble:
                continue
            if ratio := Ratio.of(row, other):
                found.append(
                    f"{table.condition.name} {row.competitor}: {ratio.median:.3f} of {other.competitor} "
                    f"({ratio.low:.3f} to {ratio.high:.3f} at 95 %, {ratio.rounds} rounds)"
                )
    return found
