"""`benchmarks/memory/bench`: sizes to rounds, rounds to figures, figures to the page."""

from __future__ import annotations

import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine
from benchmarks.memory.page import Figure, judge, page
from benchmarks.memory.tools import MEBIBYTE, TOOLS, Tool
from benchmarks.server.busy import BUSY_FRACTION_MAX, busy_fraction
from sojourn import cores, environment, quantity
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.report import format

NAME = "memory-benchmark"
talk = Console(stderr=True)


def _bench(
    sizes: Annotated[str, typer.Option(help="Of each array, in whole MiB.")] = "1MiB,16MiB,64MiB,512MiB,1GiB",
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Rounds; each has every program once.")] = 5,
    seed: Annotated[int, typer.Option(help="The order within a round is drawn from this.")] = 1,
    output: Annotated[Path, typer.Option(help="The run's folder.")] = machine.ROOT / "runs" / NAME,
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
) -> None:
    """Measure copy bandwidth by ours, mbw and STREAM, on one core, in turn.

    Ctrl-C ends the run and writes the page of what there is.

    Example: benchmarks/memory/bench --sizes 32MiB --repetitions 3
    """
    array_bytes = [_size(text) for text in sizes.split(",")]
    core = cores.plan().generator
    run = _run(repetitions, seed, core)
    if run["busy_fraction"] > BUSY_FRACTION_MAX:
        talk.print(f"warning: other work uses {format.percent(run['busy_fraction'])} of this machine")
    figures: list[Figure] = []
    complete = True
    output.mkdir(parents=True, exist_ok=True)
    with (output / "figures.jsonl").open("w") as file:
        file.write(json.dumps(run) + "\n")
        try:
            for tool, size in _plan(array_bytes, repetitions, seed):
                figure = _measure(tool, size, core)
                figures.append(figure)
                file.write(json.dumps(figure.as_json()) + "\n")
                file.flush()
                said = figure.trouble or ", ".join(
                    f"{name} {max(rates) / 1e9:.2f}" for name, rates in figure.rates.items()
                )
                talk.print(f"{tool.name}, {format.size(size)}: {said}", highlight=False)
        except KeyboardInterrupt:
            complete = False
    for verdict in judge(figures):
        print(verdict.line())
    for folder in filter(None, (output, docs)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_text(page(run, figures, complete=complete))
        talk.print(f"page: {folder / f'{NAME}.md'}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def _plan(sizes: list[int], repetitions: int, seed: int) -> list[tuple[Tool, int]]:
    """Round after round, so that a disturbance spoils one round of all and not all of one."""
    plan: list[tuple[Tool, int]] = []
    for repetition in range(repetitions):
        steps = [(tool, size) for tool in TOOLS for size in sizes]
        Random(f"{seed} {repetition}").shuffle(steps)
        plan += steps
    return plan


def _measure(tool: Tool, size: int, core: int | None) -> Figure:
    try:
        return Figure(tool.name, size, tool.run(size, core))
    except CouldNotRun as error:
        return Figure(tool.name, size, {}, error.what)


def _size(text: str) -> int:
    size = quantity.size_bytes(text)
    if size < MEBIBYTE or size % MEBIBYTE:
        raise CouldNotRun(f"an array of {text} is not whole MiB", "mbw takes no others")
    return size


def _run(repetitions: int, seed: int, core: int | None) -> dict[str, Any]:
    return {
        "revision": machine.revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["benchmarks/memory/bench", *sys.argv[1:]]),
        "seed": seed,
        "repetitions": repetitions,
        "core": core,
        "busy_fraction": busy_fraction(),
        "environment": environment.describe(),
    }


if __name__ == "__main__":
    entry.run(_bench)
