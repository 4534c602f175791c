"""`benchmarks/load/bench`: options to a plan, the plan to cells, cells to the page."""

from __future__ import annotations

import resource
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import command_line, machine, run, selection
from benchmarks.command_line import Docs, Duration, Only, Output, Repetitions, Seed
from benchmarks.load import conditions, generators
from benchmarks.load.cell import Cell, Setting, measure
from benchmarks.load.conditions import Condition
from benchmarks.load.generators import Generator
from benchmarks.load.page import judge, page, tables
from benchmarks.selection import shuffled
from sojourn.machine import cores
from sojourn.text import format, quantity

NAME = "load-benchmark"
QUICK_DURATION_SECONDS = 1.0
"""Some generators accept only whole seconds."""
DESCRIPTORS_SPARE = 64
talk = Console(stderr=True)

Step = tuple[Condition, Generator, int]


def _bench(
    only: Only = None,
    who: Annotated[str | None, typer.Option("--generators", help="Generators to measure, in the same way.")] = None,
    repetitions: Repetitions = 5,
    duration: Duration = "3s",
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
    docs: Docs = None,
    quick: Annotated[bool, typer.Option("--quick", help="One repetition of a second: does it run.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Name the conditions and generators, and end.")] = False,
) -> None:
    """Measure our load generator beside others, on the null responder.

    Each cell is saved when it ends: Ctrl-C ends the run and writes the page of the cells so far.

    Example: benchmarks/load/bench --only closed,open --generators sojourn,wrk --repetitions 3
    """
    if list_all:
        print("conditions:", *(each.name for each in conditions.CONDITIONS))
        print("generators:", *(each.name for each in generators.generators()))
        return
    chosen = selection.chosen(only, conditions.CONDITIONS, "condition")
    everybody = selection.chosen(who, generators.generators(), "generator")
    _raise_descriptors(generators.clients_of(chosen))
    seconds = QUICK_DURATION_SECONDS if quick else quantity.seconds(duration)
    setting = Setting(run.small_site(output / "site"), machine.two_cores(), seed, seconds)
    repetitions = 1 if quick else repetitions
    about = _about(setting, repetitions)
    plan = _plan(chosen, everybody, repetitions, seed)
    measured = (measure(*step, setting) for step in plan)
    with cores.keep_off_server_core(setting.cores):
        cells, complete = run.keep(
            measured,
            about,
            output / "cells.jsonl",
            talk,
            lambda number, cell: f"{number} of {len(plan)}: {_said(cell)}",
        )
    for verdict in judge(tables(cells)):
        if verdict.measured is not None:
            print(f"{verdict.what:48} {verdict.measured:7.2f} <= {verdict.bound:.2f} {verdict.word}")
    run.finish(NAME, page(about, cells, complete=complete), (output, docs), complete=complete, console=talk)


def _plan(chosen: list[Condition], everybody: list[Generator], repetitions: int, seed: int) -> list[Step]:
    """Returns all cells of each repetition in a random order, so that no generator always follows the same one."""
    plan: list[Step] = []
    for repetition in range(repetitions):
        cells = [(where, who, repetition) for where in chosen for who in everybody if who.takes(where)]
        plan += shuffled(cells, repetition, seed)
    return plan


def _said(cell: Cell) -> str:
    cost = f"{format.seconds(cell.cpu_seconds_per_request)}/request"
    return f"{cell.condition} {cell.generator}: {cell.trouble or cost}"


def _about(setting: Setting, repetitions: int) -> dict[str, Any]:
    return run.describe("benchmarks/load/bench", talk) | {
        "seed": setting.seed,
        "repetitions": repetitions,
        "duration_seconds": setting.duration_seconds,
        "cores": {"server": setting.cores.server, "generator": setting.cores.generator},
    }


def _raise_descriptors(clients: int) -> None:
    hard = machine.raise_descriptors()
    if hard != resource.RLIM_INFINITY and hard < clients + DESCRIPTORS_SPARE:
        talk.print(f"warning: {clients:,} clients need more than the {hard:,} descriptors that are allowed here")


if __name__ == "__main__":
    command_line.run(_bench)
