"""`sojourn ui`: edits a system file as a drawing, in the browser, and lists and compares runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import talk
from sojourn.report.ui.edited_file import EditedFile
from sojourn.report.ui.server import EditorPage


def register(app: typer.Typer) -> None:
    app.command("ui")(_ui)


def _ui(
    system: Annotated[
        Path | None, typer.Argument(help="The system file (TOML); without one, or with a new name, an empty drawing.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="The folder whose runs are listed.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port [default: a free one].")] = 0,
) -> None:
    """Edit a system file as a drawing in the browser, with answers beside it; list and compare runs.

    The command prints an address of this machine, whose token nobody else has, and serves it until Ctrl-C. Stations,
    classes and routes are edited as a drawing; utilisations, means and percentiles follow each change, solved in the
    page. Save writes the TOML that predict, simulate and plan read, with the comments and the order of the file. It
    never overwrites a file that has changed on the disk meanwhile without asking. A second page lists the runs of a
    folder with their reports, and compares two as sojourn compare does.

    Example: sojourn ui studies/systems/public-site.toml
    """
    file = EditedFile(system, Path())
    try:
        with EditorPage(file, runs, port) as page:
            talk.print(f"open: {page.address}", soft_wrap=True, highlight=False, markup=False)
            threading.Event().wait()
    except KeyboardInterrupt:
        return
