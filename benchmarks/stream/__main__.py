"""`benchmarks/stream/bench`: films, then cells in a drawn order, then the page."""

from __future__ import annotations

import json
import math
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine
from benchmarks.server.busy import BUSY_FRACTION_MAX, busy_fraction
from benchmarks.stream import cell
from benchmarks.stream.cell import Cell, Effort
from benchmarks.stream.contestants import CONTESTANTS, Contestant
from benchmarks.stream.page import page, said
from sojourn import environment, media
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.report import format

NAME = "stream-benchmark"
FULL = Effort(
    cost_clients=20,
    seconds=60,
    search_clients=100,
    search_seconds=30,
    search_budget_seconds=1800.0,
    precision=0.1,
)
QUICK = Effort(
    cost_clients=4,
    seconds=3,
    search_clients=8,
    search_seconds=2,
    search_budget_seconds=6.0,
    precision=0.5,
)
FILM_SECONDS = 300.0
SHORT_FILM_SECONDS = 30.0
STARTS_SECONDS = 12.0
"""What a cell needs beside its measurements: two starts of a server and of a probe, viewers that come and leave."""
COST_SHARE, SEARCH_SHARE = 0.25, 0.5
"""Of what is left of a cell's time. The rest is for the search's last run, which may be longer than all before it."""
COST_SECONDS_MIN = 3.0
"""In less time chance decides what a stream costs."""
_ALL = ",".join(each.name for each in CONTESTANTS)
talk = Console(stderr=True)


def _bench(
    rates: Annotated[str, typer.Option(help="Of the films.")] = "300k,2M",
    transports: Annotated[str, typer.Option(help="How packets come.")] = "udp,tcp",
    servers: Annotated[str, typer.Option(help="Which servers.")] = _ALL,
    seed: Annotated[int, typer.Option(help="The order of the cells is drawn from this.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Only try whether everything runs.")] = False,
    minutes: Annotated[float | None, typer.Option(help="Measure so shortly that all ends in about this time.")] = None,
    output: Annotated[Path, typer.Option(help="The run's folder.")] = machine.ROOT / "runs" / NAME,
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
) -> None:
    """Measure what a stream costs each server, and how many of them conform.

    Ctrl-C ends the run and writes the page of what there is.

    Examples: benchmarks/stream/bench --quick --servers gst-rtsp-server --rates 300k --transports udp;
    benchmarks/stream/bench --minutes 8
    """
    cores = machine.two_cores()
    machine.raise_descriptors()
    chosen = [_contestant(name) for name in servers.split(",")]
    output.mkdir(parents=True, exist_ok=True)
    cells_planned = len(chosen) * len(rates.split(",")) * len(transports.split(","))
    effort = QUICK if quick else FULL if minutes is None else within(minutes, cells_planned)
    film_seconds = FILM_SECONDS if effort is FULL else SHORT_FILM_SECONDS
    films = {rate: _film(output, rate, film_seconds) for rate in rates.split(",")}
    run = _run(seed, effort, quick)
    if run["busy_fraction"] > BUSY_FRACTION_MAX:
        talk.print(f"warning: other work uses {format.percent(run['busy_fraction'])} of this machine")
    plan = [(server, rate, transport) for server in chosen for rate in films for transport in transports.split(",")]
    Random(seed).shuffle(plan)
    cells: list[Cell] = []
    complete = True
    with (output / "cells.jsonl").open("w") as file:
        file.write(json.dumps(run) + "\n")
        try:
            for server, rate, transport in plan:
                measured = cell.measure(server, films[rate], rate, transport, effort, cores)
                cells.append(measured)
                file.write(json.dumps(measured.as_json()) + "\n")
                file.flush()
                talk.print(said(measured), highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            complete = False
    for folder in filter(None, (output, docs)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_text(page(run, cells, complete=complete))
        talk.print(f"page: {folder / f'{NAME}.md'}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def within(minutes: float, cells: int) -> Effort:
    """What fits into a time for so many cells.

    Raises:
        CouldNotRun: too little to measure anything.
    """
    left = 60 * minutes / cells - STARTS_SECONDS
    seconds = int(COST_SHARE * left)
    if seconds < COST_SECONDS_MIN:
        least = math.ceil(cells * (STARTS_SECONDS + COST_SECONDS_MIN / COST_SHARE) / 60)
        raise CouldNotRun(f"{minutes:g} minutes are too few for {cells} cells", f"--minutes {least}, or fewer cells")
    return Effort(
        cost_clients=FULL.cost_clients,
        seconds=seconds,
        search_clients=FULL.search_clients,
        search_seconds=min(FULL.search_seconds, seconds),
        search_budget_seconds=SEARCH_SHARE * left,
        precision=FULL.precision,
    )


def _contestant(name: str) -> Contestant:
    found = next((each for each in CONTESTANTS if each.name == name), None)
    if found is None:
        raise CouldNotRun(f"there is no server {name!r}", f"one of {', '.join(each.name for each in CONTESTANTS)}")
    return found


def _film(output: Path, rate: str, seconds: float) -> Path:
    """One film of a rate; made anew only where it is not there."""
    folder = output / "films" / f"{rate}-{seconds:g}s"
    media.make(media.Film(media.bits_per_second(rate), seconds, "h264"), folder, 1)
    return next(folder.glob("*.mp4"))


def _run(seed: int, effort: Effort, quick: bool) -> dict[str, Any]:
    return {
        "revision": machine.revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["benchmarks/stream/bench", *sys.argv[1:]]),
        "seed": seed,
        "quick": quick,
        "seconds": effort.seconds,
        "clients": effort.cost_clients,
        "search_seconds": effort.search_seconds,
        "busy_fraction": busy_fraction(),
        "environment": environment.describe(),
    }


if __name__ == "__main__":
    entry.run(_bench)
