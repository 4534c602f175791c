"""The command line: `sojourn COMMAND`. Each command lives in its own file under `commands/`.

Only the command that is asked for is imported: the libraries of the others take seconds, and a server need not wait
for them.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import NoReturn

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo, TyperInfo

from sojourn import __version__
from sojourn.commands.help import Command
from sojourn.failure import EXIT_COULD_NOT_RUN, EXIT_RAN_WITH_FAILURES, CouldNotRun


class _InOrder(TyperGroup):
    def list_commands(self, ctx: object) -> list[str]:
        """All commands, in the order of the help."""
        return [name for name in _COMMANDS if name in self.commands]


app = typer.Typer(
    name="sojourn",
    cls=_InOrder,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "How much traffic can this web system take, what is its bottleneck, and what should change?\n\n"
        "Start with `sojourn assess access.log`. Exit codes: 0 ran, 1 ran with failures or was interrupted, "
        "2 could not run."
    ),
)

_GROUPS = {
    "From a log to an answer": {
        "assess": "assess",
        "trace": "trace",
        "report": "report",
        "example-log": "example_log",
    },
    "Servers and what they serve": {
        "serve": "data_plane",
        "proxy": "data_plane",
        "stream": "data_plane",
        "fileset": "fileset",
        "media": "media",
    },
    "Load": {
        "load": "load",
        "replay": "replay",
        "compare": "compare",
        "link": "data_plane",
    },
    "What a server and a machine do": {
        "probe": "probe",
        "join-probe": "join_probe",
        "misses": "misses",
        "memory": "memory",
        "confine": "data_plane",
    },
    "Models and plans": {
        "predict": "predict",
        "simulate": "simulate",
        "plan": "plan",
        "fit": "fit",
        "cache": "cache",
        "import-jmt": "jmt",
        "export-jmt": "jmt",
    },
    "The literature": {
        "study": "study",
    },
    "This program": {
        "completion": "shell",
        "man": "shell",
    },
}
"""Commands by name, with the module that registers each, in the groups and the order of the help."""
_COMMANDS = {name: module for group in _GROUPS.values() for name, module in group.items()}


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Show the version and end.")) -> None:
    if version:
        print(f"sojourn {__version__}")
        raise typer.Exit


def register(name: str | None) -> None:
    """Adds the command; all of them for the help, for names that are none, and for what speaks of all."""
    alone = name in _COMMANDS and name not in _GROUPS["This program"]
    modules = [_COMMANDS[name]] if name and alone else dict.fromkeys(_COMMANDS.values())
    for module in modules:
        import_module(f"sojourn.commands.{module}").register(app)
    added: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    groups = [each.typer_instance for each in app.registered_groups if each.typer_instance is not None]
    for command in [command for group in [app, *groups] for command in group.registered_commands]:
        command.cls = Command
    for each in added:
        each.rich_help_panel = next(group for group, names in _GROUPS.items() if each.name in names)


_TYPER_INTERRUPTED = 128 + signal.SIGINT
"""What typer makes of a KeyboardInterrupt; ours is the exit code that the help promises."""


def main() -> None:
    """Runs the command line; a failure is printed once, with its likely cure."""
    if sys.argv[1:] == ["--version"]:
        # No command needs to be imported for it.
        print(f"sojourn {__version__}")
        return
    try:
        register(sys.argv[1] if len(sys.argv) > 1 else None)
    except KeyboardInterrupt:
        # The libraries of a command take seconds on a busy machine.
        _end_interrupted()
    # kill is to keep what was measured, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A read that waits, of a log that comes through a pipe, is to end at once and not to be begun again.
    signal.siginterrupt(signal.SIGINT, True)
    try:
        code = app(standalone_mode=False)
        if code == _TYPER_INTERRUPTED:
            raise KeyboardInterrupt
    except CouldNotRun as failure:
        print(failure, file=sys.stderr)
        code = EXIT_COULD_NOT_RUN
    except typer.Abort:
        code = EXIT_RAN_WITH_FAILURES
    except KeyboardInterrupt:
        _end_interrupted()
    except typer.Exit as ending:
        code = ending.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # A usage error of the option parser.
        error.show()  # type: ignore[attr-defined]
        code = EXIT_COULD_NOT_RUN
    _end(code or 0)


def _end_interrupted() -> NoReturn:
    print("interrupted", file=sys.stderr)
    _end(EXIT_RAN_WITH_FAILURES)


def _end(code: int) -> NoReturn:
    # All results are written. The interpreter takes a while to end: a Ctrl-C then shall print no traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
