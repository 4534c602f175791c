"""Runs a benchmark of servers: plans the cells, measures one after the other, and describes the run for the page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn

from rich.console import Console

from benchmarks import run
from benchmarks.selection import shuffled
from benchmarks.server import network
from benchmarks.server.cell import Cell, Setting, attempted
from benchmarks.server.competitors import Competitor
from benchmarks.server.in_turn import InTurn, K, S
from benchmarks.server.options import Asked
from benchmarks.server.outcome import Outcome
from benchmarks.server.progress import Progress
from benchmarks.server.results import Record
from sojourn import engine
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES
from sojourn.machine import cores
from sojourn.workload.site import Document

ONCE_REPETITIONS = 1
"""Memory does not vary between starts."""


@dataclass(frozen=True)
class Benchmark(Generic[K, S]):
    """The parts that differ between the benchmarks."""

    program: str
    documents: Sequence[Document]
    site_bytes_max: int
    serving: Callable[[K, Competitor, Setting], AbstractContextManager[S]]
    """Starts and checks a server, or raises CouldNotRun."""
    load: Callable[[Cell, K, Setting, S], Cell]
    """Measures it, or raises CouldNotRun, ServerStopped or Interrupted."""
    outcome: type[Outcome]
    cell: type[Cell] = Cell

    def measure(self, condition: K, competitor: Competitor, repetition: int, setting: Setting) -> Cell:
        """Measures a server that is started for one cell alone."""
        if setting.congestion_control is not None:
            network.enter_own(setting.congestion_control)

        def measured(cell: Cell) -> Cell:
            with self.serving(condition, competitor, setting) as served:
                known = replace(cell, version=served.server.version)
                return attempted(known, lambda known: self.load(known, condition, setting, served))

        return attempted(self.cell(condition.name, competitor.name, repetition), measured)


def run_and_end(
    benchmark: Benchmark[K, S], asked: Asked, chosen: Sequence[K], everybody: Sequence[Competitor], console: Console
) -> NoReturn:
    """Measures the requested cells, prints them, writes the page if it is wanted, and ends."""
    setting = asked.setting(benchmark.documents, benchmark.site_bytes_max)
    repetitions = 1 if asked.quick else asked.repetitions
    about = describe(benchmark.program, setting, repetitions, console) | {"in_turn": asked.in_turn}
    record = Record(asked.output, about, resume=asked.resume, cell=benchmark.cell)
    if asked.in_turn:
        in_turn = InTurn(benchmark.serving, benchmark.load)
        complete = in_turn.measure(chosen, everybody, repetitions, setting, record, console)
    else:
        steps = plan(chosen, everybody, repetitions, asked.seed)
        complete = measure_all(steps, setting, record, benchmark.measure, console)
    outcome = benchmark.outcome(record, chosen, everybody, complete=complete)
    outcome.print(Console())
    for folder in filter(None, (asked.output, asked.docs)):
        console.print(f"page: {outcome.write(folder)}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def plan(
    chosen: Sequence[K], everybody: Sequence[Competitor], repetitions: int, seed: int
) -> list[tuple[K, Competitor, int]]:
    """Returns all cells of each repetition in a random order, so that no server always follows the same one."""
    steps: list[tuple[K, Competitor, int]] = []
    for repetition in range(repetitions):
        cells = [
            (condition, competitor, repetition)
            for condition in chosen
            for competitor in everybody
            if competitor.takes(condition) and not (condition.idle and repetition >= ONCE_REPETITIONS)
        ]
        steps += shuffled(cells, repetition, seed)
    return steps


def measure_all(
    steps: Sequence[tuple[K, Competitor, int]],
    setting: Setting,
    record: Record,
    measure: Callable[[K, Competitor, int, Setting], Cell],
    console: Console,
) -> bool:
    """Measures the cells that the record lacks; returns true if it reached the end."""
    missing = [step for step in steps if (step[0].name, step[1].name, step[2]) not in record.done]
    load_seconds = [setting.seconds_of(condition) for condition, _, _ in missing]
    with cores.keep_off_server_core(setting.cores), Progress(console, load_seconds) as progress:
        try:
            for condition, competitor, repetition in missing:
                progress.begin(f"{condition.name} {competitor.name}")
                cell = measure(condition, competitor, repetition, setting)
                record.add(cell)
                progress.done(cell)
        except KeyboardInterrupt:
            return False
    return True


def describe(program: str, setting: Setting, repetitions: int, console: Console) -> dict[str, Any]:
    """Describes the run for its page; a resumed run must match the description."""
    about = run.describe(program, console)
    return about | {
        "seed": setting.seed,
        "repetitions": repetitions,
        "duration_seconds": setting.duration_seconds,
        "warm_up_seconds": setting.warm_up_seconds,
        "congestion_control": about["environment"]["congestion_control"],
        "own_network": setting.congestion_control is not None,
        "cores": {"server": setting.cores.server, "generator": setting.cores.generator},
        "engine_modified": int(engine.path().stat().st_mtime),
    }
