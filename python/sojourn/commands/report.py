"""`sojourn report`: draws a run's report again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json
from sojourn.report import write_report
from sojourn.run_folder import RunFolder
from sojourn.terminal import print_summary


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("report")(_report)


def _report(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    output_format: FormatOption = Format.text,
) -> None:
    """Draw a run's report.html again and print its summary.

    Example: sojourn report runs/demo
    """
    folder = RunFolder.open(run)
    path = write_report(folder)
    if output_format is Format.json:
        print_json(folder.summary().model_dump(mode="json"))
        return
    print_summary(folder.summary(), data)
    data.print(f"report: {path}", soft_wrap=True)
