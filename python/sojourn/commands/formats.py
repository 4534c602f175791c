"""What every command that prints a result shares: `--format`, and where data and talk go."""

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
"""Characters by which a terminal is steered, or text is shown in another order than it has."""
_SHOWN = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _STEERING if code not in (9, 10)}


class Terminal(Console):
    """A console that shows what would steer it: paths in logs and names of files are other people's."""

    def render_str(self, text: str, **how: Any) -> Text:
        """The text with such characters written out."""
        return super().render_str(text.translate(_SHOWN), **how)


talk = Terminal(stderr=True)
"""Standard error: progress, warnings. Standard output is for data alone."""
data = Terminal()


class Format(StrEnum):
    """How a result is printed."""

    text = "text"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="text for people, json for programs.")]


def show(
    output_format: Format, as_json: Callable[[], object], as_text: Callable[[Console], None], page: Path | None
) -> None:
    """What was found in the form that was asked for; people are told where its page is."""
    if output_format is Format.json:
        print_json(as_json())
        return
    as_text(data)
    print_where(page)


def print_where(page: Path | None) -> None:
    """Where a report is, if it was written."""
    if page is not None:
        data.print(f"report: {page}", soft_wrap=True)


def print_json(value: object) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, indent=2))
