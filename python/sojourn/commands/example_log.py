"""`sojourn example-log`: writes a synthetic log from published statistics, the one of `make demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn import _native
from sojourn.commands.formats import talk


def register(app: typer.Typer) -> None:
    app.command("example-log")(_example_log)


def _example_log(
    output: Annotated[Path, typer.Argument(help="The file to write.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
) -> None:
    """Write a synthetic access log from published statistics of web traffic.

    One day in Combined Log Format: log-normal document sizes (mu 7.811, sigma 1.573), Zipf popularity, sessions of
    pages with embedded objects and think times, two busy periods a day.

    Example: sojourn example-log example.log && sojourn assess example.log
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    _native.synthesise_log(str(output), seed)
    talk.print(f"wrote {output}", soft_wrap=True)
