"""`benchmarks/proxy/bench`: options to a plan, the plan to cells, cells to the page."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from benchmarks import entry
from benchmarks.proxy import conditions
from benchmarks.proxy.cell import Cell, measure
from benchmarks.proxy.contestants import contestants
from benchmarks.proxy.outcome import Outcome
from benchmarks.server import options, sitting
from benchmarks.server.contestants import ROOT, chosen, null_responder_path

BENCHMARK = sitting.Benchmark(
    program="benchmarks/proxy/bench",
    documents=conditions.documents(),
    site_bytes_max=10_000_000,
    measure=measure,
    outcome=Outcome,
    cell=Cell,
)
talk = Console(stderr=True)


def _bench(
    only: options.Only = None,
    proxies: Annotated[str | None, typer.Option(help="Proxies, in the same way.")] = None,
    repetitions: options.Repetitions = 3,
    duration: options.Duration = "2s",
    warm_up: options.WarmUp = "500ms",
    congestion_control: options.CongestionControl = "cubic",
    seed: options.Seed = 1,
    output: options.Output = ROOT / "runs" / Outcome.name,
    docs: options.Docs = None,
    resume: options.Resume = False,
    quick: options.Quick = False,
    list_all: Annotated[bool, typer.Option("--list", help="Name the conditions and proxies, and end.")] = False,
) -> None:
    """Measure our caching proxy's architectures beside other proxies and the null responder.

    Each cell is kept as it ends: Ctrl-C ends the run and writes the page of what there is; --resume goes on.

    Example: benchmarks/proxy/bench --only hit-* --proxies amped,nginx,varnish
    """
    if list_all:
        print("conditions:", *(each.name for each in conditions.CONDITIONS))
        print("proxies:", *(each.name for each in contestants()))
        return
    asked = options.Asked(repetitions, duration, warm_up, congestion_control, seed, output, docs, resume, quick)
    wanted, everybody = conditions.chosen(only), chosen(proxies, contestants())
    # It is the origin, whoever else takes part.
    null_responder_path()
    sitting.sit(BENCHMARK, asked, wanted, everybody, talk)


if __name__ == "__main__":
    entry.run(_bench)
