"""The command line of the benchmarks of servers, proxies and gateways: plans and measures cells, writes the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import typer
from rich.console import Console

from benchmarks import command_line, machine, selection
from benchmarks.command_line import Docs, Duration, Only, Output, Repetitions, Seed
from benchmarks.server import competitors, options, runner
from benchmarks.server.competitors import Competitor
from benchmarks.server.in_turn import K
from benchmarks.server.runner import Benchmark
from sojourn.failure import CouldNotRun


@dataclass(frozen=True)
class Command(Generic[K]):
    """A benchmark, and what the command line may select of it."""

    benchmark: Benchmark[K, Any]
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
        which = typer.Option(None, f"--{self.kind}", help=f"{self.kind.capitalize()} to measure, in the same way.")
        lists = typer.Option(False, "--list", help=f"List the conditions and {self.kind}.")

        def bench(
            only: Only = None,
            who: str | None = which,
            repetitions: Repetitions = 3,
            duration: Duration = "2s",
            warm_up: options.WarmUp = "500ms",
            congestion_control: options.CongestionControl = "cubic",
            seed: Seed = 1,
            output: Output = machine.ROOT / "runs" / self.benchmark.outcome.name,
            docs: Docs = None,
            resume: options.Resume = False,
            quick: options.Quick = False,
            in_turn: options.InTurn = False,
            list_all: bool = lists,
        ) -> None:
            if list_all:
                print("conditions:", *(each.name for each in self.conditions))
                print(f"{self.kind}:", *(each.name for each in self.everybody()))
                return
            asked = options.Asked(
                repetitions, duration, warm_up, congestion_control, seed, output, docs, resume, quick, in_turn
            )
            if in_turn and resume:
                raise CouldNotRun(f"{self.benchmark.program} never goes on in turn", "leave --in-turn or --resume out")
            conditions = selection.chosen(only, self.conditions, "condition")
            if in_turn and not any(each.is_load for each in conditions):
                raise CouldNotRun("memory and starting are not measured in turn", "leave --in-turn out")
            everybody = competitors.chosen(who, self.everybody())
            self.check()
            runner.run_and_end(self.benchmark, asked, conditions, everybody, Console(stderr=True))

        bench.__doc__ = f"""{self.about}

        Each cell is saved when it ends. Ctrl-C ends the run and writes the page of the cells so far; --resume resumes.

        Example: {self.benchmark.program} {self.example}
        """
        command_line.run(bench)
