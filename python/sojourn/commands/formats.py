"""What every command that prints a result shares: `--format`, and where data and talk go."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

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


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, indent=2))
