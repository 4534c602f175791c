"""What every command is called, takes and does: the table behind completion scripts and manual pages.

Commands that Python parses are read from the option parser, those of the engine from its description.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from sojourn.engine import description


@dataclass(frozen=True)
class Option:
    """An option as a shell sees it."""

    names: tuple[str, ...]
    """With their dashes."""
    summary: str
    takes_value: bool = False
    choices: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(frozen=True)
class Command:
    """A command: one with options, or a group of subcommands."""

    name: str
    """All its words after `sojourn`."""
    summary: str
    options: tuple[Option, ...]
    subcommands: tuple[Command, ...] = ()


HELP = Option(("--help", "-h"), "Show the options that matter most")
HELP_ALL = Option(("--help-all",), "Show every option")
VERSION = Option(("--version",), "Show the version and end")


def commands(app: typer.Typer) -> list[Command]:
    """Every command that `app` has, with every option."""
    return [_described(name, command) for name, command in typer.main.get_group(app).commands.items()]


def flattened(all_commands: list[Command] | tuple[Command, ...]) -> Iterator[Command]:
    """The commands that can be run: in place of a group its subcommands."""
    for command in all_commands:
        if command.subcommands:
            yield from flattened(command.subcommands)
        else:
            yield command


def _described(name: str, command: object) -> Command:
    if isinstance(command, TyperGroup):
        inner = tuple(_described(f"{name} {sub}", each) for sub, each in command.commands.items())
        return Command(name, command.get_short_help_str(200), (HELP,), inner)
    assert isinstance(command, TyperCommand)
    found: dict[str, Option] = {}
    for option in (*_of_the_engine(name), *_of_python(command), HELP, HELP_ALL):
        # The engine knows more of an option that both have.
        found.setdefault(option.names[0], option)
    return Command(name, command.get_short_help_str(200), tuple(found.values()))


def _of_python(command: TyperCommand) -> list[Option]:
    return [
        Option(
            (*each.opts, *each.secondary_opts),
            (each.help or "").split("\n")[0].rstrip("."),
            takes_value=not each.is_flag,
            choices=tuple(map(str, each.type_descriptor.choices or ())),
            repeats=each.multiple,
        )
        for each in command.params
        if isinstance(each, TyperOption)
    ]


def _of_the_engine(name: str) -> list[Option]:
    try:
        found = description.command(name)
    except KeyError:
        return []
    return [
        Option(
            (f"--{each.name}",) + ((f"-{each.short}",) if each.short else ()),
            each.help.rstrip("."),
            takes_value=each.value is not None,
            choices=tuple(choice.name for choice in each.choices) if each.value is not None else (),
            repeats=each.repeats,
        )
        for each in found.options
    ]
