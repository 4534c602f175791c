"""`benchmarks/server/bench`: options to a plan, the plan to cells, cells to the page."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine
from benchmarks.server import conditions, contestants, network
from benchmarks.server.busy import BUSY_FRACTION_MAX, busy_fraction
from benchmarks.server.cell import Setting, measure
from benchmarks.server.conditions import Condition
from benchmarks.server.contestants import ROOT, Contestant
from benchmarks.server.outcome import Outcome
from benchmarks.server.progress import Progress
from benchmarks.server.results import Record
from sojourn import cores, engine, environment, quantity, site
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES
from sojourn.report import format

SYSTEM_CONGESTION_CONTROL = "system"
QUICK_DURATION_SECONDS = 0.1
IDLE_REPETITIONS = 1
"""Memory does not vary from one start to the next."""
SITE_BYTES_MAX = 100_000_000
talk = Console(stderr=True)

Step = tuple[Condition, Contestant, int]


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
    record = Record(output, _run(setting, repetitions), resume=resume)
    if record.run["busy_fraction"] > BUSY_FRACTION_MAX:
        talk.print(f"warning: other work uses {format.percent(record.run['busy_fraction'])} of this machine")
    complete = _measure_all(_plan(chosen, everybody, repetitions, seed), setting, record)
    outcome = Outcome(record, chosen, everybody, complete=complete)
    outcome.print(Console())
    for each in filter(None, (output, docs)):
        talk.print(f"page: {outcome.write(each)}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def _site(output: Path) -> Path:
    folder = output / "site"
    site.build(folder, conditions.documents(), SITE_BYTES_MAX)
    return folder


def _plan(chosen: list[Condition], everybody: list[Contestant], repetitions: int, seed: int) -> list[Step]:
    """Each repetition has all cells in an order of its own, so that no server always follows another."""
    plan: list[Step] = []
    for repetition in range(repetitions):
        cells = [
            (condition, contestant, repetition)
            for condition in chosen
            for contestant in everybody
            if contestant.takes(condition) and not (condition.idle and repetition >= IDLE_REPETITIONS)
        ]
        Random(f"{seed} {repetition}").shuffle(cells)
        plan += cells
    return plan


def _measure_all(plan: list[Step], setting: Setting, record: Record) -> bool:
    """Measures what the record lacks; answers whether it came to the end."""
    missing = [step for step in plan if (step[0].name, step[1].name, step[2]) not in record.done]
    load_seconds = [setting.seconds_of(condition) for condition, _, _ in missing]
    with cores.keep_off_server_core(setting.cores), Progress(talk, load_seconds) as progress:
        try:
            for condition, contestant, repetition in missing:
                progress.begin(f"{condition.name} {contestant.name}")
                cell = measure(condition, contestant, repetition, setting)
                record.add(cell)
                progress.done(cell)
        except KeyboardInterrupt:
            return False
    return True


def _run(setting: Setting, repetitions: int) -> dict[str, Any]:
    described = environment.describe()
    return {
        "revision": machine.revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["benchmarks/server/bench", *sys.argv[1:]]),
        "seed": setting.seed,
        "repetitions": repetitions,
        "duration_seconds": setting.duration_seconds,
        "warm_up_seconds": setting.warm_up_seconds,
        "congestion_control": described["congestion_control"],
        "own_network": setting.congestion_control is not None,
        "busy_fraction": busy_fraction(),
        "cores": {"server": setting.cores.server, "generator": setting.cores.generator},
        "engine_modified": int(engine.path().stat().st_mtime),
        "environment": described,
    }


if __name__ == "__main__":
    entry.run(_bench)
