"""Runs the engine for `sojourn load` and `sojourn replay`.

With only engine options and no terminal to draw on, this process becomes the engine. Otherwise the engine runs as a
child that embeds its records in its result.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sojourn import engine, interrupts
from sojourn.commands.help import Command, definition, options_text
from sojourn.commands.run_options import RunOptions
from sojourn.commands.web_option import live_page
from sojourn.failure import EXIT_RAN_WITH_FAILURES
from sojourn.text import quantity

if TYPE_CHECKING:
    from sojourn.engine.process import Progress
    from sojourn.engine.progress import ProgressLine
    from sojourn.loading.result import LoadResult
    from sojourn.loading.run import Runner, Tool
    from sojourn.loading.threshold import Threshold, Verdict
    from sojourn.results.run_folder import RunFolder


def run(tool: Tool, words: Sequence[str], wanted: RunOptions, typed: Sequence[str] | None = None) -> None:
    """Runs the engine's `tool` with its own options, then writes outputs and judges thresholds.

    `typed` is the command line to record, where the words were changed on the way.
    """
    as_text = wanted.output_format == "text"
    draws = sys.stderr.isatty() and as_text if wanted.live is None else wanted.live
    if not (draws or wanted.wants_more_than_the_engine):
        engine.replace_process([tool, *words, "--format", wanted.output_format])
    with interrupts.held(to_the_end=True), runners(tool, wanted) as runner:
        _measure(tool, runner(words), words, wanted, draws, words if typed is None else typed)


@contextmanager
def runners(tool: Tool, wanted: RunOptions) -> Iterator[Callable[[Sequence[str]], Runner]]:
    """Gives the function that runs the engine's options: here or on a cluster, with a probe if requested.

    A cluster is open while the block lasts.
    """
    from sojourn.loading.run import local

    with ExitStack() as stack:
        made = local(tool)
        if wanted.cluster.target is not None:
            from sojourn.loading.fleet import Fleet

            with interrupts.raised():
                cluster = stack.enter_context(wanted.cluster.opened(quiet=wanted.output_format == "json"))
            made = Fleet(cluster, tool, wanted.weights).run

        def runner(words: Sequence[str]) -> Runner:
            if not wanted.wants_probe:
                return made
            from sojourn.loading.probed import probed, watched_by

            # An option's value may hold an address, too, such as a header's.
            named = (words[place] for place in arguments(tool, words))
            url = next((word for word in named if "://" in word), "")
            return probed(made, watched_by(url, wanted.probe_pids, wanted.probe_port, wanted.probe_interval))

        yield runner


def arguments(tool: Tool, words: Sequence[str]) -> list[int]:
    """The positions in `words` of arguments that are neither options of the engine's `tool` nor option values."""
    from sojourn.engine.description import options_with_values

    found = []
    is_value = False
    for place, word in enumerate(words):
        if is_value:
            is_value = False
        elif not word.startswith("-") or word == "-":
            found.append(place)
        else:
            is_value = word in options_with_values(tool)
    return found


def line_bits_per_second(wanted: RunOptions) -> float | None:
    """The bandwidth of the server's network link, if given."""
    return None if wanted.line is None else quantity.bits_per_second(wanted.line)


def thresholds_of(texts: Sequence[str], words: Sequence[str]) -> list[Threshold]:
    """Parses the thresholds; they must fit what these engine options measure."""
    if not texts:
        return []
    from sojourn.loading.run import plays_streams
    from sojourn.loading.stream_metrics import require_of_streams
    from sojourn.loading.threshold import Threshold

    thresholds = [Threshold.parse(text) for text in texts]
    if plays_streams(words):
        require_of_streams([threshold.metric for threshold in thresholds])
    return thresholds


