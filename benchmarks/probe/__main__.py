"""`benchmarks/probe/bench`: options to servers, servers to cells, cells to the page."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine
from benchmarks.probe.cell import CROWDED, SATURATED, STEADY, Agreement, Cell, Load, Setting, agreement, cost, load
from benchmarks.probe.ended import make_enough
from benchmarks.probe.page import judge, page
from benchmarks.probe.variants import COMPARED, VARIANTS, Variant
from benchmarks.server import conditions, contestants
from benchmarks.server.busy import BUSY_FRACTION_MAX, busy_fraction
from sojourn import cores, environment, quantity, site
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.report import format
from sojourn.systems import Launch, Running
from sojourn.systems.ours import architectures

NAME = "probe-benchmark"
QUICK_SECONDS = 0.5
DETAILED_REPETITIONS = 3
"""In the first of them each group is measured alone, and the CPU time beside perf stat: that spreads little."""
SITE_BYTES_MAX = 1_000_000
FORKING = "fork"
"""The architecture whose children live for a connection: their time has to be found after they have ended."""
FORKED = (Load("steady", "close", 1 / 8), Load("saturated", "close", None))
"""A process per connection costs so much more than a request."""
talk = Console(stderr=True)


def _bench(
    servers: Annotated[
        str | None, typer.Option(help="Comma-separated, * allowed [default: our default architecture and nginx].")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, max=1000, help="How often each way is measured.")] = 9,
    duration: Annotated[str, typer.Option(help="How long each cell is measured.")] = "1500ms",
    rate: Annotated[
        float, typer.Option(min=1, help="Requests per second: steady, and well below what they can.")
    ] = 8000,
    seed: Annotated[int, typer.Option(help="The order of cells is drawn from this.")] = 1,
    output: Annotated[Path, typer.Option(help="The run's folder.")] = machine.ROOT / "runs" / NAME,
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two repetitions of half a second: does it run.")] = False,
) -> None:
    """Measure what being probed costs a server, and our CPU time beside perf stat's.

    Each cell is kept as it ends: Ctrl-C ends the run and writes the page of what there is.

    Example: benchmarks/probe/bench --repetitions 5 --servers nginx
    """
    chosen = contestants.chosen(servers or f"{architectures().default},{contestants.REFERENCE}")
    setting = Setting(
        _site(output), machine.two_cores(), seed, rate, QUICK_SECONDS if quick else quantity.seconds(duration)
    )
    run = _run(setting, 2 if quick else repetitions)
    if run["busy_fraction"] > BUSY_FRACTION_MAX:
        talk.print(f"warning: other work uses {format.percent(run['busy_fraction'])} of this machine")
    cells: list[Cell | Agreement] = []
    complete = True
    with (output / "cells.jsonl").open("w") as file, cores.keep_off_server_core(setting.cores):
        file.write(json.dumps(run) + "\n")
        try:
            for cell in _cells(chosen, setting, run["repetitions"]):
                cells.append(cell)
                file.write(json.dumps(cell.as_json()) + "\n")
                file.flush()
                talk.print(_said(cell), highlight=False)
        except KeyboardInterrupt:
            complete = False
    for verdict in judge(cells):
        print(verdict.line())
    for folder in filter(None, (output, docs)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_text(page(run, cells, complete=complete))
        talk.print(f"page: {folder / f'{NAME}.md'}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def _cells(chosen: list[contestants.Contestant], setting: Setting, repetitions: int) -> Iterator[Cell | Agreement]:
    """A repetition is a server started anew and observed in every way, in an order of its own.

    Ended connections are remembered for longer than a repetition takes, so what is measured among them comes last.
    """
    forking = contestants.chosen(FORKING)[0]
    for repetition in range(repetitions):
        random = Random(f"{setting.seed} {repetition}")
        is_detailed = repetition < DETAILED_REPETITIONS
        for who in random.sample(chosen, len(chosen)):
            with _started(who, setting) as server:
                for how in (STEADY, SATURATED):
                    # What a group alone costs shows best where the server is always awake.
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
        random = Random(f"{setting.seed} crowded {repetition}")
        for who in random.sample(chosen, len(chosen)):
            with _started(who, setting) as server:
                yield from _crowded(server, who.name, repetition, random, setting)


def _crowded(server: Running, who: str, repetition: int, random: Random, setting: Setting) -> Iterator[Cell]:
    for variant in _shuffled(COMPARED, random):
        try:
            make_enough()
        except CouldNotRun as error:
            yield Cell(who, CROWDED.name, variant.name, repetition, trouble=error.what)
        else:
            yield cost(server, who, CROWDED, variant, repetition, setting)


def _shuffled(variants: Sequence[Variant], random: Random) -> list[Variant]:
    return random.sample(variants, len(variants))


@contextmanager
def _started(who: contestants.Contestant, setting: Setting) -> Iterator[Running]:
    condition = conditions.Condition("", "", "500B")
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as work:
        # Peers' workers may be other users.
        Path(work).chmod(0o755)
        with who.start(Launch(setting.site, Path(work), setting.cores.server, "", False), condition) as server:
            # How it keeps up shows in the cells.
            with suppress(CouldNotRun):
                load(server, setting)
            yield server


def _said(cell: Cell | Agreement) -> str:
    if isinstance(cell, Cell):
        what, figure = f"{cell.load}, {cell.variant}", cell.cpu_seconds_per_request
    else:
        what, figure = f"{cell.load}, perf stat", cell.perf_stat_seconds_per_request
    return f"{cell.repetition + 1}: {cell.server}, {what}: {cell.trouble or f'{format.seconds(figure)}/request'}"


def _site(output: Path) -> Path:
    folder = output / "site"
    site.build(folder, [("/500B", 500)], SITE_BYTES_MAX)
    return folder


def _run(setting: Setting, repetitions: int) -> dict[str, Any]:
    return {
        "revision": machine.revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["benchmarks/probe/bench", *sys.argv[1:]]),
        "seed": setting.seed,
        "rate": setting.rate,
        "repetitions": repetitions,
        "detailed_repetitions": DETAILED_REPETITIONS,
        "duration_seconds": setting.duration_seconds,
        "busy_fraction": busy_fraction(),
        "cores": {"server": setting.cores.server, "generator": setting.cores.generator},
        "environment": environment.describe(),
    }


if __name__ == "__main__":
    entry.run(_bench)
