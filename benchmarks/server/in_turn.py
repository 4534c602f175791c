"""Measures servers in turn: those of a condition all run, and each is loaded for a moment, round after round.

The speed of a virtual machine changes within seconds, by half and more. Two servers of one round are loaded at about
the same speed, so the ratios within the rounds say more than the ratio of two medians.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rich.console import Console

from benchmarks.selection import shuffled
from benchmarks.server import h2load, network
from benchmarks.server.cell import Cell, Served, Setting, attempted, with_trouble
from benchmarks.server.competitors import Competitor
from benchmarks.server.conditions import Condition
from benchmarks.server.progress import Progress
from benchmarks.server.results import Record, Table, ratio
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.text import format

WATCHED_SECONDS = 0.5
IDLE_FRACTION_MAX = 0.02
"""A server that uses more of the core while no one asks it would slow down the others."""

K = TypeVar("K", bound=Condition)
S = TypeVar("S", bound=Served)


@dataclass(frozen=True)
class InTurn(Generic[K, S]):
    """How a benchmark measures servers that stay."""

    serving: Callable[[K, Competitor, Setting], AbstractContextManager[S]]
    load: Callable[[Cell, K, Setting, S], Cell]

    def measure(
        self,
        chosen: Sequence[K],
        everybody: Sequence[Competitor],
        repetitions: int,
        setting: Setting,
        record: Record,
        console: Console,
    ) -> bool:
        """Measures all rounds of each condition under load; returns true if it reached the end."""
        taking = [(each, [who for who in everybody if who.takes(each)]) for each in chosen if each.is_load]
        loads = [setting.seconds_of(condition) for condition, who in taking for _ in range(repetitions * len(who))]
        with cores.keep_off_server_core(setting.cores), Progress(console, loads) as progress:
            try:
                for condition, who in taking:
                    if setting.congestion_control is not None:
                        network.enter_own(setting.congestion_control)
                    with ExitStack() as servers:
                        running = self._started(condition, who, setting, record, servers)
                        progress.leave_out(repetitions * (len(who) - len(running)))
                        for repetition in range(repetitions):
                            for each, served in shuffled(running, repetition, setting.seed):
                                progress.begin(f"{condition.name} {each.name}")
                                cell = record.cell(condition.name, each.name, repetition)
                                cell = self._turn(cell, condition, setting, served)
                                record.add(cell)
                                progress.done(cell)
            except KeyboardInterrupt:
                return False
        return True

    def _started(
        self, condition: K, who: Sequence[Competitor], setting: Setting, record: Record, servers: ExitStack
    ) -> list[tuple[Competitor, S]]:
        """Starts the servers; records those that cannot take part."""
        running = []
        for each in who:
            try:
                running.append((each, servers.enter_context(self.serving(condition, each, setting))))
            except CouldNotRun as error:
                record.add(with_trouble(record.cell(condition.name, each.name, 0), error))
        return list(self._quiet(condition, running, record))

    def _quiet(
        self, condition: K, running: Sequence[tuple[Competitor, S]], record: Record
    ) -> Iterator[tuple[Competitor, S]]:
        """Yields the servers that do nothing while they are idle; stops and records the others."""
        before = [h2load.cpu_seconds(served.server.pids) for _, served in running]
        time.sleep(WATCHED_SECONDS)
        for (each, served), earlier in zip(running, before, strict=True):
            used = (h2load.cpu_seconds(served.server.pids) - earlier) / WATCHED_SECONDS
            if used <= IDLE_FRACTION_MAX:
                yield each, served
                continue
            served.server.stop()
            why = CouldNotRun(f"it uses {format.percent(used)} of the core while it is idle, and cannot wait its turn")
            record.add(with_trouble(record.cell(condition.name, each.name, 0), why))

    def _turn(self, cell: Cell, condition: K, setting: Setting, served: S) -> Cell:
        """Returns the figures of a moment; those of one that failed are left out."""
        known = replace(cell, version=served.server.version)
        found = attempted(known, lambda known: self.load(known, condition, setting, served))
        return replace(known, seconds=found.seconds, trouble=found.trouble) if found.trouble else found


def lines(tables: Sequence[Table]) -> list[str]:
    """Returns a line for each server and each that it is compared with: the reference, the best peer, the floor."""
    found = []
    for table in tables:
        for row in table.rows:
            for other in table.compared:
                measured = ratio(row, other) if other is not row and row.is_sound else None
                if measured is not None and measured.low is not None:
                    found.append(
                        f"{table.condition.name} {row.competitor}: {measured.value:.3f} of {other.competitor} "
                        f"({measured.low:.3f} to {measured.high:.3f} at 95 %, {measured.batches} rounds)"
                    )
    return found
