"""`benchmarks/assessment/bench`: assesses every subject beside every kind of other work, and writes the page."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import command_line, machine, run
from benchmarks.assessment.burner import KINDS, PAIRED, QUIET, Kind, burning
from benchmarks.assessment.page import Run, judge, page
from benchmarks.assessment.subjects import EXAMPLE, SUBJECTS, Subject, log_of
from benchmarks.command_line import Docs, Output, Seed
from benchmarks.kept_answers import Asked, asked_for, is_answer_to, mark
from benchmarks.selection import chosen, shuffled
from sojourn.assessment.held_out import distances
from sojourn.assessment.summary import Summary, read_summary
from sojourn.failure import CouldNotRun
from sojourn.results.run_folder import RunFolder

NAME = "assessment-benchmark"
talk = Console(stderr=True)


@dataclass(frozen=True)
class _Cell:
    subject: Subject
    kind: Kind
    repetition: int

    def folder(self, output: Path) -> Path:
        return output / f"{self.subject.name}-{self.kind.name}-{self.repetition + 1}".replace(" ", "-")


def _bench(
    subjects: Annotated[
        str | None,
        typer.Option(help=f"Comma-separated, * allowed: {', '.join(subject.name for subject in SUBJECTS)}."),
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(help=f"Comma-separated, * allowed: {', '.join(kind.name for kind in KINDS)}.")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, max=1000, help="Of each kind of other work.")] = 10,
    quiet_repetitions: Annotated[int, typer.Option(min=1, max=1000, help="Of each subject on a quiet machine.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Begin nothing that would end later; without it, all is done.")
    ] = None,
    effort: Annotated[str, typer.Option(help="Of assessments on a quiet machine.")] = "normal",
    beside_effort: Annotated[str, typer.Option(help="Of assessments beside other work.")] = "quick",
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
    docs: Docs = None,
) -> None:
    """Assess several logs and servers on a quiet machine, and the example log repeatedly beside other work.

    A full run takes about two hours. Each answer is saved at once: Ctrl-C ends the run and writes the page of the
    answers so far, and the same command continues. Real logs are taken from the folder SOJOURN_TRACES.

    Example: benchmarks/assessment/bench --subjects 'example log,nginx' --kinds quiet --repetitions 3
    """
    output.mkdir(parents=True, exist_ok=True)
    efforts = {kind.name: effort if kind == QUIET else beside_effort for kind in KINDS}
    found = list(_present(chosen(subjects, SUBJECTS, "subject"), output))
    wanted = chosen(kinds, KINDS, "kind of work")
    quiet = found if QUIET in wanted else []
    beside = [kind for kind in wanted if kind != QUIET] if EXAMPLE in found else []
    cells = [
        cell
        for repetition in range(max(repetitions, quiet_repetitions))
        for group in shuffled(
            [
                *([_Cell(subject, QUIET, repetition)] for subject in quiet if repetition < quiet_repetitions),
                *(_beside(kind, repetition) for kind in beside if repetition < repetitions),
            ],
            repetition,
            seed,
        )
        for cell in group
    ]
    about = run.describe(NAME, talk) | {
        "repetitions": repetitions,
        "quiet_repetitions": quiet_repetitions,
        "seed": seed,
        "efforts": efforts,
    }
    answers = _answers(cells, efforts, output, None if minutes is None else 60 * minutes)
    runs, complete = run.keep(answers, about, output / "answers.jsonl", talk, _said)
    for verdict in judge(runs):
        print(verdict.line())
    complete = complete and len(runs) == len(cells)
    run.finish(NAME, page(about, runs, complete=complete), (output, docs), complete=complete, console=talk)


def _present(subjects: Sequence[Subject], folder: Path) -> Iterator[Subject]:
    for subject in subjects:
        try:
            log_of(subject, folder)
        except CouldNotRun as failure:
            talk.print(f"left out: {failure.said}", highlight=False, soft_wrap=True)
        else:
            yield subject


def _beside(kind: Kind, repetition: int) -> list[_Cell]:
    """Returns the cells of a kind: two in a row for the pairs, otherwise one."""
    numbers = [2 * repetition, 2 * repetition + 1] if kind == PAIRED else [repetition]
    return [_Cell(EXAMPLE, kind, number) for number in numbers]


def _answers(cells: Sequence[_Cell], efforts: dict[str, str], output: Path, seconds: float | None) -> Iterator[Run]:
    """Puts answers that an earlier run has saved first: they take no time."""
    cores = machine.two_cores()
    started, longest = time.monotonic(), 0.0
    asked = {cell: asked_for(efforts[cell.kind.name]) for cell in cells}
    kept = {cell: summary for cell in cells if (summary := _kept(cell.folder(output), asked[cell])) is not None}
    yield from (_run(cell, summary) for cell, summary in kept.items())
    for cell in (each for each in cells if each not in kept):
        begun = time.monotonic()
        if seconds is not None and begun - started + longest > seconds:
            talk.print("the time is used up; the same command goes on")
            return
        folder = cell.folder(output)
        # An interrupted assessment is repeated.
        shutil.rmtree(folder, ignore_errors=True)
        options = [*cell.subject.options, "--effort", efforts[cell.kind.name], "--seed", str(cell.repetition + 1)]
        with burning(cell.kind, cores, output):
            _sojourn("assess", str(log_of(cell.subject, output)), *options, "--format", "json", "--output", str(folder))
        longest = max(longest, time.monotonic() - begun)
        if (folder / "summary.json").exists():
            mark(folder, asked[cell])
            yield _run(cell, read_summary(RunFolder.open(folder)))
        else:
            talk.print(f"no answer: {folder.name}", highlight=False)


def _kept(folder: Path, asked: Asked) -> Summary | None:
    """Returns the complete results of an earlier run that asked for the same of this revision."""
    if not is_answer_to(asked, folder):
        return None
    try:
        summary = read_summary(RunFolder.open(folder))
    except (CouldNotRun, OSError, ValueError):
        return None
    return summary if summary.complete else None


def _sojourn(*options: str) -> None:
    """Runs the installed command; without an answer it has still written its summary."""
    command = [str(Path(sys.executable).with_name("sojourn")), *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _run(cell: _Cell, summary: Summary) -> Run:
    answer = summary.answer
    found = distances(summary) if summary.model else [None] * 3
    errors = [None if each is None else abs(each.error) for each in found]
    return Run(
        subject=cell.subject.name,
        kind=cell.kind.name,
        repetition=cell.repetition,
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
        held_out_known_to=[each.known_to if each else 0.0 for each in found],
        withheld=[each.figure for each in answer.withheld] if answer else [],
    )


def _said(number: int, found: Run) -> str:
    said: dict[str, Any] = found.as_json()
    keys = ("subject", "kind", "rate", "low", "high", "bottleneck", "held_out_mean")
    return f"{number}: {json.dumps({key: said[key] for key in keys})}"


if __name__ == "__main__":
    command_line.run(_bench)
