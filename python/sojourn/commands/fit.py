"""`sojourn fit`: fits the parameters of a system file to measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, print_json, talk
from sojourn.commands.progress import Stages
from sojourn.failure import CouldNotRun


def register(app: typer.Typer) -> None:
    app.command("fit")(_fit)


def _fit(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of one server, or one table (CSV, JSON, Parquet).")],
    output: Annotated[Path | None, typer.Option(help="Write the system file here instead of printing it.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page here, with the estimates and what-if controls: FILE.html.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Read the table as requests, sizes, intervals or scaling.")] = None,
    servers: Annotated[
        int | None,
        typer.Option(min=1, help="Cores that share the work [default: as probed in load runs, 1 for tables]."),
    ] = None,
    r: Annotated[int | None, typer.Option(min=1, help="The most requests in service at once, if known.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.0, help="Requests per second to write into the file.")] = None,
    hit_ratio: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Share of hits, for a proxy.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for the folds and the bootstrap samples.")] = 1,
    output_format: FormatOption = Format.text,
) -> None:
    """Fit service demands to measurements and write the resulting system file.

    Input may be run folders of `sojourn assess`, of `sojourn load` (also with --search) or of `sojourn replay` with
    --probe; with several rates the model's response times are compared with the measured ones. Input may also be a
    table, recognised by its columns: the times of every request (demands and r by maximum likelihood), demands by
    document size (piecewise linear), utilisation and throughput by class (utilisation law), or throughput by clients
    (universal scalability law). Each estimate has a 95 % interval, and errors are always computed at points held out
    of the fit.

    Example: sojourn fit runs/monday runs/tuesday --output fitted.toml && sojourn predict fitted.toml
    """
    # SciPy takes a while to import, so it is imported only for this command.
    from sojourn.assessment.refit import refit
    from sojourn.calibration import load_runs
    from sojourn.calibration.fit import Options
    from sojourn.calibration.kinds import KINDS, fit_table
    from sojourn.calibration.tables import Table
    from sojourn.planning.answers import as_json

    if kind is not None and kind not in KINDS:
        raise CouldNotRun(f"{kind!r} is not a kind of table", f"one of {', '.join(KINDS)}")
    options = Options(servers=servers or 1, r=r, rate=rate or None, hit_ratio=hit_ratio, seed=seed)
    # Elsewhere than on a terminal there is nothing to say until the result.
    with Stages(talk, quiet=output_format is Format.json or not talk.is_terminal) as stages:
        if all(load_runs.is_load_run(run) for run in runs):
            found = load_runs.fit(runs, options, servers, stages)
        elif any(load_runs.is_load_run(run) for run in runs):
            raise CouldNotRun("load runs and others cannot be fitted together", "give folders of one kind")
        elif all(run.is_dir() for run in runs):
            found = refit(runs, options.rate, seed, stages)
        elif len(runs) == 1:
            stages.begin("read")
            found = fit_table(Table.read(runs[0]), options, kind, stages)
        else:
            raise CouldNotRun(
                "several tables cannot be fitted at once", "give run folders, or join the tables into one"
            )
        stages.done()
    text = found.system_text()
    if output is not None:
        _write(output, text, "--output")
    if report is not None:
        from sojourn.report.fit.page import page

        _write(report, page(found), "--report")
    if output_format is Format.json:
        # A saturated station's error is infinite.
        print_json(as_json(found.model_dump(exclude={"system"}) | {"system_file": text}))
    else:
        print(text if output is None else found.evidence())
    if report is not None:
        # Standard output may be the system file.
        talk.print(f"report: {report}", soft_wrap=True, highlight=False)


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise CouldNotRun(f"cannot write {path}: {error.strerror}", f"give another {option}") from error
