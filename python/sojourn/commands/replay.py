"""`sojourn replay`: imports a log where it is given one; then this process becomes the engine."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated

import typer

from sojourn import engine
from sojourn.commands.data_plane import EVERYTHING
from sojourn.commands.log_options import with_log_options
from sojourn.log import LogOptions, import_log, is_trace, require_default, require_log


def register(app: typer.Typer) -> None:
    """Adds the command; the engine parses its other options and prints their help."""
    help = "Replay a log's or a trace's sessions."
    app.command("replay", context_settings=EVERYTHING, help=help)(with_log_options(_replay))


def _replay(
    context: typer.Context,
    seed: Annotated[int | None, typer.Option(help="Says everything that is random.")] = None,
    failed: Annotated[str | None, typer.Option(help="skip, send or expect.")] = None,
    paths: Annotated[str | None, typer.Option(help="site or original.")] = None,
    *,
    log_options: LogOptions,
) -> None:
    arguments = list(context.args)
    forwarded = {"--seed": seed, "--failed": failed, "--paths": paths}
    arguments += [text for name, value in forwarded.items() if value is not None for text in (name, str(value))]
    if arguments and not arguments[0].startswith("-"):
        # What is to be sent has to be in the trace.
        keep_failed = log_options.keep_failed or failed in ("send", "expect")
        keep_queries = log_options.keep_queries or paths == "original"
        arguments[0] = _as_trace(arguments[0], log_options, keep_failed, keep_queries, 1 if seed is None else seed)
    engine.replace_process(["replay", *arguments])


def _as_trace(source: str, options: LogOptions, keep_failed: bool, keep_queries: bool, seed: int) -> str:
    require_log(source)
    if is_trace(source):
        require_default(source, options)
        return source
    # The trace of a log lives in memory only; the engine inherits the descriptor and opens it by this name.
    descriptor = os.memfd_create("trace", 0)
    name = f"/proc/self/fd/{descriptor}"
    options = replace(options, keep_failed=keep_failed, keep_queries=keep_queries)
    trace, _ = import_log(source, options, seed, lambda done, total: None)
    trace.save(name)
    return name
