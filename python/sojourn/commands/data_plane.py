"""`sojourn serve`, `load` and `replay`: this process becomes the engine, so Python is never in the data path."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from sojourn import engine, quantity
from sojourn.log import SESSION_GAP, import_log, require_log

TRACE_MAGIC = b"SJTRACE1"
_EVERYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Adds the three commands; the engine parses their options and prints their help."""
    app.command("serve", context_settings=_EVERYTHING, help="Serve a folder over HTTP.")(_serve)
    app.command("load", context_settings=_EVERYTHING, help="Load a server: closed or open loop, sessions, walks.")(_load)
    app.command("replay", context_settings=_EVERYTHING, help="Replay a log's or a trace's sessions.")(_replay)


def _serve(context: typer.Context) -> None:
    engine.replace_process(["serve", *context.args])


def _load(context: typer.Context) -> None:
    engine.replace_process(["load", *context.args])


def _replay(context: typer.Context) -> None:
    arguments = list(context.args)
    if arguments and not arguments[0].startswith("-"):
        arguments[0] = _as_trace(arguments[0])
    engine.replace_process(["replay", *arguments])


def _as_trace(source: str) -> str:
    require_log(source)
    if source != "-":
        with Path(source).open("rb") as file:
            if file.read(len(TRACE_MAGIC)) == TRACE_MAGIC:
                return source
    # The trace of a log lives in memory only; the engine inherits the descriptor and opens it by this name.
    descriptor = os.memfd_create("trace", 0)
    name = f"/proc/self/fd/{descriptor}"
    trace, _ = import_log(source, quantity.seconds(SESSION_GAP), 1, lambda done, total: None)
    trace.save(name)
    return name
