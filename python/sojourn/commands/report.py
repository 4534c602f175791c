"""`sojourn report`: writes a run's report again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.applications.summary import SUMMARY as APPLICATION
from sojourn.assessment.summary import read_summary
from sojourn.commands.formats import Format, FormatOption, data, print_json, print_where
from sojourn.loading import folder as load_folder
from sojourn.report.application.page import read_summary as read_application
from sojourn.report.application.page import write_report as write_application_report
from sojourn.report.application.terminal import print_application
from sojourn.report.assessment.page import write_report
from sojourn.report.assessment.terminal import print_summary
from sojourn.report.load import search
from sojourn.report.load.terminal import print_found, print_result
from sojourn.report.load.writing import write_report as write_load_report
from sojourn.results.run_folder import RunFolder


def register(app: typer.Typer) -> None:
    app.command("report")(_report)


def _report(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    output_format: FormatOption = Format.text,
) -> None:
    """Write a run's report.html again and print its summary.

    Example: sojourn report runs/example
    """
    if load_folder.is_search(run):
        _report_search(RunFolder(run), output_format)
        return
    if load_folder.is_load_run(run):
        _report_load(run, output_format)
        return
    if (run / APPLICATION).is_file():
        _report_application(run, output_format)
        return
    folder = RunFolder.open(run)
    path = write_report(folder)
    if output_format is Format.json:
        print_json(read_summary(folder).model_dump(mode="json"))
        return
    print_summary(read_summary(folder), data)
    print_where(path)


def _report_search(folder: RunFolder, output_format: Format) -> None:
    path = search.write_report(folder)
    record = search.read(folder)
    if output_format is Format.json:
        print_json(record.as_json())
        return
    print_found(search.found_of(record), record, data)
    print_where(path)


def _report_application(run: Path, output_format: Format) -> None:
    path = write_application_report(RunFolder(run))
    summary = read_application(RunFolder(run))
    if output_format is Format.json:
        print_json(summary.model_dump(mode="json"))
        return
    print_application(summary, data)
    print_where(path)


def _report_load(run: Path, output_format: Format) -> None:
    path = write_load_report(run)
    result = load_folder.read(run)
    if output_format is Format.json:
        print_json(result.record.as_json())
        return
    print_result(result, data)
    print_where(path)
