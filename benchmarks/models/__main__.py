"""`benchmarks/models/bench`: plans the runs, measures them, and writes the page."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import command_line, machine
from benchmarks.command_line import Docs, Only, Output, Repetitions, Seed
from benchmarks.models import competitors
from benchmarks.models.answers import Answer, measure
from benchmarks.models.cases import Case, cases
from benchmarks.models.competitors import Competitor
from benchmarks.models.page import page
from benchmarks.models.plot import charts
from benchmarks.models.record import Record, Run
from benchmarks.models.targets import judge
from benchmarks.selection import shuffled
from sojourn.commands.progress import Stages
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.machine import environment
from sojourn.report.image import image

NAME = "models-benchmark"
QUICK_CASES = ("mm1", "lps-H2-4", "thesis-4", "closed-thesis")
NETWORK_SHARE = 3
"""A network gets this many times fewer jobs, because each visits several stations."""
talk = Console(stderr=True)

Step = tuple[Case, Competitor, int]


def _bench(
    only: Only = None,
    tools: Annotated[str | None, typer.Option(help="Competitors to measure, in the same way.")] = None,
    repetitions: Repetitions = 5,
    core: Annotated[int | None, typer.Option(help="The core to run on; the last one unless said.")] = None,
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
    docs: Docs = None,
    quick: Annotated[bool, typer.Option("--quick", help="Ours and the C loop alone, two short repetitions.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Name the cases, and end.")] = False,
) -> None:
    """Measure the models beside other tools: speed, and error against exact values.

    Each run is saved when it ends; Ctrl-C writes the page of the runs so far.

    Example: benchmarks/models/bench --only "lps-H2-*" --tools sojourn,ciw
    """
    if list_all:
        print(*(each.name for each in cases()))
        return
    if not quick:
        competitors.install_peers()
    everybody = [each for each in competitors.competitors(quick) if _matches(each.name, tools)]
    chosen = [each for each in cases() if _matches(each.name, only or (",".join(QUICK_CASES) if quick else None))]
    if not everybody or not chosen:
        raise CouldNotRun("nothing to measure", "see --list, and --help for the names")
    place = max(os.sched_getaffinity(0)) if core is None else core
    repetitions = 2 if quick else repetitions
    record = Record(output, _about(place, repetitions, seed, everybody))
    _pin(place)
    answers: list[Answer] = []
    with Stages(talk) as stages:
        complete = _run_all(_plan(chosen, everybody, repetitions, seed), record, seed, stages)
        if complete:
            stages.begin("exact answers")
            answers = measure(2 if quick else repetitions, any(each.is_peer for each in everybody))
    record.about["complete"] = complete
    _write(record, chosen, everybody, answers, [output, *filter(None, [docs])])
    for verdict in judge(record, answers):
        print(f"{verdict.name}: {verdict.measured} ({verdict.wanted}): {verdict.word.strip('*')}")
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def _pin(core: int) -> None:
    # Programs started from here on run on the same core.
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        raise CouldNotRun(f"cannot run on core {core}: {error.strerror}", "give another --core") from error


def _matches(name: str, patterns: str | None) -> bool:
    return patterns is None or any(fnmatch(name, pattern) for pattern in patterns.split(","))


def _plan(chosen: Sequence[Case], everybody: Sequence[Competitor], repetitions: int, seed: int) -> list[Step]:
    """Returns all cells of each repetition in a random order, so that no program always follows the same one."""
    plan: list[Step] = []
    for repetition in range(repetitions):
        cells = [(case, each, repetition) for case in chosen for each in everybody if each.takes(case)]
        plan += shuffled(cells, repetition, seed)
    return plan


def _run_all(plan: Sequence[Step], record: Record, seed: int, stages: Stages) -> bool:
    stages.begin("runs", len(plan))
    try:
        for index, (case, competitor, repetition) in enumerate(plan):
            stages.update(index, len(plan), f"{case.name} {competitor.name}")
            jobs = competitor.jobs // (NETWORK_SHARE if case.group == "network" else 1)
            figures = competitor.run(case, jobs, 1000 * seed + repetition)
            record.add(Run(case.name, competitor.name, repetition, **figures))
    except KeyboardInterrupt:
        return False
    stages.done(f"{len(plan)} runs")
    return True


def _write(
    record: Record,
    chosen: Sequence[Case],
    everybody: Sequence[Competitor],
    answers: Sequence[Answer],
    folders: Sequence[Path],
) -> None:
    drawn = [(chart, f"{NAME}-{chart.identifier}.svg") for chart in charts(record, chosen, everybody)]
    text = page(record, chosen, everybody, answers, [(chart.title, name) for chart, name in drawn])
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for chart, name in drawn:
            (folder / name).write_text(image(chart) + "\n")
        (folder / f"{NAME}.md").write_text(text)
        talk.print(f"page: {folder / NAME}.md", soft_wrap=True, highlight=False)


def _about(core: int, repetitions: int, seed: int, everybody: Sequence[Competitor]) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["benchmarks/models/bench", *_without_output(sys.argv[1:])]),
        "revision": machine.revision(),
        "core": core,
        "repetitions": repetitions,
        "seed": seed,
        "complete": False,
        "peers": competitors.versions() if any(each.is_peer for each in everybody) else {},
        "environment": environment.describe(),
    }


def _without_output(arguments: list[str]) -> list[str]:
    # The path of the output says nothing about how the runs were made.
    if "--output" not in arguments:
        return arguments
    place = arguments.index("--output")
    return arguments[:place] + arguments[place + 2 :]


if __name__ == "__main__":
    command_line.run(_bench)
