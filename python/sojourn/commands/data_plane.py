"""`sojourn serve`, `proxy`, `stream`, `web99`, `link`, `confine`, `scenario`: replaces this process with the engine."""

from __future__ import annotations

import sys

import typer

from sojourn import engine

EVERYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Registers the commands; the engine parses their options and prints their help."""
    for name in ("serve", "proxy", "stream", "web99", "link", "confine", "scenario"):
        app.command(name, context_settings=EVERYTHING)(_become)


def _become() -> None:
    # Passes the words as typed: the option parser would drop the `--` before a command.
    engine.replace_process(sys.argv[1:])
