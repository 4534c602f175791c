"""`sojourn predict`: solves a system file with every applicable solver."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json, print_where, talk
from sojourn.commands.simulate import simulated
from sojourn.commands.system_options import SetOption, SystemArgument, exit_if_unstable, read_system
from sojourn.failure import EXIT_RAN_WITH_FAILURES
from sojourn.planning.prediction import predicted, simulated_too
from sojourn.report.plan.prediction_page import write
from sojourn.report.plan.prediction_terminal import print_prediction


def register(app: typer.Typer) -> None:
    app.command("predict")(_predict)


def _predict(
    system: SystemArgument,
    settings: SetOption = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Also simulate, for percentiles of every class.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    output: Annotated[
        Path | None, typer.Option(help="Also write a run's folder here, with a report that calculates.")
    ] = None,
    output_format: FormatOption = Format.text,
) -> None:
    """Predict response times, utilisations and the bottleneck, by every solver that applies.

    Each solver answers or says why it cannot; where several answer, they bracket the truth, and --simulate settles it.
    --set changes a parameter: a key of the file, a station's speed, a route's probability, or all traffic. The report
    of --output answers further questions in the browser: its controls change the same parameters.

    Example: sojourn predict studies/systems/public-site.toml --set station.line.rate=3Mbit/s --set traffic=2
    """
    document = read_system(system, settings)
    unstable = document.system.unstable_station()
    with talk.status("solving") if talk.is_terminal else nullcontext():
        result = predicted(document)
    simulation = None
    if unstable is None and (simulate or result["by"] is None):
        # If every solver refuses, simulation answers, or refuses too with a reason.
        simulation = simulated(document, quiet=output_format is Format.json, seed=seed)
        result = simulated_too(result, simulation)
    report = None if output is None else write(output, result, document)
    if output_format is Format.json:
        print_json(result)
    else:
        print_prediction(result, data)
        if output is not None:
            print_where(report)
    exit_if_unstable(document)
    if simulation is not None and not simulation["complete"]:
        talk.print("interrupted: the simulated figures are those so far", soft_wrap=True)
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)
