"""`sojourn serve`: this process becomes the engine, so Python is never in the data path."""

from __future__ import annotations

import typer

from sojourn import engine

EVERYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Adds the command; the engine parses its options and prints their help."""
    app.command("serve", context_settings=EVERYTHING, help="Serve a folder over HTTP.")(_serve)


def _serve(context: typer.Context) -> None:
    engine.replace_process(["serve", *context.args])
