"""`sojourn simulate`: simulates a system file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from sojourn import queueing
from sojourn.cluster.tasks import Tasks
from sojourn.commands.cluster_option import ClusterOption, with_cluster_option
from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.commands.progress import Stages
from sojourn.commands.system_options import SetOption, SystemArgument, exit_if_unstable, read_system
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.planning import replications as replications_of
from sojourn.planning.system_document import SystemDocument
from sojourn.report.plan.prediction_terminal import print_simulation
from sojourn.text import format, quantity


class Percentile(StrEnum):
    """A percentile of the response time."""

    p50 = "p50"
    p90 = "p90"
    p95 = "p95"
    p99 = "p99"
    p999 = "p999"


def register(app: typer.Typer) -> None:
    app.command("simulate")(with_cluster_option(_simulate))


def _simulate(
    system: SystemArgument,
    settings: SetOption = None,
    half_width: Annotated[
        str,
        typer.Option(help="Stop when the 95 % half-width is below this share of the mean, or of each --percentile."),
    ] = "2%",
    percentile: Annotated[
        list[Percentile] | None,
        typer.Option(help="A percentile that must converge; repeatable [default: the mean]."),
    ] = None,
    replications: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, help="The number of independent replications, in parallel on the cores or the cluster."
        ),
    ] = 1,
    jobs_max: Annotated[int, typer.Option(min=1, help="Stop after this many jobs in any case.")] = queueing.JOBS_MAX,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same figures.")] = 1,
    output_format: FormatOption = Format.text,
    *,
    cluster: ClusterOption,
) -> None:
    """Simulate a system of stations: response times with percentiles, utilisations, throughputs.

    Every figure has its own 95 % interval. A figure without a reliable interval is shown with the reason. Ctrl-C
    prints the estimates so far, marked, and exits with 1. An assessment writes its fitted server as a system file. With
    --cluster, the replications run there, with the same figures.

    Example: sojourn simulate runs/example/system.toml --half-width 1% --set station.server.speed=2
    """
    document = read_system(system, settings)
    exit_if_unstable(document)
    quiet = output_format is Format.json
    wanted = _half_width(half_width)
    if cluster.target is not None and replications == 1:
        raise CouldNotRun("a cluster runs replications, and there is one", "add --replications, such as 16")
    with cluster.tasks(quiet=quiet) as tasks:
        result = simulated(
            document,
            quiet=quiet,
            seed=seed,
            half_width=wanted,
            jobs_max=jobs_max,
            targets=[each.value for each in percentile or ()] or ["mean"],
            replications=replications,
            tasks=None if cluster.target is None else tasks,
        )
    if output_format is Format.json:
        print_json(result)
    else:
        print_simulation(result, data)
    if not result["complete"]:
        talk.print("interrupted: the figures are those so far", soft_wrap=True)
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def simulated(
    document: SystemDocument,
    *,
    quiet: bool,
    seed: int,
    half_width: float = 0.02,
    jobs_max: int = queueing.JOBS_MAX,
    targets: Sequence[queueing.Target] = ("mean",),
    replications: int = 1,
    tasks: Tasks | None = None,
) -> queueing.Simulation:
    """Simulates and shows progress on a terminal; replications run in this process unless `tasks` says where."""
    with Stages(talk, quiet=quiet) as stages:
        stages.begin("simulate", jobs_max)
        progress = partial(_show, stages, ", ".join(targets), half_width)
        try:
            if tasks is not None:
                result = replications_of.simulate(
                    document.system,
                    tasks,
                    half_width=half_width,
                    jobs_max=jobs_max,
                    seed=seed,
                    targets=targets,
                    replications=replications,
                    progress=progress,
                )
            else:
                result = queueing.simulate(
                    document.system,
                    half_width=half_width,
                    jobs_max=jobs_max,
                    seed=seed,
                    target=targets,
                    replications=replications,
                    progress=progress,
                )
        except ValueError as error:
            raise document.failure(str(error)) from error
        stages.done(f"{result['jobs']:,} jobs")
    return result


def _half_width(text: str) -> float:
    value = quantity.fraction(text)
    if not 0 < value < 1:
        raise CouldNotRun(f"--half-width {text}: an interval of that width says nothing", "write it as in 2% or 0.02")
    return value


def _show(
    stages: Stages,
    targets: str,
    wanted: float,
    jobs: int,
    jobs_max: int,
    estimate: float | None,
    half_width: float | None,
) -> None:
    said = ""
    if estimate is not None and half_width is not None and math.isfinite(half_width):
        said = f", {targets} {format.seconds(estimate)} ± {half_width:.2%} (wanted: {wanted:.2%})"
        # Its width falls with the square root of the jobs.
        jobs_max = min(jobs_max, max(jobs, round(jobs * (half_width / wanted) ** 2)))
    stages.update(jobs, jobs_max, f"{jobs:,} jobs{said}")
