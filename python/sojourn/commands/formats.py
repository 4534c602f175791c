"""What every command that prints a result shares: `--format`, and where data and talk go."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

talk = Console(stderr=True)
"""Standard error: progress, warnings. Standard output is for data alone."""
data = Console()


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
