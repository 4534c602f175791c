"""The names, arguments and options of all commands: the table behind completion scripts and manual pages.

Options of commands parsed in Python come from the option parser, those of engine commands from the engine's
description.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from sojourn.commands.help import argument_name, default_of, paragraphs, usage, value_name
from sojourn.engine import description, results


@dataclass(frozen=True)
class Option:
    """An option or an argument, for completion and manual pages."""

    names: tuple[str, ...]
    """The names with their dashes."""
    summary: str
    value: str = ""
    """The name of its value; empty for a flag."""
    choices: tuple[str, ...] = ()
    repeats: bool = False
    default: str = ""
    group: str = "Options"
    """The heading in the help."""


@dataclass(frozen=True)
class Command:
    """A command with options, or a group of subcommands."""

    name: str
    """The full name, all words after `sojourn`."""
    summary: str
    options: tuple[Option, ...]
    subcommands: tuple[Command, ...] = ()
    usage: str = ""
    """The options and arguments after the name, as in a usage line."""
    arguments: tuple[Option, ...] = ()
    description: str = ""
    details: str = ""
    """Examples, and what else `--help-all` shows below the options."""


HELP = Option(("--help", "-h"), "Show the options that matter most", group="Help")
HELP_ALL = Option(("--help-all",), "Show every option", group="Help")
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
    engine_commands = description.description().commands if is_passed_on(command) else []
    of_the_engine = [each for each in engine_commands if each.name in (name, f"{name}-streams")]
    found: dict[str, Option] = {}
    engine_options = [_of_the_engine(option) for each in of_the_engine for option in each.options]
    for option in (*engine_options, *_of_python(command), HELP, HELP_ALL):
        # For an option that both have, the engine's description has more detail.
        found.setdefault(option.names[0], option)
    whole = Command(name, command.get_short_help_str(200), tuple(found.values()))
    if not of_the_engine:
        told, examples = paragraphs(command)
        return replace(
            whole,
            usage=usage(command),
            arguments=tuple(_argument(each) for each in command.params if isinstance(each, TyperArgument)),
            description="\n\n".join(told),
            details="\n\n".join(["Examples"] * bool(examples) + examples),
        )
    first = of_the_engine[0]
    return replace(
        whole,
        usage=first.usage,
        arguments=tuple(Option((each.name,), each.help.rstrip(".")) for each in first.arguments),
        description=first.description,
        details=first.details,
    )


def is_passed_on(command: TyperCommand) -> bool:
    """Returns true if the engine parses the words of a command that Python does not know."""
    return bool(command.context_settings.get("ignore_unknown_options"))


def _of_python(command: TyperCommand) -> list[Option]:
    return [
        Option(
            (*each.opts, *each.secondary_opts),
            (each.help or "").split("\n")[0].rstrip("."),
            value=value_name(each),
            choices=tuple(map(str, each.type_descriptor.choices or ())),
            repeats=each.multiple,
            default=default_of(each),
            group=each.rich_help_panel or "Options",
        )
        for each in command.params
        if isinstance(each, TyperOption)
    ]


def _argument(argument: TyperArgument) -> Option:
    return Option((argument_name(argument),), (argument.help or "").rstrip("."), default=default_of(argument))


def _of_the_engine(option: results.Option) -> Option:
    return Option(
        (f"--{option.name}",) + ((f"-{option.short}",) if option.short else ()),
        option.help.rstrip("."),
        value=option.value or "",
        choices=tuple(choice.name for choice in option.choices) if option.value is not None else (),
        repeats=option.repeats,
        default=option.default or "",
        group=option.group,
    )
