"""`sojourn load`: the engine's load, and what a person wants of it beside: outputs, thresholds, a search, machines.

The engine parses its own options; those declared here are ours. Without any of ours, and without a terminal to draw
on, this process becomes the engine. Otherwise the engine runs as a child with its records embedded in its result.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn import engine
from sojourn.commands.data_plane import EVERYTHING
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun

if TYPE_CHECKING:
    from sojourn.loading.result import LoadResult
    from sojourn.loading.threshold import Threshold, Verdict
    from sojourn.run_folder import RunFolder

    Runner = Callable[[Sequence[str], engine.Progress | None], LoadResult]

_OUTPUTS = "Outputs and verdicts"
_SEARCH = "Search for the largest load"
_MACHINES = "Several machines"


def register(app: typer.Typer) -> None:
    """Adds the command; the engine parses the options that are not declared here."""
    app.command("load", context_settings=EVERYTHING, help="Load a server and measure what its clients see.")(_load)


def _load(
    context: typer.Context,
    show_help: Annotated[bool, typer.Option("--help", help="Show the engine's options and these.")] = False,
    output_format: Annotated[str, typer.Option("--format", help="text for people, json for programs.")] = "text",
    live: Annotated[
        bool | None, typer.Option(help="Show how it goes [default: if standard error is a terminal].")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Keep the run in this folder, with a report.", rich_help_panel=_OUTPUTS)
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a row per interval.", rich_help_panel=_OUTPUTS)] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="The same rows as a Parquet file.", rich_help_panel=_OUTPUTS)
    ] = None,
    prometheus: Annotated[
        Path | None, typer.Option(help="Write Prometheus' text format.", rich_help_panel=_OUTPUTS)
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 unless it holds: p99<250ms, error_rate<1%, rps>=1000/s; again for more.",
            rich_help_panel=_OUTPUTS,
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="Find the largest --rate or --clients under which it holds, as p95<200ms; again for more.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    search_time: Annotated[str, typer.Option(help="How long to search at the most.", rich_help_panel=_SEARCH)] = "15m",
    search_precision: Annotated[
        str, typer.Option(help="How narrow the interval should be.", rich_help_panel=_SEARCH)
    ] = "5%",
    on: Annotated[
        str | None,
        typer.Option(help="Make the load on HOST[=WEIGHT],… together, by ssh.", rich_help_panel=_MACHINES),
    ] = None,
    remote_shell: Annotated[
        str | None,
        typer.Option(help="How {command} is run on {host}, instead of ssh.", rich_help_panel=_MACHINES),
    ] = None,
    remote_engine: Annotated[
        str, typer.Option(help="The engine's name or path on the machines.", rich_help_panel=_MACHINES)
    ] = "sojourn-engine",
) -> None:
    if show_help or "-h" in context.args:
        _print_help(context)
        return
    if output_format not in ("text", "json"):
        raise CouldNotRun(f"there is no format {output_format!r}", "--format text or --format json")
    files = {"csv": csv, "parquet": parquet, "prometheus": prometheus}
    wanted = {name: path for name, path in files.items() if path is not None}
    draws = sys.stderr.isatty() and output_format == "text" if live is None else live
    if search:
        runner = _runner(on, remote_shell, remote_engine)
        _search(runner, context.args, output_format, search, output, search_time, search_precision)
        return
    if not (draws or wanted or threshold or output or on):
        engine.replace_process(["load", *context.args, "--format", output_format])
    runner = _runner(on, remote_shell, remote_engine)
    _measure(runner, context.args, output_format, draws, output, wanted, threshold or [])


def _runner(on: str | None, remote_shell: str | None, remote_engine: str) -> Runner:
    """What makes the load: the engine here, or engines elsewhere."""
    if on is None:
        from sojourn.loading.run import run_load

        return run_load
    from sojourn.loading.fleet import REMOTE_SHELL, Fleet

    return Fleet.parse(on, remote_shell or REMOTE_SHELL, remote_engine).run


def _measure(
    runner: Runner,
    options: list[str],
    output_format: str,
    draws: bool,
    output: Path | None,
    files: dict[str, Path],
    limits: list[str],
) -> None:
    from sojourn.loading.live import LiveView

    thresholds = _thresholds(limits)
    folder = None
    if output is not None:
        from sojourn.loading import folder as load_folder

        folder = load_folder.create(output)
    if draws:
        with LiveView(f"sojourn load {' '.join(options)}") as view:
            result = runner(options, view)
    else:
        result = runner(options, None)
    verdicts = [each.judge(result) for each in thresholds]
    written = _write(result, options, verdicts, folder, files)
    _print(result, verdicts, output_format, written, embed="--embed" in options)
    # A limit that the generator set says nothing of the server: such a run passes no threshold.
    void = bool(verdicts) and result.limited_because is not None
    if not result.complete or void or not all(verdict.passed for verdict in verdicts):
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _search(
    runner: Runner,
    options: list[str],
    output_format: str,
    limits: list[str],
    output: Path | None,
    budget: str,
    precision: str,
) -> None:
    from sojourn import quantity
    from sojourn.commands.formats import data, print_json, talk
    from sojourn.loading import folder as load_folder
    from sojourn.loading import metrics
    from sojourn.loading.load_search import LoadSearch
    from sojourn.loading.search_terminal import print_found, said

    thresholds = _thresholds(limits)
    folder = None if output is None else load_folder.create(output).path
    search = LoadSearch(
        options,
        thresholds,
        lambda point: runner(point, None),
        budget_seconds=quantity.seconds(budget),
        precision=metrics.find("error_rate").parse(precision),
        output=folder,
        told=lambda trial, found: talk.print(said(trial, found, search.unit), highlight=False, soft_wrap=True),
    )
    found = search.run()
    if folder is not None and found.trials:
        from sojourn.report.load_run.search import write_report

        write_report(folder)
    if output_format == "json":
        print_json(search.as_json(found))
    else:
        print_found(found, search, data)
    if found.ending in ("interrupted", "never passed"):
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _thresholds(texts: list[str]) -> list[Threshold]:
    if not texts:
        return []
    from sojourn.loading.threshold import Threshold

    return [Threshold.parse(text) for text in texts]


def _write(
    result: LoadResult,
    options: list[str],
    verdicts: list[Verdict],
    folder: RunFolder | None,
    files: dict[str, Path],
) -> list[Path]:
    if files:
        from sojourn.loading import outputs

        outputs.write(result, files)
    written = list(files.values())
    if folder is not None:
        from sojourn import environment
        from sojourn.loading import folder as load_folder
        from sojourn.report.load_run import write_report

        load_folder.write(folder, result, options, verdicts, environment.describe(result.record.get("machine")))
        written.append(write_report(folder.path))
    return written


def _print(
    result: LoadResult, verdicts: list[Verdict], output_format: str, written: list[Path], *, embed: bool
) -> None:
    from sojourn.commands.formats import data, print_json
    from sojourn.loading.terminal import print_result, print_verdicts

    if output_format == "json":
        record = result.embedded() if embed else result.record
        print_json({**record, "thresholds": [verdict.as_json() for verdict in verdicts]})
        return
    print_result(result, data)
    print_verdicts(verdicts, data)
    for path in written:
        data.print(f"written: {path}", soft_wrap=True, highlight=False)


def _print_help(context: typer.Context) -> None:
    from sojourn.loading import metrics

    # The engine says first what a load is; it calls itself by the command that was typed.
    subprocess.run(["sojourn", "load", "--help"], executable=str(engine.path()), check=True)
    print("\nBeside the engine's options there are these:\n")
    print(context.get_help())
    print("\nMetrics of thresholds and searches:")
    for name, meaning in metrics.table():
        print(f"  {name:24} {meaning}")
