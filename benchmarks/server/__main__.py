"""`benchmarks/server/bench`: options to a plan, the plan to cells, cells to the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import entry, machine
from benchmarks.server import conditions, contestants, network, sitting
from benchmarks.server.cell import Setting, measure
from benchmarks.server.contestants import ROOT
from benchmarks.server.outcome import Outcome
from benchmarks.server.results import Record
from sojourn import quantity, site
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES

SYSTEM_CONGESTION_CONTROL = "system"
QUICK_DURATION_SECONDS = 0.1
SITE_BYTES_MAX = 100_000_000
PROGRAM = "benchmarks/server/bench"
talk = Console(stderr=True)


def _bench(
    only: Annotated[str | None, typer.Option(help="Conditions, comma-separated, * allowed; --list shows all.")] = None,
    servers: Annotated[str | None, typer.Option(help="Servers, in the same way.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="How often each cell is measured.")] = 3,
    duration: Annotated[str, typer.Option(help="How long each cell is measured.")] = "2s",
    warm_up: Annotated[str, typer.Option(help="How long each cell is loaded before.")] = "500ms",
    congestion_control: Annotated[
        str, typer.Option(help="Of all connections; `system` leaves it and the network as they are.")
    ] = "cubic",
    seed: Annotated[int, typer.Option(help="The order of cells is drawn from this.")] = 1,
    output: Annotated[Path, typer.Option(help="The run's folder.")] = ROOT / "runs" / "server-benchmark",
    docs: Annotated[Path | None, typer.Option(help="Also put the page and its plots here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the cells that the folder has already.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One repetition of a moment: does it run, not how fast.")
    ] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Name the conditions and servers, and end.")] = False,
) -> None:
    """Measure our server's architectures beside other servers and the null responder.

    Each cell is kept as it ends: Ctrl-C ends the run and writes the page of what there is; --resume goes on.

    Example: benchmarks/server/bench --only keep-alive-500B,close-* --servers amped,nginx,null-*
    """
    if list_all:
        print("conditions:", *(each.name for each in conditions.CONDITIONS))
        print("servers:", *(each.name for each in contestants.contestants()))
        return
    chosen = conditions.chosen(only)
    everybody = contestants.chosen(servers)
    control = None if congestion_control == SYSTEM_CONGESTION_CONTROL else congestion_control
    if control is not None:
        # Before anything is measured: whether it can be done, and so that what is described is this network.
        network.enter_own(control)
    machine.raise_descriptors()
    moment = QUICK_DURATION_SECONDS if quick else None
    setting = Setting(
        site=_site(output),
        cores=machine.two_cores(),
        seed=seed,
        duration_seconds=moment or quantity.seconds(duration),
        warm_up_seconds=moment or quantity.seconds(warm_up),
        congestion_control=control,
    )
    repetitions = 1 if quick else repetitions
    record = Record(output, sitting.describe(PROGRAM, setting, repetitions, talk), resume=resume)
    steps = sitting.plan(chosen, everybody, repetitions, seed)
    complete = sitting.measure_all(steps, setting, record, measure, talk)
    outcome = Outcome(record, chosen, everybody, complete=complete)
    outcome.print(Console())
    for each in filter(None, (output, docs)):
        talk.print(f"page: {outcome.write(each)}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def _site(output: Path) -> Path:
    folder = output / "site"
    site.build(folder, conditions.documents(), SITE_BYTES_MAX)
    return folder


if __name__ == "__main__":
    entry.run(_bench)