def print_help(context: typer.Context, tool: Tool, *, everything: bool) -> None:
    """Prints the engine's help, then the options added here; with `everything` also the metrics of thresholds."""
    from sojourn.engine.description import command
    from sojourn.loading import metrics
    from sojourn.loading.run import plays_streams

    # The engine prints its description first, under the name of the typed command.
    named = [word for word in context.args if plays_streams([word])]
    wanted = "--help-all" if everything else "--help"
    subprocess.run(["sojourn", tool, *named, wanted], executable=str(engine.path()), check=True)
    assert isinstance(context.command, Command)
    told = {"--help", "--help-all", *(f"--{option.name}" for option in command(tool).options)}
    print(options_text(context.command, context, everything=everything, without=told))
    print("Metrics of thresholds and searches:")
    if not everything:
        print("  p99, mean, ttfb.p99, rps, error_rate, …; all of them: --help-all")
        return
    for name, meaning in metrics.table():
        print(definition(name, meaning))


def _measure(
    tool: Tool, runner: Runner, words: Sequence[str], wanted: RunOptions, draws: bool, typed: Sequence[str]
) -> None:
    from sojourn.commands.formats import talk
    from sojourn.loading.run import plays_streams
    from sojourn.loading.steps import with_saturation
    from sojourn.report.load.live import LiveView, StreamView

    thresholds = thresholds_of(wanted.thresholds, words)
    folder = None
    if wanted.output is not None:
        from sojourn.loading import folder as load_folder

        folder = load_folder.create(wanted.output)
    title = f"sojourn {tool} {' '.join(typed)}"
    with ExitStack() as stack:
        views: list[Progress] = []
        page = stack.enter_context(live_page(wanted.web, wanted.web_port, title))
        if page is not None:
            views.append(page)
        if draws:
            views.append(stack.enter_context((StreamView if plays_streams(words) else LiveView)(title)))
        result = runner(words, partial(_told, views) if views else None)
    result = with_saturation(result, line_bits_per_second(wanted))
    verdicts = [each.judge(result) for each in thresholds]
    written = _write(result, typed, verdicts, folder, wanted)
    _print(result, verdicts, wanted, written, embed="--embed" in words)
    lost = result.lost_machines
    if lost and verdicts and not wanted.accepts_lost_machines:
        said = f"the thresholds are void: {', '.join(lost)} generated no load to the end"
        talk.print(f"{said}; --accept-lost-machines judges them all the same", soft_wrap=True, highlight=False)
    if has_failed(result, verdicts, wanted):
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def is_whole(result: LoadResult, wanted: RunOptions) -> bool:
    """Whether nothing of a run is missing."""
    return result.complete or (wanted.accepts_lost_machines and result.is_whole_without_lost)


def has_failed(result: LoadResult, verdicts: Sequence[Verdict], wanted: RunOptions) -> bool:
    """Whether a run ends with exit code 1."""
    # A run limited by the generator says nothing about the server, so it passes no threshold.
    void = bool(verdicts) and result.limited_because is not None
    passed = all(verdict.passed for verdict in verdicts)
    return not is_whole(result, wanted) or _failed_because(result) is not None or void or not passed


def _told(views: Sequence[Progress], line: ProgressLine) -> None:
    for view in views:
        view(line)


def _failed_because(result: LoadResult) -> str | None:
    """The reason why a complete run failed."""
    return None if result.is_streams else result.of_requests.failed_because


def _write(
    result: LoadResult,
    words: Sequence[str],
    verdicts: list[Verdict],
    folder: RunFolder | None,
    wanted: RunOptions,
) -> list[Path]:
    written = list[Path]()
    if wanted.files:
        from sojourn.loading import outputs

        written += outputs.write(result, wanted.files)
    if folder is not None:
        from sojourn.loading import folder as load_folder
        from sojourn.machine import environment
        from sojourn.report.load.writing import write_report

        load_folder.write(folder, result, words, verdicts, environment.describe(result.record.machine))
        written += filter(None, [write_report(folder.path)])
    return written


def _print(
    result: LoadResult, verdicts: list[Verdict], wanted: RunOptions, written: list[Path], *, embed: bool
) -> None:
    from sojourn.commands.formats import data, print_json
    from sojourn.report.load.terminal import print_result, print_verdicts

    if wanted.output_format == "json":
        record = result.embedded() if embed else result.record.as_json()
        print_json({**record, "thresholds": [verdict.record.as_json() for verdict in verdicts]})
        return
    print_result(result, data)
    print_verdicts(verdicts, data)
    for path in written:
        data.print(f"written: {path}", soft_wrap=True, highlight=False)
