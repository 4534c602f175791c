"""Two levels of help, as in the engine's commands: `--help` shows the common options, `--help-all` shows all.

An option declared as `FurtherOption` appears only in `--help-all`. Without such options both show the same.
"""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Container
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter, Parameter

FurtherOption = partial(typer.Option, hidden=True)
"""Declares an option that only `--help-all` shows."""

ALL = "--help-all"

_COLUMN = 26
"""The column in which an option's text begins."""
_WIDTH_MAX = 100
_HEADING = re.compile("^Examples?: ")
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")
_VALUES = {Path: "PATH", int: "N", float: "NUMBER"}


class Command(TyperCommand):
    """A command with two levels of help. A command that prints its own help is left alone."""

    _all: TyperOption | None = None

    def get_params(self, ctx: Context) -> list[Parameter]:
        """The parameters, including both help options."""
        params = super().get_params(ctx)
        ordinary = self.get_help_option(ctx)
        if ordinary is None:
            return params
        # The parser compares options by identity, so the same object is returned each time.
        self._all = self._all or TyperOption(
            param_decls=[ALL],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=self._show_all,
            type_descriptor=ordinary.type_descriptor,
        )
        ordinary.help = "Show the options that matter most." if _further(self) else "Show this help."
        self._all.help = "Show every option."
        return [*params, self._all]

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Writes the text of `--help`."""
        formatter.write(_text(self, ctx, everything=not _further(self)))

    def _show_all(self, ctx: Context, _: object, wanted: bool) -> None:
        if wanted:
            typer.echo(_text(self, ctx, everything=True), nl=False)
            ctx.exit()


class Group(TyperGroup):
    """A group of commands. Its help lists them all, so `--help` and `--help-all` show the same."""

    def get_help_option_names(self, ctx: Context) -> list[str]:
        """The names of the group's help option; its commands have their own."""
        return [*super().get_help_option_names(ctx), ALL]


def options_text(command: TyperCommand, ctx: Context, *, everything: bool, without: Container[str] = ()) -> str:
    """The options in their groups, except those with one of the names in `without`."""
    groups: dict[str, list[TyperOption]] = {}
    for option in command.get_params(ctx):
        if not isinstance(option, TyperOption) or any(name in without for name in option.opts):
            continue
        if everything or not option.hidden:
            groups.setdefault(option.rich_help_panel or "Options", []).append(option)
    width = _width()
    lines: list[str] = []
    for group, options in groups.items():
        lines += ["", f"{group}:"]
        for option in options:
            lines += _row(_left(option), _right(option), width)
    return "\n".join([*lines, ""])


def paragraphs(command: TyperCommand) -> tuple[list[str], list[str]]:
    """Splits the description into paragraphs and examples."""
    whole = [" ".join(each.split()) for each in inspect.cleandoc(command.help or "").split("\n\n")]
    first = next((at for at, each in enumerate(whole) if each.startswith("Example")), len(whole))
    return whole[:first], [_HEADING.sub("", each) for each in whole[first:]]


def command_lines(command: str, width: int) -> list[str]:
    """Breaks a long command between its words, as a shell reads it."""
    first, *others = _WORD.findall(command)
    lines = [first]
    for word in others:
        if len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def usage(command: TyperCommand) -> str:
    """What follows the command's name: its options and arguments."""
    return " ".join(["[OPTIONS]", *(_usage(each) for each in command.params if isinstance(each, TyperArgument))])


def value_name(option: TyperOption) -> str:
    """The name of an option's value; empty for a flag."""
    return "" if option.is_flag else option.metavar or _value(option)


def default_of(parameter: TyperOption | TyperArgument) -> str:
    """The default as text; empty without one."""
    default = getattr(parameter.default, "value", parameter.default)
    if default is not None and not isinstance(default, bool):
        return str(default)
    return "yes" if default is True else ""


def argument_name(argument: TyperArgument) -> str:
    """The name of an argument in the usage."""
    return argument.metavar or (argument.name or "").upper().replace("_", "-")


def definition(name: str, meaning: str) -> str:
    """A name and its meaning, as options are shown."""
    return "\n".join(_row(f"  {name}", meaning, _width()))


def _text(command: TyperCommand, ctx: Context, *, everything: bool) -> str:
    width = _width()
    told, examples = paragraphs(command)
    lines: list[str] = []
    for paragraph in told if everything else told[:1]:
        lines += [*_wrapped(paragraph, width), ""]
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    lines.append(f"Usage: {ctx.command_path} {usage(command)}")
    if arguments:
        lines += ["", "Arguments:"]
        for argument in arguments:
            lines += _row(f"  {argument_name(argument)}", _right(argument), width)
    # `--help-all` is listed only where it shows more.
    without = () if _further(command) else (ALL,)
    lines += options_text(command, ctx, everything=everything, without=without).splitlines()
    shown = examples if everything else examples[:1]
    if shown:
        lines += ["", "Example:" if len(shown) == 1 else "Examples:"]
        lines += [f"  {line}" for example in shown for line in command_lines(example, width - 2)]
    if not everything:
        more = len(_further(command))
        lines += ["", f"{more} more option{'s' * (more > 1)}: {ctx.command_path} {ALL}"]
    return "\n".join([*lines, ""])


def _further(command: TyperCommand) -> list[TyperOption]:
    return [each for each in command.params if isinstance(each, TyperOption) and each.hidden]


def _usage(argument: TyperArgument) -> str:
    name = argument_name(argument).removesuffix("...") + "..." * (argument.nargs != 1)
    return name if argument.required else f"[{name}]"


def _left(option: TyperOption) -> str:
    shorts = [name for name in option.opts if not name.startswith("--")]
    longs = [f"--[no-]{name[2:]}" if option.secondary_opts else name for name in option.opts if name.startswith("--")]
    return "  " + f"{', '.join([*shorts, *longs])} {value_name(option)}".rstrip()


def _value(option: TyperOption) -> str:
    if option.type_descriptor.choices:
        return "WORD"
    # Any: typer passes the type on as it was written.
    annotation: Any = option.type_descriptor.annotation
    return _VALUES.get(next(iter(getattr(annotation, "__args__", ())), annotation), "TEXT")


def _right(parameter: TyperOption | TyperArgument) -> str:
    text = " ".join((parameter.help or "").split()).rstrip(".")
    choices = parameter.type_descriptor.choices
    if choices and not any(str(choice) in text for choice in choices):
        text += f": {', '.join(map(str, choices))}"
    if default := default_of(parameter):
        text += f" [default: {default}]"
    return text if not parameter.required or isinstance(parameter, TyperArgument) else f"{text} [required]"


def _row(left: str, right: str, width: int) -> list[str]:
    lines = _wrapped(right, width - _COLUMN)
    if len(left) + 2 > _COLUMN:
        return [left, *(" " * _COLUMN + line for line in lines)]
    return [f"{left:{_COLUMN}}{lines[0]}", *(" " * _COLUMN + line for line in lines[1:])]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _width() -> int:
    columns = shutil.get_terminal_size((80, 24)).columns
    return min(columns if columns >= 40 else 80, _WIDTH_MAX)
