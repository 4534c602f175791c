"""What the commands on system files share: the file, `--set`, and shares such as `2%`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.failure import CouldNotRun
from sojourn.planning.system_document import SystemDocument

SystemArgument = Annotated[Path, typer.Argument(help="The system file (TOML); docs/models.md has its schema.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a parameter, as station.web.speed=2; again for more."),
]


def read_system(path: Path, settings: list[str] | None) -> SystemDocument:
    """The system with its settings made."""
    return SystemDocument.read(path, settings or [])


def share(text: str) -> float:
    """A share such as `2%` or `0.02`, above 0 and below 1.

    Raises:
        CouldNotRun: if it is none.
    """
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise CouldNotRun(f"{text!r} is not a share", "write it as in 2% or 0.02")
    return value
