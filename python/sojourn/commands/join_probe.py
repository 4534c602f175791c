"""`sojourn join-probe`: joins a probe recording from the server's machine to a run measured from another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.assessment.summary import read_summary
from sojourn.commands.formats import Format, FormatOption, data, print_json, print_where
from sojourn.failure import CouldNotRun
from sojourn.loading import folder as load_folder
from sojourn.loading.probed import attach
from sojourn.loading.steps import with_saturation
from sojourn.probe import files
from sojourn.probe.merging import merge
from sojourn.probe.recording import Recording
from sojourn.report.assessment.page import write_report
from sojourn.report.load.terminal import print_result
from sojourn.report.load.writing import write_report as write_load_report
from sojourn.results.run_folder import RunFolder
from sojourn.text import quantity


def register(app: typer.Typer) -> None:
    app.command("join-probe")(_join)


def _join(
    run: Annotated[Path, typer.Argument(help="The run folder of a load, a replay or an assessment.")],
    recording: Annotated[
        Path, typer.Argument(help="The recording by sojourn probe --output FILE.parquet on the server.")
    ],
    offset: Annotated[
        str, typer.Option(help="Added to the recording's times, if its clock is behind: 12ms or -3ms.")
    ] = "0",
    output_format: FormatOption = Format.text,
) -> None:
    """Join a recording of a server's resource usage to a run by time, and write the run's report again.

    Both contain seconds since 1970 by their machines' clocks. If the clocks differ, give the offset; the result
    records it. A recording joined earlier is replaced.

    Example: sojourn join-probe runs/tuesday server.parquet --offset 12ms
    """
    moved, recorded = _signed_seconds(offset), files.read(recording)
    if load_folder.is_load_run(run):
        _join_load(run, recorded, moved, output_format)
        return
    folder = RunFolder.open(run)
    timeline = folder.table("timeline.parquet")
    if timeline is None:
        raise CouldNotRun(f"{run} holds no timeline", "it ended before its first step: measure again")
    plain = timeline.drop([name for name in timeline.columns if name.startswith("probe_")])
    folder.write_frame("timeline.parquet", merge(plain, recorded, offset_seconds=moved))
    path = write_report(folder)
    if output_format is Format.json:
        print_json(read_summary(folder).model_dump(mode="json"))
        return
    print_where(path)


def _join_load(run: Path, recorded: Recording, moved: float, output_format: Format) -> None:
    result = with_saturation(attach(load_folder.read(run), recorded, offset_seconds=moved))
    load_folder.rewrite(RunFolder(run), result)
    report = write_load_report(run)
    if output_format is Format.json:
        print_json(result.record.as_json())
        return
    print_result(result, data)
    print_where(report)


def _signed_seconds(text: str) -> float:
    if text.strip().lstrip("+-") == "0":
        return 0.0
    sign = -1.0 if text.strip().startswith("-") else 1.0
    return sign * quantity.seconds(text.strip().lstrip("+-"))
