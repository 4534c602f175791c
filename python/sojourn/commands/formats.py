"""Shared by all commands that print a result: the option `--format`, and the streams for data and messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

_STEERING = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Control characters, and those that reorder text."""
_SHOWN = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _STEERING if code not in (9, 10)}


class Terminal(Console):
    """A console that escapes control characters, because paths in logs and file names are untrusted."""

    def render_str(self, text: str, **how: Any) -> Text:
        """The text with control characters escaped."""
        return super().render_str(text.translate(_SHOWN), **how)


# Brackets and colons are text as any other: they come from logs, addresses and file names, too.
talk = Terminal(stderr=True, markup=False, emoji=False)
"""Standard error, for progress and warnings. Standard output carries only data."""
data = Terminal(markup=False, emoji=False)


class Format(StrEnum):
    text = "text"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="text for people, json for programs.")]


def show(
    output_format: Format, as_json: Callable[[], object], as_text: Callable[[Console], None], page: Path | None
) -> None:
    """Prints the result in the requested format; for people with the place of its report."""
    if output_format is Format.json:
        print_json(as_json())
        return
    as_text(data)
    print_where(page)


def print_where(page: Path | None) -> None:
    """Prints the path of the report, if it was written."""
    if page is not None:
        data.print(f"report: {page}", soft_wrap=True)


def print_json(value: object) -> None:
    """Prints one JSON object on standard output."""
    print(json.dumps(value, indent=2))
