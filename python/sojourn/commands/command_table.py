"""The names, arguments and options of all commands: the table behind completion scripts and manual pages.

Options of commands parsed in Python come from the option parser, those of engine commands from the engine's
description.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from sojourn.engine import description


@dataclass(frozen=True)
class Option:
    """An option for completion and manual pages."""

    names: tuple[str, ...]
    """The names with their dashes."""
    summary: str
    takes_value: bool = False
    choices: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(frozen=True)
class Command:
    """A command with options, or a group of subcommands."""

    name: str
    """The full name, all words after `sojourn`."""
    summary: str
    options: tuple[Option, ...]
    subcommands: tuple[Command, ...] = ()


HELP = Option(("--help", "-h"), "Show the options that matter most")
HELP_ALL = Option(("--help-all",), "Show every option")
VERSION = Option(("--version",), "Show the version and end")


def commands(app: typer.Typer) -> list[Command]:
    """Lists every command of `app` with its options."""
    return [_described(name, command) for name, command in typer.main.get_group(app).commands.items()]


def flattened(all_commands: list[Command] | tuple[Command, ...]) -> Iterator[Command]:
    """The executable commands: a group is replaced by its subcommands."""
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
        # For an option that both have, the engine's description has more detail.
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
