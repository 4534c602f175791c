"""`benchmarks/probe/bench`: starts the servers, measures their cells, and writes the page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import command_line, machine, run
from benchmarks.command_line import Docs, Duration, Output, Repetitions, Seed
from benchmarks.probe.cell import SATURATED, STEADY, TIME_WAIT, Agreement, Cell, Load, Setting, agreement, cost, load
from benchmarks.probe.ended import make_enough
from benchmarks.probe.page import judge, page
from benchmarks.probe.variants import COMPARED, VARIANTS, Variant
from benchmarks.server import competitors, conditions
from sojourn.engine.description import default_architecture
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.systems import Launch, Running
from sojourn.text import format, quantity

NAME = "probe-benchmark"
QUICK_SECONDS = 0.5
DETAILED_REPETITIONS = 3
"""Only these repetitions measure each group alone, and compare CPU time with perf stat: that varies little."""
FORKING = "fork"
"""The architecture whose children live for one connection: their time must be found after they have ended."""
FORKED = (Load("steady", "close", 1 / 8), Load("saturated", "close", None))
"""The steady rate is an eighth, because a process per connection costs that much more than a request."""
talk = Console(stderr=True)


def _bench(
    servers: Annotated[
        str | None, typer.Option(help="Comma-separated, * allowed (default: our default architecture and nginx).")
    ] = None,
    repetitions: Repetitions = 9,
    duration: Duration = "1500ms",
    rate: Annotated[
        float, typer.Option(min=1, help="Requests per second: steady, and well below what they can.")
    ] = 8000,
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
    docs: Docs = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two repetitions of half a second: does it run.")] = False,
) -> None:
    """Measure what the probe costs a server, and compare its CPU time with perf stat's.

    Each cell is saved when it ends: Ctrl-C ends the run and writes the page of the cells so far.

    Example: benchmarks/probe/bench --repetitions 5 --servers nginx
    """
    chosen = competitors.chosen(servers or f"{default_architecture()},{competitors.REFERENCE}")
    seconds = QUICK_SECONDS if quick else quantity.seconds(duration)
    setting = Setting(run.small_site(output / "site"), machine.two_cores(), seed, rate, seconds)
    repetitions = 2 if quick else repetitions
    about = _about(setting, repetitions)
    measured = _cells(chosen, setting, repetitions)
    with cores.keep_off_server_core(setting.cores):
        cells, complete = run.keep(measured, about, output / "cells.jsonl", talk, lambda _, cell: _said(cell))
    for verdict in judge(cells):
        print(verdict.line())
    run.finish(NAME, page(about, cells, complete=complete), (output, docs), complete=complete, console=talk)


def _cells(chosen: list[competitors.Competitor], setting: Setting, repetitions: int) -> Iterator[Cell | Agreement]:
    """Measures a repetition: starts the server anew and observes it in every way, in a random order.

    The kernel remembers ended connections for longer than a repetition takes, so the cells among them come last.
    """
    forking = competitors.chosen(FORKING)[0]
    for repetition in range(repetitions):
        random = Random(f"{setting.seed} {repetition}")
        is_detailed = repetition < DETAILED_REPETITIONS
        for who in random.sample(chosen, len(chosen)):
            with _started(who, setting) as server:
                for how in (STEADY, SATURATED):
                    # The cost of a single group shows best if the server never sleeps.
                    every = VARIANTS if is_detailed and how is SATURATED else COMPARED
                    for variant in _shuffled(every, random):
                        yield cost(server, who.name, how, variant, repetition, setting)
                    if is_detailed:
                        yield agreement(server, who.name, how, repetition, setting)
        if is_detailed:
            with _started(forking, setting) as server:
                for how in FORKED:
                    yield agreement(server, forking.name, how, repetition, setting)
    for repetition in range(repetitions):
        random = Random(f"{setting.seed} time-wait {repetition}")
        for who in random.sample(chosen, len(chosen)):
            with _started(who, setting) as server:
                yield from _time_wait(server, who.name, repetition, random, setting)


def _time_wait(server: Running, who: str, repetition: int, random: Random, setting: Setting) -> Iterator[Cell]:
    for variant in _shuffled(COMPARED, random):
        try:
            make_enough()
        except CouldNotRun as error:
            yield Cell(who, TIME_WAIT.name, variant.name, repetition, trouble=error.what)
        else:
            yield cost(server, who, TIME_WAIT, variant, repetition, setting)


def _shuffled(variants: Sequence[Variant], random: Random) -> list[Variant]:
    return random.sample(variants, len(variants))


@contextmanager
def _started(who: competitors.Competitor, setting: Setting) -> Iterator[Running]:
    condition = conditions.Condition("", "", "500B")
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as work:
        # The workers of peers may run as other users.
        Path(work).chmod(0o755)
        with who.start(Launch(setting.site, Path(work), setting.cores.server, "", False), condition) as server:
            # The cells show how it keeps up.
            with suppress(CouldNotRun):
                load(server, setting)
            yield server


def _said(cell: Cell | Agreement) -> str:
    if isinstance(cell, Cell):
        what, figure = f"{cell.load}, {cell.variant}", cell.cpu_seconds_per_request
    else:
        what, figure = f"{cell.load}, perf stat", cell.perf_stat_seconds_per_request
    return f"{cell.repetition + 1}: {cell.server}, {what}: {cell.trouble or f'{format.seconds(figure)}/request'}"


def _about(setting: Setting, repetitions: int) -> dict[str, Any]:
    return run.describe("benchmarks/probe/bench", talk) | {
        "seed": setting.seed,
        "rate": setting.rate,
        "repetitions": repetitions,
        "detailed_repetitions": DETAILED_REPETITIONS,
        "duration_seconds": setting.duration_seconds,
        "cores": {"server": setting.cores.server, "generator": setting.cores.generator},
    }


if __name__ == "__main__":
    command_line.run(_bench)
