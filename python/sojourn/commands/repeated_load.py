"""`sojourn load --repeat`: runs the load several times, alternating with another server or against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from sojourn.commands import engine_run
from sojourn.commands.run_options import RunOptions
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.loading import folder as load_folder
from sojourn.loading import metrics, repetition
from sojourn.loading.comparison import Comparison, Group, compare, read_group, regressions
from sojourn.loading.repetition import Turn
from sojourn.loading.result import LoadResult
from sojourn.loading.steps import with_saturation

SIDES = ("first", "second")
"""Folder names of the two servers' runs, which `sojourn compare` takes as its groups."""
ONE_SERVER = ("--observe-pid", "--observe-core")
"""Engine options that name a server's process or core."""


@dataclass(frozen=True)
class Repeat:
    """The requested repetitions."""

    times: int
    against: str | None
    baseline: str | None
    max_regression: str | None


def run(words: Sequence[str], wanted: RunOptions, repeat: Repeat) -> None:
    """Runs all repetitions and prints the comparison or the statistics; exits with 1 on a failure or regression."""
    _refuse(words, wanted, repeat)
    limit = None if repeat.max_regression is None else metrics.find("error_rate").parse(repeat.max_regression)
    # Reads the baseline first, so that an unreadable one is reported before anything is measured.
    known = None if repeat.baseline is None else group(repeat.baseline)
    sides = [words] if repeat.against is None else [_on(words, repeat.against), words]
    found, passed = _measure(sides, wanted, repeat.times)
    whole = all(len(runs) == repeat.times for runs in found)
    groups = [Group(url, runs) for url, runs in zip([_url(side) for side in sides], found, strict=True) if runs]
    comparison = None
    if known is not None:
        comparison = compare(known, groups[-1])
    elif len(groups) > 1:
        comparison = compare(groups[0], groups[1])
    _print(comparison, groups, limit, wanted)
    if not whole or not passed or (comparison is not None and failed(comparison, limit)):
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def group(text: str) -> Group:
    """Reads the runs of folders or JSON results, separated by commas; a folder of repetitions means all of its runs."""
    return read_group([Path(part) for part in text.split(",") if part], text)


def failed(comparison: Comparison, limit: float | None) -> bool:
    """Returns true for exit code 1: no verdict, or a significant regression beyond the limit."""
    shown = limit is not None and "shown" in regressions(comparison.differences, limit)
    return bool(comparison.void_because) or shown


def _refuse(words: Sequence[str], wanted: RunOptions, repeat: Repeat) -> None:
    if repeat.against is not None and repeat.baseline is not None:
        raise CouldNotRun("--against measures the other server, --baseline reads its runs", "give one of them")
    if repeat.against is None and repeat.baseline is None and repeat.max_regression is not None:
        raise CouldNotRun("--max-regression needs something to compare with", "give --against URL or --baseline RUNS")
    wanted.refuse_outputs_of_one_run()
    named = [name for name in ONE_SERVER if any(word.split("=")[0] == name for word in words)]
    named += ["--probe-pid"] if wanted.probe_pids else []
    named += ["--probe-port"] if wanted.probe_port is not None else []
    if repeat.against is not None and named:
        raise CouldNotRun(f"{named[0]} names one server, and --against loads two", "--probe finds each by its port")


def _measure(sides: Sequence[Sequence[str]], wanted: RunOptions, times: int) -> tuple[list[list[LoadResult]], bool]:
    from sojourn.commands.formats import talk
    from sojourn.machine import environment
    from sojourn.report.load.writing import write_report

    thresholds = engine_run.thresholds_of(wanted.thresholds, sides[-1])
    passed = True

    def measure(turn: Turn) -> LoadResult:
        nonlocal passed
        place = None
        if wanted.output is not None:
            parent = wanted.output / SIDES[turn.side] if len(sides) > 1 else wanted.output
            place = load_folder.create(parent / str(turn.number))
        result = with_saturation(runners[turn.side](turn.words, None), engine_run.line_bits_per_second(wanted))
        verdicts = [each.judge(result) for each in thresholds] if turn.side == len(sides) - 1 else []
        passed = passed and not engine_run.has_failed(result, verdicts, wanted)
        if place is not None:
            load_folder.write(place, result, turn.words, verdicts, environment.describe(result.record.machine))
            write_report(place.path)
        figures = ", ".join(
            f"{name} {metrics.find(name).write(metrics.find(name).of_run(result))}" for name in ("rps", "mean", "p99")
        )
        missed = "".join(f"; {verdict}" for verdict in verdicts if not verdict.passed)
        talk.print(
            f"run {turn.number} of {times}, {_url(turn.words)}: {figures}{missed}", highlight=False, soft_wrap=True
        )
        return result

    with engine_run.runners("load", wanted) as made:
        runners = [made(words) for words in sides]
        return repetition.run(repetition.plan(sides, times), measure, len(sides)), passed


def _print(comparison: Comparison | None, groups: Sequence[Group], limit: float | None, wanted: RunOptions) -> None:
    from sojourn.commands.formats import data, print_json
    from sojourn.report.load.comparison import print_comparison, print_repetitions

    if wanted.output_format == "json":
        runs = [{"url": each.name, "runs": [run.record.as_json() for run in each.runs]} for each in groups]
        print_json({"groups": runs, "comparison": None if comparison is None else comparison.as_json(limit)})
    elif comparison is not None:
        print_comparison(comparison, limit, data)
    else:
        print_repetitions(groups[0], data)


def _url(words: Sequence[str]) -> str:
    return next((words[place] for place in engine_run.arguments("load", words)), "")


def _on(words: Sequence[str], url: str) -> list[str]:
    """The words with another URL."""
    places = engine_run.arguments("load", words)
    if not places:
        raise CouldNotRun("there is no URL to load", "sojourn load URL --against OTHER --repeat 5")
    return [url if place == places[0] else word for place, word in enumerate(words)]
