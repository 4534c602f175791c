"""`benchmarks/assessment/bench`: kinds of other work to assessments, assessments to the page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine, run
from benchmarks.assessment.burner import KINDS, Kind, burning
from benchmarks.assessment.page import Run, judge, page
from benchmarks.order import shuffled
from benchmarks.selection import chosen
from sojourn.assessment.held_out import distances
from sojourn.assessment.summary import Summary, read_summary
from sojourn.results.run_folder import RunFolder

NAME = "assessment-benchmark"
talk = Console(stderr=True)


def _bench(
    kinds: Annotated[
        str | None, typer.Option(help=f"Comma-separated, * allowed: {', '.join(kind.name for kind in KINDS)}.")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, max=1000, help="Assessments beside each kind.")] = 10,
    effort: Annotated[str, typer.Option(help="Of each assessment.")] = "quick",
    log: Annotated[Path | None, typer.Option(help="The log to assess [default: the example log].")] = None,
    server: Annotated[str, typer.Option(help="The system under test.")] = "sojourn",
    seed: Annotated[int, typer.Option(help="The order is drawn from this.")] = 1,
    output: Annotated[Path, typer.Option(help="The run's folder.")] = machine.ROOT / "runs" / NAME,
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
) -> None:
    """Assess the same log again and again, on a quiet machine and beside other work, and compare the answers.

    Each answer is kept as it comes: Ctrl-C ends the run and writes the page of what there is.

    Example: benchmarks/assessment/bench --kinds 'quiet,bursts' --repetitions 3
    """
    selected = chosen(kinds, KINDS, "kind of work")
    output.mkdir(parents=True, exist_ok=True)
    if log is None:
        log = output / "example.log"
        _sojourn("example-log", str(log))
    about = run.describe(NAME, talk) | {"repetitions": repetitions, "seed": seed, "effort": effort}
    command = ["assess", str(log), "--effort", effort, "--server", server, "--format", "json"]
    answers = _answers(selected, repetitions, seed, command, output)
    runs, complete = run.keep(answers, about, output / "answers.jsonl", talk, _said)
    for verdict in judge(runs):
        print(verdict.line())
    run.finish(NAME, page(about, runs, complete=complete), (output, docs), complete=complete, console=talk)


def _answers(kinds: Sequence[Kind], repetitions: int, seed: int, command: list[str], output: Path) -> Iterator[Run]:
    cores = machine.two_cores()
    for repetition in range(repetitions):
        for kind in shuffled(kinds, repetition, seed):
            folder = output / f"{kind.name.replace(' ', '-')}-{repetition + 1}"
            with burning(kind, cores, output):
                _sojourn(*command, "--output", str(folder))
            yield _run(kind.name, repetition, read_summary(RunFolder.open(folder)))


def _sojourn(*options: str) -> None:
    """Runs the installed command; one that could not answer has still written its summary."""
    command = [str(Path(sys.executable).with_name("sojourn")), *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _run(kind: str, repetition: int, summary: Summary) -> Run:
    answer = summary.answer
    found = distances(summary) if summary.model else [None] * 3
    errors = [None if each is None else abs(each.error) for each in found]
    return Run(
        kind=kind,
        repetition=repetition,
        rate=answer.largest_rate_requests_per_second if answer else None,
        low=answer.low_requests_per_second if answer else None,
        high=answer.high_requests_per_second if answer else None,
        is_lower_bound=bool(answer and answer.is_lower_bound),
        bottleneck=answer.bottleneck if answer else None,
        because=answer.bottleneck_because if answer else summary.incomplete_because or "",
        highest_measured=max((step.requests_per_second.maximum for step in summary.steps), default=0.0),
        held_out_throughput=errors[0],
        held_out_mean=errors[1],
        held_out_p95=errors[2],
        withheld=[each.figure for each in answer.withheld] if answer else [],
    )


def _said(number: int, found: Run) -> str:
    said: dict[str, Any] = found.as_json()
    return f"{number}: {json.dumps({key: said[key] for key in ('kind', 'rate', 'low', 'high', 'bottleneck')})}"


if __name__ == "__main__":
    entry.run(_bench)
