"""`sojourn simulate`: a system file under the simulator."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sojourn import _native
from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.progress import Stages
from sojourn.terminal import print_simulation


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("simulate")(_simulate)


def _simulate(
    system: Annotated[Path, typer.Argument(help="The system file (TOML).")],
    half_width: Annotated[
        float, typer.Option(help="Stop when the 95 % half-width of every mean is below this share of it.")
    ] = 0.02,
    jobs_max: Annotated[int, typer.Option(help="Stop after this many jobs in any case.")] = 50_000_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same figures.")] = 1,
    output_format: FormatOption = Format.text,
) -> None:
    """Simulate a system of stations: response times with percentiles, utilisations, throughputs.

    An assessment writes its fitted server as such a file.

    Example: sojourn simulate runs/demo/system.toml --half-width 0.01
    """
    try:
        text = system.read_text()
    except OSError as error:
        raise CouldNotRun(f"cannot read {system}: {error.strerror}", "give a system file") from error
    with Stages(talk, quiet=output_format is Format.json) as stages:
        stages.begin("simulate", jobs_max)
        try:
            result = _native.simulate_system(
                text, half_width=half_width, jobs_max=jobs_max, seed=seed, progress=partial(_show, stages)
            )
        except ValueError as error:
            raise CouldNotRun(f"{system}: {error}") from error
        stages.done(f"{result['jobs']:,} jobs")
    if output_format is Format.json:
        print_json(result)
    else:
        print_simulation(result, data)
    if not result["complete"]:
        talk.print("interrupted: the figures are those so far", soft_wrap=True)
        sys.exit(EXIT_RAN_WITH_FAILURES)


def _show(stages: Stages, jobs: int, jobs_max: int, half_width: float | None) -> None:
    stages.update(jobs, jobs_max, "" if half_width is None else f"half-width {half_width:.1%} of the mean")
