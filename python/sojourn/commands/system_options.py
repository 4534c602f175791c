"""Shared by commands on system files: reading, `--set`, the exit for unstable systems, shares such as `2%`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import talk
from sojourn.failure import EXIT_RAN_WITH_FAILURES
from sojourn.planning.system_document import SystemDocument

SystemArgument = Annotated[Path, typer.Argument(help="The system file (TOML); docs/models.md has its schema.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a parameter, such as station.web.speed=2; repeatable."),
]


def read_system(path: Path, settings: list[str] | None) -> SystemDocument:
    """Reads the system and applies the settings."""
    return SystemDocument.read(path, settings or [])


def exit_if_unstable(document: SystemDocument) -> None:
    """Exits with the reason if open traffic overloads a station, so that there is no steady state."""
    unstable = document.system.unstable_station()
    if unstable is None:
        return
    load = document.system.open_utilisations()[unstable]
    talk.print(
        f"error: {document.source}: station {unstable} is unstable: its utilisation would be {load:.3g}\n"
        "hint: lower the rate or its demand, or give it more servers or speed",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    raise typer.Exit(EXIT_RAN_WITH_FAILURES)
