"""`sojourn serve` and `load`: this process becomes the engine, so Python is never in the data path."""

from __future__ import annotations

import typer

from sojourn import engine

EVERYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Adds the two commands; the engine parses their options and prints their help."""
    app.command("serve", context_settings=EVERYTHING, help="Serve a folder over HTTP.")(_serve)
    app.command("load", context_settings=EVERYTHING, help="Load a server: closed or open loop, sessions, walks.")(_load)


def _serve(context: typer.Context) -> None:
    engine.replace_process(["serve", *context.args])


def _load(context: typer.Context) -> None:
    engine.replace_process(["load", *context.args])
