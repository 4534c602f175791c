"""The typer application: registers the commands, runs the command line and reports failures."""

from __future__ import annotations

import sys
from importlib import import_module

import typer
from typer.models import CommandInfo, TyperInfo

from sojourn import interrupts
from sojourn.commands.catalogue import ABOUT, COMMANDS
from sojourn.commands.help import Command
from sojourn.failure import EXIT_COULD_NOT_RUN, EXIT_RAN, EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.results import writing

app = typer.Typer(
    name="sojourn",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=ABOUT,
)
_SPEAKS_OF_ALL = "shell"
"""The module that registers last, because its commands describe all others."""
_TYPER_INTERRUPTED = interrupts.EXIT_INTERRUPTED
"""typer's exit code after a KeyboardInterrupt."""


@app.callback()
def _a_group_even_of_one_command() -> None:
    pass


def register(name: str | None = None) -> None:
    """Registers the named command and its group; all commands without a name, or if it describes all others."""
    wanted = None if name is None else COMMANDS[name][0]
    modules = {module for module, _ in COMMANDS.values()} if wanted in (None, _SPEAKS_OF_ALL) else {wanted}
    for module in dict.fromkeys(module for module, _ in COMMANDS.values() if module in modules):
        import_module(f"sojourn.commands.{module}").register(app)
    added: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    groups = [each.typer_instance for each in app.registered_groups if each.typer_instance is not None]
    for command in [command for group in [app, *groups] for command in group.registered_commands]:
        if command.cls is None or not issubclass(command.cls, Command):
            command.cls = Command
    for each in added:
        assert isinstance(each.name, str)
        each.short_help = COMMANDS[each.name][1]


def run() -> int:
    """Runs the command line and returns the exit code; prints a failure once, with a suggested fix."""
    code = _run()
    if (unwritten := writing.failure()) is not None:
        print(unwritten, file=sys.stderr)
        return code or EXIT_RAN_WITH_FAILURES
    return code


def _run() -> int:
    try:
        code = app(standalone_mode=False)
        if code == _TYPER_INTERRUPTED:
            raise KeyboardInterrupt
    except CouldNotRun as failure:
        print(failure, file=sys.stderr)
        return EXIT_COULD_NOT_RUN
    except typer.Abort:
        return EXIT_RAN_WITH_FAILURES
    except KeyboardInterrupt:
        interrupts.ignore_from_now_on()
        print("interrupted", file=sys.stderr)
        return interrupts.exit_code()
    except typer.Exit as ending:
        return ending.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # A usage error of the option parser.
        error.show()  # type: ignore[attr-defined]
        return EXIT_COULD_NOT_RUN
    return code or EXIT_RAN
