"""`benchmarks/server/bench`: options to a plan, the plan to cells, cells to the page."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from benchmarks import entry
from benchmarks.server import conditions, contestants, options, sitting
from benchmarks.server.cell import measure
from benchmarks.server.contestants import ROOT
from benchmarks.server.outcome import Outcome

BENCHMARK = sitting.Benchmark(
    program="benchmarks/server/bench",
    documents=conditions.documents(),
    site_bytes_max=100_000_000,
    measure=measure,
    outcome=Outcome,
)
talk = Console(stderr=True)


def _bench(
    only: options.Only = None,
    servers: Annotated[str | None, typer.Option(help="Servers, in the same way.")] = None,
    repetitions: options.Repetitions = 3,
    duration: options.Duration = "2s",
    warm_up: options.WarmUp = "500ms",
    congestion_control: options.CongestionControl = "cubic",
    seed: options.Seed = 1,
    output: options.Output = ROOT / "runs" / Outcome.name,
    docs: options.Docs = None,
    resume: options.Resume = False,
    quick: options.Quick = False,
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
    asked = options.Asked(repetitions, duration, warm_up, congestion_control, seed, output, docs, resume, quick)
    sitting.sit(BENCHMARK, asked, conditions.chosen(only), contestants.chosen(servers), talk)


if __name__ == "__main__":
    entry.run(_bench)
