"""`sojourn serve`, `proxy`, `stream`, `web99`, `link`, `confine`, `scenario`: replaces this process with the engine."""

from __future__ import annotations

import sys

import typer

from sojourn import engine

EVERYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Registers the commands; the engine parses their options and prints their help."""
    app.command("serve", context_settings=EVERYTHING, help="Serve a folder over HTTP.")(_become)
    help = "Forward requests to other servers, and cache their responses."
    app.command("proxy", context_settings=EVERYTHING, help=help)(_become)
    app.command("stream", context_settings=EVERYTHING, help="Stream films to players: RTSP, video on demand.")(_become)
    help = "Answer the dynamic requests of load --preset web99, by FastCGI or CGI."
    app.command("web99", context_settings=EVERYTHING, help=help)(_become)
    app.command("link", context_settings=EVERYTHING, help="Run a command behind a slow, long or lossy link.")(_become)
    help = "Run a program with less memory, a slower disk or a slower processor than the machine has."
    app.command("confine", context_settings=EVERYTHING, help=help)(_become)
    help = "Check a scenario, or make one of a browser's recording (HAR)."
    app.command("scenario", context_settings=EVERYTHING, help=help)(_become)


def _become() -> None:
    # Passes the words as typed: the option parser would drop the `--` before a command.
    engine.replace_process(sys.argv[1:])
