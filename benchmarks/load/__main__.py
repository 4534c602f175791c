"""`benchmarks/load/bench`: options to a plan, the plan to cells, cells to the page."""

from __future__ import annotations

import json
import resource
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine
from benchmarks.load import conditions, generators
from benchmarks.load.cell import Cell, Setting, measure
from benchmarks.load.conditions import Condition
from benchmarks.load.generators import ROOT, Generator
from benchmarks.load.page import judge, page, tables
from benchmarks.server.busy import BUSY_FRACTION_MAX, busy_fraction
from sojourn import cores, environment, quantity, site
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES
from sojourn.report import format

NAME = "load-benchmark"
QUICK_DURATION_SECONDS = 1.0
"""Some generators take whole seconds only."""
DESCRIPTORS_SPARE = 64
SITE_BYTES_MAX = 1_000_000
talk = Console(stderr=True)

Step = tuple[Condition, Generator, int]


def _bench(
    only: Annotated[str | None, typer.Option(help="Conditions, comma-separated, * allowed; --list shows all.")] = None,
    who: Annotated[str | None, typer.Option("--generators", help="Generators, in the same way.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="How often each cell is measured.")] = 5,
    duration: Annotated[str, typer.Option(help="How long each cell is measured.")] = "3s",
    seed: Annotated[int, typer.Option(help="The order of cells is drawn from this.")] = 1,
    output: Annotated[Path, typer.Option(help="The run's folder.")] = ROOT / "runs" / NAME,
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One repetition of a second: does it run.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Name the conditions and generators, and end.")] = False,
) -> None:
    """Measure our load generator beside others, on the null responder.

    Each cell is kept as it ends: Ctrl-C ends the run and writes the page of what there is.

    Example: benchmarks/load/bench --only closed,open --generators sojourn,wrk --repetitions 3
    """
    if list_all:
        print("conditions:", *(each.name for each in conditions.CONDITIONS))
        print("generators:", *(each.name for each in generators.generators()))
        return
    chosen, everybody = conditions.chosen(only), generators.chosen(who)
    _raise_descriptors(generators.clients_of(chosen))
    setting = Setting(
        _site(output), machine.two_cores(), seed, QUICK_DURATION_SECONDS if quick else quantity.seconds(duration)
    )
    repetitions = 1 if quick else repetitions
    run = _run(setting, repetitions)
    if run["busy_fraction"] > BUSY_FRACTION_MAX:
        talk.print(f"warning: other work uses {format.percent(run['busy_fraction'])} of this machine")
    cells: list[Cell] = []
    complete = _measure_all(_plan(chosen, everybody, repetitions, seed), setting, run, cells, output)
    for verdict in judge(tables(cells)):
        if verdict.measured is not None:
            print(f"{verdict.what:48} {verdict.measured:7.2f} <= {verdict.bound:.2f} {verdict.word}")
    for folder in filter(None, (output, docs)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_text(page(run, cells, complete=complete))
        talk.print(f"page: {folder / f'{NAME}.md'}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def _plan(chosen: list[Condition], everybody: list[Generator], repetitions: int, seed: int) -> list[Step]:
    """Each repetition has all cells in an order of its own, so that no generator always follows another."""
    plan: list[Step] = []
    for repetition in range(repetitions):
        cells = [(where, who, repetition) for where in chosen for who in everybody if who.takes(where)]
        Random(f"{seed} {repetition}").shuffle(cells)
        plan += cells
    return plan


def _measure_all(plan: list[Step], setting: Setting, run: dict[str, Any], cells: list[Cell], output: Path) -> bool:
    """Measures the plan, and keeps each cell as it ends; answers whether it came to the end."""
    with (output / "cells.jsonl").open("w") as file, cores.keep_off_server_core(setting.cores):
        file.write(json.dumps(run) + "\n")
        try:
            for number, (condition, generator, repetition) in enumerate(plan, 1):
                cell = measure(condition, generator, repetition, setting)
                cells.append(cell)
                file.write(json.dumps(cell.as_json()) + "\n")
                file.flush()
                said = cell.trouble or f"{format.seconds(cell.cpu_seconds_per_request)}/request"
                talk.print(f"{number} of {len(plan)}: {condition.name} {generator.name}: {said}", highlight=False)
        except KeyboardInterrupt:
            return False
    return True


def _site(output: Path) -> Path:
    folder = output / "site"
    site.build(folder, [("/500B", 500)], SITE_BYTES_MAX)
    return folder


def _run(setting: Setting, repetitions: int) -> dict[str, Any]:
    return {
        "revision": machine.revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["benchmarks/load/bench", *sys.argv[1:]]),
        "seed": setting.seed,
        "repetitions": repetitions,
        "duration_seconds": setting.duration_seconds,
        "busy_fraction": busy_fraction(),
        "cores": {"server": setting.cores.server, "generator": setting.cores.generator},
        "environment": environment.describe(),
    }


def _raise_descriptors(clients: int) -> None:
    hard = machine.raise_descriptors()
    if hard != resource.RLIM_INFINITY and hard < clients + DESCRIPTORS_SPARE:
        talk.print(f"warning: {clients:,} clients need more than the {hard:,} descriptors that are allowed here")


if __name__ == "__main__":
    entry.run(_bench)
