"""Generates manual pages from the table of commands: one for `sojourn`, and one per command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sojourn import __version__
from sojourn.commands.command_table import Command, flattened


def write_pages(commands: Sequence[Command], folder: Path) -> None:
    """Writes sojourn.1 and a page per command into `folder`/man1, creating it if necessary."""
    pages = folder / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    runnable = list(flattened(list(commands)))
    (pages / "sojourn.1").write_text(_overview(runnable))
    for command in runnable:
        (pages / f"sojourn-{command.name.replace(' ', '-')}.1").write_text(_page(command))


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def _page(command: Command) -> str:
    title = f"sojourn-{command.name.replace(' ', '-')}"
    lines = [
        f'.TH {_roff(title.upper())} 1 "" "sojourn {__version__}"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(command.summary)}",
        ".SH SYNOPSIS",
        f".B sojourn {_roff(command.name)}",
        "[OPTIONS]",
        ".SH OPTIONS",
    ]
    for option in command.options:
        names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in option.names)
        summary = option.summary + (f": {', '.join(option.choices)}" if option.choices else "")
        lines += [".TP", names, _roff(summary)]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR sojourn (1)", ""])


def _overview(commands: Sequence[Command]) -> str:
    lines = [
        f'.TH SOJOURN 1 "" "sojourn {__version__}"',
        ".SH NAME",
        "sojourn \\- how much traffic a web system can take, what its bottleneck is, and what to change",
        ".SH COMMANDS",
    ]
    for command in commands:
        lines += [".TP", f"\\fBsojourn {_roff(command.name)}\\fR", _roff(command.summary)]
    return "\n".join([*lines, ""])
