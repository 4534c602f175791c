"""`sojourn load`: runs the engine's load generator with outputs, thresholds, capacity search and several machines.

The engine parses its own options. `run_options` declares those of every run, this file those of a search and of
repetitions.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn import interrupts
from sojourn.commands import engine_run
from sojourn.commands.data_plane import EVERYTHING
from sojourn.commands.help import FurtherOption
from sojourn.commands.run_options import RunOptions, with_run_options
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun

_SEARCH = "Search for the largest load"
_REPEAT = "Repetitions and comparisons"

REPETITIONS = 5
"""Default number of runs of each server with --against or --baseline."""


def register(app: typer.Typer) -> None:
    """Registers the command; the engine parses the options not declared here."""
    app.command("load", context_settings=EVERYTHING)(with_run_options(_load))


def _load(
    context: typer.Context,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="Find the largest --rate or --clients that meets this, such as p95<200ms; repeatable.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    search_time: Annotated[str, FurtherOption(help="The longest search.", rich_help_panel=_SEARCH)] = "15m",
    search_precision: Annotated[
        str,
        FurtherOption(
            help="The wanted width of the confidence interval, relative to the capacity.", rich_help_panel=_SEARCH
        ),
    ] = "5%",
    repeat: Annotated[
        int | None,
        FurtherOption(
            min=1, help="Run this many times, each with its own seed, into --output/1, /2, …", rich_help_panel=_REPEAT
        ),
    ] = None,
    against: Annotated[
        str | None,
        FurtherOption(help="Load this URL alternately, and compare.", rich_help_panel=_REPEAT),
    ] = None,
    baseline: Annotated[
        str | None,
        FurtherOption(help="Compare with these runs, given as for sojourn compare.", rich_help_panel=_REPEAT),
    ] = None,
    max_regression: Annotated[
        str | None,
        FurtherOption(
            help="Exit with 1 if significantly worse by more than this, such as 5%.", rich_help_panel=_REPEAT
        ),
    ] = None,
    *,
    run_options: RunOptions,
) -> None:
    if run_options.show_help:
        engine_run.print_help(context, "load", everything=run_options.show_all_help)
    elif search and (repeat or against or baseline or max_regression):
        raise CouldNotRun("--search repeats its runs by itself", "leave out --repeat, --against and --baseline")
    elif search:
        with interrupts.held(to_the_end=True):
            _search(context.args, run_options, search, search_time, search_precision)
    elif repeat or against or baseline or max_regression:
        from sojourn.commands.repeated_load import Repeat
        from sojourn.commands.repeated_load import run as run_repeated

        times = repeat or (REPETITIONS if against else 1)
        with interrupts.held(to_the_end=True):
            run_repeated(context.args, run_options, Repeat(times, against, baseline, max_regression))
    else:
        engine_run.run("load", context.args, run_options)


def _search(words: list[str], wanted: RunOptions, limits: list[str], budget: str, precision: str) -> None:
    from sojourn.commands.formats import data, print_json, talk
    from sojourn.loading import folder as load_folder
    from sojourn.loading import metrics
    from sojourn.loading.load_search import LoadSearch
    from sojourn.report.load.terminal import print_found, said
    from sojourn.text import quantity

    wanted.refuse_outputs_of_one_run()
    if wanted.thresholds:
        raise CouldNotRun("--threshold judges a single run", f"give it as --search '{wanted.thresholds[0]}'")
    thresholds = engine_run.thresholds_of(limits, words)
    folder = None if wanted.output is None else load_folder.create(wanted.output)
    with engine_run.runners("load", wanted) as runners:
        runner = runners(words)
        search = LoadSearch(
            words,
            thresholds,
            lambda point: runner(point, None),
            budget_seconds=quantity.seconds(budget),
            precision=metrics.find("error_rate").parse(precision),
            output=folder,
            line_bits_per_second=engine_run.line_bits_per_second(wanted),
            told=lambda trial, found: talk.print(said(trial, found, search.unit), highlight=False, soft_wrap=True),
        )
        found = search.run()
    if wanted.output_format == "json":
        print_json(search.record(found).as_json())
    else:
        print_found(found, search.record(found), data)
    if folder is not None and found.trials:
        from sojourn.report.load.search import write_report

        write_report(folder)
    if found.ending == "interrupted" or found.low is None:
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)
