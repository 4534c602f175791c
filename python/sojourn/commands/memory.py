"""`sojourn memory`: measures memory bandwidth over working set and stride."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from sojourn import interrupts
from sojourn.commands.formats import Format, FormatOption, show, talk
from sojourn.commands.progress import Stages
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.memory.characterisation import Request, characterise
from sojourn.memory.grid import KERNELS, grid
from sojourn.report.memory.page import prepare, write
from sojourn.report.memory.terminal import print_characterisation
from sojourn.text import quantity


def register(app: typer.Typer) -> None:
    app.command("memory")(_memory)


def _memory(
    kernel: Annotated[
        list[str] | None, typer.Option(help=f"The operations on words: {', '.join(KERNELS)} [default: all].")
    ] = None,
    density: Annotated[
        Literal["quick", "normal", "fine"],
        typer.Option(help="quick: seconds, up to 64 MiB; normal: minutes, up to 1 GiB; fine: twice the working sets."),
    ] = "normal",
    smallest: Annotated[str | None, typer.Option("--from", help="The smallest working set [default: 512B].")] = None,
    largest: Annotated[
        str | None, typer.Option("--to", help="The largest working set [default: 1GiB; quick 64MiB].")
    ] = None,
    strides: Annotated[
        str | None, typer.Option(help="Strides in words of 8 bytes, such as 1,8,64 [default: up to 192, by --density].")
    ] = None,
    cores: Annotated[str, typer.Option(help="Numbers of simultaneous cores: 1, or 1,2, or 1,all.")] = "1",
    core: Annotated[int | None, typer.Option(help="The first core to use [default: the last core].")] = None,
    huge_pages: Annotated[
        Literal["off", "on", "both"], typer.Option(help="Ask the kernel for transparent huge pages.")
    ] = "off",
    latency: Annotated[bool, typer.Option(help="Also measure latency by pointer chasing.")] = True,
    repetitions: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Repetitions of every point [default: 5; quick 3].")
    ] = None,
    measure: Annotated[str, typer.Option(help="The duration of each measurement.")] = "10ms",
    seed: Annotated[int, typer.Option(min=0, help="Seed for the order of points and the pointer chain.")] = 1,
    output: Annotated[Path | None, typer.Option(help="Write a folder: report.html, memory.json, Parquet, SVG.")] = None,
    output_format: FormatOption = Format.text,
) -> None:
    """Measure memory bandwidth over working set and stride, and latency: the extended copy transfer (ECT) method.

    The working set tells how much a cache must hold (temporal locality), the stride how much of a cache line is used
    at once (spatial locality). Each walk touches every word of the working set once. Bandwidth is the sum over the
    cores; a copied byte counts once, and source and destination of a copy together make up its working set. Run it on
    an idle machine: a measurement during which other programs used the core is repeated, and counted if repetition
    does not help.

    Example: sojourn memory --density quick --cores 1,all --output runs/memory
    """
    unknown = [name for name in kernel or [] if name not in KERNELS]
    if unknown:
        raise CouldNotRun(f"there is no kernel {unknown[0]!r}", f"use {', '.join(KERNELS)}")
    chosen = grid(
        density,
        None if smallest is None else quantity.size_bytes(smallest),
        None if largest is None else quantity.size_bytes(largest),
        None if strides is None else _integers(strides, "strides"),
        repetitions,
    )
    request = Request(
        kernels=kernel or list(KERNELS),
        cores=_core_counts(cores),
        first_core=core,
        huge_pages=["off", "on"] if huge_pages == "both" else [huge_pages],
        latency=latency,
        measure=measure,
        seed=seed,
    )
    folder = prepare(output) if output else None
    with interrupts.held(to_the_end=True):
        with Stages(talk, quiet=output_format is Format.json) as stages:
            stages.begin("memory", 1.0)
            found = characterise(chosen, request, stages.update)
            stages.done(f"{len(found.points) + len(found.latencies):,} points")
        page = write(folder, found) if folder else None
        show(output_format, found.as_json, lambda console: print_characterisation(found, console), page)
    if not found.complete:
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _core_counts(text: str) -> tuple[int, ...]:
    usable = len(os.sched_getaffinity(0))
    return tuple(dict.fromkeys(_integers(text.replace("all", str(usable)), "cores")))


def _integers(text: str, what: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CouldNotRun(f"--{what} {text!r} is not a list of whole numbers", "write it as in 1,8,64") from None
