"""Generates manual pages from the table of commands: one for `sojourn`, and one per command."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from sojourn import __version__
from sojourn.commands.catalogue import ABOUT, EXIT_CODES
from sojourn.commands.command_table import Command, Option, flattened
from sojourn.commands.help import command_lines

_EXIT = "Exit code"
_WIDTH = 72
"""The columns of an example on a terminal of 80."""
_ESCAPES = str.maketrans(
    {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"},
)
"""Groff would print typographic quotes and accents, which no shell takes."""


def write_pages(commands: Sequence[Command], folder: Path) -> None:
    """Writes sojourn.1 and a page per command into `folder`/man1, creating it if necessary."""
    pages = folder / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    runnable = list(flattened(list(commands)))
    (pages / "sojourn.1").write_text(_lines(_overview(runnable)))
    for command in runnable:
        (pages / f"{_title(command)}.1").write_text(_lines(_page(command)))


def _lines(lines: Iterator[str]) -> str:
    return "\n".join([*lines, ""])


def _title(command: Command) -> str:
    return f"sojourn-{command.name.replace(' ', '-')}"


def _overview(commands: Sequence[Command]) -> Iterator[str]:
    yield from _head("sojourn", "load, measure and model web systems")
    yield from (
        ".SH SYNOPSIS",
        ".B sojourn",
        r"\fICOMMAND\fR [OPTIONS]",
        ".SH DESCRIPTION",
        _roff(ABOUT),
        ".SH COMMANDS",
    )
    for command in commands:
        yield from (".TP", f".BR {_roff(_title(command))} (1)", _roff(command.summary))
    yield from _exit_codes(EXIT_CODES)


def _page(command: Command) -> Iterator[str]:
    yield from _head(_title(command), command.summary)
    yield from (".SH SYNOPSIS", f".B sojourn {_roff(command.name)}", _roff(command.usage), ".SH DESCRIPTION")
    yield from _blocks(command.description)
    if command.arguments:
        yield ".SH ARGUMENTS"
        for argument in command.arguments:
            yield from _item(argument)
    yield ".SH OPTIONS"
    groups = list(dict.fromkeys(option.group for option in command.options))
    for group in groups:
        yield f".SS {_roff(group)}"
        for option in command.options:
            if option.group == group:
                yield from _item(option)
    yield from _blocks(command.details)
    if _EXIT not in command.details:
        yield from _exit_codes(EXIT_CODES)
    yield from (".SH SEE ALSO", ".BR sojourn (1)")


def _head(title: str, summary: str) -> Iterator[str]:
    yield f'.TH {_roff(title.upper())} 1 "" "sojourn {__version__}"'
    # Ragged lines without hyphens, in which names can be searched.
    yield from (".nh", ".ad l")
    yield from (".SH NAME", rf"{_roff(title)} \- {_roff(summary.rstrip('.'))}")


def _item(option: Option) -> Iterator[str]:
    names = ", ".join(rf"\fB{_roff(name)}\fR" for name in option.names)
    are_named = not option.choices or "|" in option.value
    meaning = option.summary + ("" if are_named else f": {', '.join(option.choices)}")
    if option.default and "[default:" not in meaning:
        meaning += f" [default: {option.default}]"
    yield from (".TP", names + (rf" \fI{_roff(option.value)}\fR" if option.value else ""), _roff(f"{meaning}."))


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, examples as they are typed, and the exit codes."""
    shows = False
    for block in filter(None, text.split("\n\n")):
        if block.startswith("Example"):
            # The first of them has the heading in its line, or as a line of its own.
            shows = True
            yield ".SH EXAMPLES"
            block = block.partition(":")[2].lstrip() if ":" in block.partition("\n")[0] else block.partition("\n")[2]
        if block.startswith(_EXIT):
            yield from _exit_codes(block)
        elif block and "\n" not in block and " " not in block:
            shows = False
            yield f".SH {_roff(block.upper())}"
        elif shows and (block.startswith(("sojourn ", " ")) or "\n" in block):
            yield from _example(block)
        elif block:
            # Below examples, paragraphs have a heading of their own.
            yield from [".SH NOTES"] * shows
            shows = False
            yield from (".PP", *map(_roff, block.splitlines()))


def _example(block: str) -> Iterator[str]:
    """Lines of what is shown, in words, and the commands, which are broken anew."""
    is_verbatim = False
    yield ".PP"
    for line in re.sub(r"\\\n\s*", "", textwrap.dedent(block)).splitlines():
        is_command = line.startswith((" ", "sojourn "))
        if is_command != is_verbatim:
            yield ".EX" if is_command else ".EE"
            is_verbatim = is_command
        yield from map(_roff, command_lines(line.strip(), _WIDTH) if is_command else [line])
    if is_verbatim:
        yield ".EE"


def _exit_codes(text: str) -> Iterator[str]:
    yield from (".SH EXIT STATUS", _roff(text.partition(":")[2].strip()))


def _roff(text: str) -> str:
    escaped = text.translate(_ESCAPES)
    return "\\&" + escaped if escaped.startswith(".") else escaped
