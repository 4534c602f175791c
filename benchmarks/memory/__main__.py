"""`benchmarks/memory/bench`: sizes to rounds, rounds to figures, figures to the page."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from benchmarks import command_line, machine, run
from benchmarks.command_line import Docs, Output, Seed
from benchmarks.memory.page import Figure, judge, page
from benchmarks.memory.tools import MEBIBYTE, TOOLS, Tool
from benchmarks.selection import shuffled
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.text import format, quantity

NAME = "memory-benchmark"
talk = Console(stderr=True)


def _bench(
    sizes: Annotated[str, typer.Option(help="Of each array, in whole MiB.")] = "1MiB,16MiB,64MiB,512MiB,1GiB",
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Rounds; each has every program once.")] = 5,
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
    docs: Docs = None,
) -> None:
    """Measure copy bandwidth with ours, mbw and STREAM, on one core, in turn.

    Ctrl-C ends the run and writes the page of the rounds so far.

    Example: benchmarks/memory/bench --sizes 32MiB --repetitions 3
    """
    array_bytes = [_size(text) for text in sizes.split(",")]
    core = cores.plan().generator
    about = run.describe("benchmarks/memory/bench", talk) | {"seed": seed, "repetitions": repetitions, "core": core}
    measured = (_measure(tool, size, core) for tool, size in _plan(array_bytes, repetitions, seed))
    figures, complete = run.keep(measured, about, output / "figures.jsonl", talk, lambda _, figure: _said(figure))
    for verdict in judge(figures):
        print(verdict.line())
    run.finish(NAME, page(about, figures, complete=complete), (output, docs), complete=complete, console=talk)


def _plan(sizes: list[int], repetitions: int, seed: int) -> list[tuple[Tool, int]]:
    """Returns the runs round by round, so that a disturbance affects one round of every program."""
    plan: list[tuple[Tool, int]] = []
    for repetition in range(repetitions):
        plan += shuffled([(tool, size) for tool in TOOLS for size in sizes], repetition, seed)
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


def _said(figure: Figure) -> str:
    rates = ", ".join(f"{name} {max(rates) / 1e9:.2f}" for name, rates in figure.rates.items())
    return f"{figure.tool}, {format.size(figure.array_bytes)}: {figure.trouble or rates}"


if __name__ == "__main__":
    command_line.run(_bench)
