"""`sojourn report`: draws a run's report again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json
from sojourn.loading import folder as load_folder
from sojourn.loading.terminal import print_result
from sojourn.report import load_run, write_report
from sojourn.report.load_run import search
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

    Example: sojourn report runs/example
    """
    if search.is_search(run):
        path = search.write_report(run)
        data.print(f"report: {path}", soft_wrap=True)
        return
    if load_folder.is_load_run(run):
        _report_load(run, output_format)
        return
    folder = RunFolder.open(run)
    path = write_report(folder)
    if output_format is Format.json:
        print_json(folder.summary().model_dump(mode="json"))
        return
    print_summary(folder.summary(), data)
    data.print(f"report: {path}", soft_wrap=True)


def _report_load(run: Path, output_format: Format) -> None:
    path = load_run.write_report(run)
    result = load_folder.read(run)
    if output_format is Format.json:
        print_json(dict(result.record))
        return
    print_result(result, data)
    data.print(f"report: {path}", soft_wrap=True)
