"""`sojourn plan`: finds what a target needs, what it costs and how long it lasts; also `sojourn plan web99`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from sojourn.cluster.kept import kept
from sojourn.commands import plan_web99
from sojourn.commands.cluster_option import PROGRESS, ClusterOption, resumed_later, with_cluster_option
from sojourn.commands.formats import Format, FormatOption, data, print_json, print_where, talk
from sojourn.commands.progress import Stages
from sojourn.commands.system_options import SetOption, SystemArgument, read_system
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.planning.answers import as_json
from sojourn.planning.evaluation import Evaluator, Using
from sojourn.planning.growth import parse_growth
from sojourn.planning.mix import parse_price
from sojourn.planning.plan import RETURNS, Questions, parse_sweep, plan
from sojourn.planning.target import parse_target
from sojourn.report.plan.page import default_output, prepare, write
from sojourn.report.plan.terminal import print_plan


class _PlanGroup(TyperGroup):
    """`plan SYSTEM.toml` is short for `plan system SYSTEM.toml`."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["system", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Registers the command and its subcommands."""
    group = typer.Typer(
        cls=_PlanGroup,
        no_args_is_help=True,
        help=(
            "Plan capacity: what a target needs, what each resource gives and costs, how long it lasts.\n\n"
            "`sojourn plan SYSTEM.toml …` plans a system file (see `sojourn plan system --help`), `sojourn plan "
            "web99` sizes RAM, disk and connections for a SPECweb99-like file set.\n\n"
            "Example: sojourn plan studies/systems/public-site.toml --target 'p95 < 600ms at 10 req/s'"
        ),
    )
    group.command("system")(with_cluster_option(_system))
    plan_web99.register(group)
    app.add_typer(group, name="plan")


def _system(
    system: SystemArgument,
    target: Annotated[
        str,
        typer.Option(
            help="STATISTIC [of CLASS] < TIME [and loss < SHARE] [at LOAD], such as 'p95 < 300ms at 40 req/s'."
        ),
    ],
    settings: SetOption = None,
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PRICE", help="A resource's price, such as station.line.rate=20/Mbit/s; repeatable."),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=A..B",
            help="A parameter to sweep, such as station.line.rate=1Mbit/s..8Mbit/s [default: each lever].",
        ),
    ] = None,
    growth: Annotated[str | None, typer.Option(help="Growth of the traffic, such as 30%/year or 2%/month.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="When the growth starts [default: today].")] = None,
    using: Annotated[
        Using, typer.Option(help="Search with a solver where possible, or with simulation only.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of every simulation.")] = 1,
    output: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/plan-NAME].")] = None,
    output_format: FormatOption = Format.text,
    *,
    cluster: ClusterOption,
) -> None:
    """Find what a target needs: the smallest bandwidth, the fewest helpers, the smallest speed-up, the hit ratio.

    The plan also shows the largest traffic within the target, the effect of doubling each resource, sweeps, and on
    request the cheapest mix of priced resources and the day on which growth exhausts it. Searches use an analytic
    solver where one computes the statistic, and simulation with common random numbers otherwise; simulation confirms
    every answer.

    Where a station refuses jobs, response times are those of accepted jobs, and you can add `and loss < 0.1%` to a
    target (default: 1 %).

    STATISTIC is mean, p50, p90, p95, p99 or p999, or residence (of a station). Exit code 1 means that no single change
    and no mix meets the target.

    Example: sojourn plan public-site.toml --target 'p95 < 600ms at 10 req/s' --price station.line.rate=20/Mbit/s
    --price station.web.speed=50 --growth 30%/year
    """
    aim, document = parse_target(target, read_system(system, settings))
    questions = Questions(
        sweeps=[parse_sweep(each, document) for each in sweep or []],
        priced=[parse_price(each, document) for each in price or []],
        growth_per_year=None if growth is None else parse_growth(growth),
        start=None if start is None else _date(start),
        settings=settings or [],
    )
    folder = prepare(output or default_output(system))
    quiet = output_format is Format.json
    with resumed_later(folder.path), cluster.tasks(quiet=quiet) as tasks, Stages(talk, quiet=quiet) as stages:
        stages.begin("plan", 1.0)
        asked = [document.text, aim.text, seed, using, [*(sweep or []), *(price or [])]]
        with kept(tasks, folder.path / PROGRESS, asked, RETURNS) as tasks:
            found = plan(
                document,
                aim,
                Evaluator(aim.metric, seed=seed, using=using, loss_max=aim.loss_max),
                questions,
                lambda share, what: stages.update(share, 1.0, what),
                tasks,
            )
        stages.done(f"{found.simulations:,} simulations")
    report = write(folder, found, document)
    if output_format is Format.json:
        print_json(as_json(found))
    else:
        print_plan(found, data)
        print_where(report)
    if not (
        found.now.met or any(lever.needed is not None for lever in found.levers) or (found.mix and found.mix.cheapest)
    ):
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CouldNotRun(f"{text!r} is not a date", "write it as in 2026-11-22") from None
