"""The command line of the benchmarks of servers and of proxies: plans the cells, measures them, writes the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import typer
from rich.console import Console

from benchmarks import entry, machine, selection
from benchmarks.server import competitors, options, runner
from benchmarks.server.competitors import Competitor
from benchmarks.server.runner import Benchmark, K


@dataclass(frozen=True)
class Command(Generic[K]):
    """A benchmark, and what the command line may select of it."""

    benchmark: Benchmark[K]
    conditions: Sequence[K]
    everybody: Callable[[], Sequence[Competitor]]
    kind: str
    """The competitors' kind in the plural, which names the option that selects them."""
    example: str
    about: str
    check: Callable[[], object] = bool
    """Raises CouldNotRun if something is missing that every run needs."""

    def run(self) -> None:
        """Runs the benchmark as the command line says, and ends."""
        which = typer.Option(None, f"--{self.kind}", help=f"{self.kind.capitalize()}, in the same way.")
        lists = typer.Option(False, "--list", help=f"Name the conditions and {self.kind}, and end.")

        def bench(
            only: options.Only = None,
            who: str | None = which,
            repetitions: options.Repetitions = 3,
            duration: options.Duration = "2s",
            warm_up: options.WarmUp = "500ms",
            congestion_control: options.CongestionControl = "cubic",
            seed: options.Seed = 1,
            output: options.Output = machine.ROOT / "runs" / self.benchmark.outcome.name,
            docs: options.Docs = None,
            resume: options.Resume = False,
            quick: options.Quick = False,
            list_all: bool = lists,
        ) -> None:
            if list_all:
                print("conditions:", *(each.name for each in self.conditions))
                print(f"{self.kind}:", *(each.name for each in self.everybody()))
                return
            asked = options.Asked(repetitions, duration, warm_up, congestion_control, seed, output, docs, resume, quick)
            conditions = selection.chosen(only, self.conditions, "condition")
            everybody = competitors.chosen(who, self.everybody())
            self.check()
            runner.run_and_end(self.benchmark, asked, conditions, everybody, Console(stderr=True))

        bench.__doc__ = f"""{self.about}

        Each cell is kept as it ends: Ctrl-C ends the run and writes the page of what there is; --resume goes on.

        Example: {self.benchmark.program} {self.example}
        """
        entry.run(bench)
