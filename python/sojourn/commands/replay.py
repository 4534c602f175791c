"""`sojourn replay`: imports a log if given one; the engine replays it, with the same additions as `sojourn load`."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from typing import Annotated

import typer

from sojourn.commands import engine_run
from sojourn.commands.data_plane import EVERYTHING
from sojourn.commands.help import FurtherOption
from sojourn.commands.log_options import with_log_options
from sojourn.commands.run_options import RunOptions, with_run_options
from sojourn.failure import CouldNotRun
from sojourn.workload.log import LogOptions, import_log_to_file, is_trace, require_default, require_log
from sojourn.workload.not_replayed import LeftOut


def register(app: typer.Typer) -> None:
    """Registers the command; the engine parses its other options."""
    app.command("replay", context_settings=EVERYTHING)(with_run_options(with_log_options(_replay)))


def _replay(
    context: typer.Context,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random draws.")] = None,
    failed: Annotated[str | None, typer.Option(help="skip, send or expect.")] = None,
    paths: Annotated[str | None, typer.Option(help="site or original.")] = None,
    allow_methods: Annotated[str | None, typer.Option(help="POST,PUT: send what the log has of these, too.")] = None,
    left_out_limit: Annotated[
        str,
        FurtherOption(
            help="Refuse a log if a larger share of its requests cannot be replayed.",
            rich_help_panel="Log",
        ),
    ] = "50%",
    *,
    log_options: LogOptions,
    run_options: RunOptions,
) -> None:
    if run_options.show_help:
        engine_run.print_help(context, "replay", everything=run_options.show_all_help)
        return
    forwarded = {"--seed": seed, "--failed": failed, "--paths": paths, "--allow-methods": allow_methods}
    given = [text for name, value in forwarded.items() if value is not None for text in (name, str(value))]
    words, typed = [*context.args, *given], [*context.args, *given]
    places = engine_run.arguments("replay", words)
    if places:
        # The URL comes last, after the logs.
        first, *others = places[:-1] or places
        log_options = replace(log_options, also=tuple(words[place] for place in others))
        if is_trace(words[first]):
            require_default(words[first], log_options)
        # Requests can be sent only if the trace contains them.
        keep_failed = log_options.keep_failed or failed in ("send", "expect")
        keep_queries = log_options.keep_queries or paths == "original"
        log_options = replace(log_options, keep_failed=keep_failed, keep_queries=keep_queries)
        if allow_methods is not None:
            allowed = [method.strip().upper() for method in allow_methods.split(",")]
            methods = log_options.methods or ("GET", "HEAD", *allowed)
            log_options = replace(log_options, keep_methods=True, methods=methods)
        words[first] = _as_trace(words[first], log_options, left_out_limit, 1 if seed is None else seed)
        words = [word for place, word in enumerate(words) if place not in others]
    engine_run.run("replay", words, run_options, typed)


def _as_trace(source: str, options: LogOptions, left_out_limit: str, seed: int) -> str:
    from sojourn.loading import metric

    require_log(source, options.also)
    if is_trace(source):
        return source
    # An imported trace is an unnamed file that lives as long as this process, or the engine it becomes; children open
    # it through /proc, too.
    with tempfile.TemporaryFile() as file:
        _, report = import_log_to_file(source, file, options, seed, lambda done, total: None, may_be_empty=True)
        left_out = LeftOut.of(report)
        if left_out.fraction > metric.parsed("fraction", left_out_limit):
            raise CouldNotRun(str(left_out), left_out.hint)
        if left_out.by_reason:
            print(f"warning: {left_out}", file=sys.stderr)
        descriptor = os.dup(file.fileno())
    os.set_inheritable(descriptor, True)
    return f"/proc/{os.getpid()}/fd/{descriptor}"
