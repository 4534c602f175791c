"""`sojourn endpoints`: groups the requests of a log by endpoint."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from sojourn.applications import requests
from sojourn.applications.coverage import Coverage, coverage
from sojourn.applications.endpoints import endpoints
from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.commands.log_options import as_one, with_log_options
from sojourn.commands.progress import Stages
from sojourn.text import format
from sojourn.workload.log import LogOptions, require_log


def register(app: typer.Typer) -> None:
    app.command("endpoints")(with_log_options(_endpoints))


def _endpoints(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Access logs, folders or patterns, read as one; - for standard input."),
    ],
    endpoint: Annotated[
        list[str] | None,
        typer.Option(help="Requests like 'GET /api/*', or 'NAME=/api/*', are one endpoint; repeatable."),
    ] = None,
    allow_methods: Annotated[
        str, typer.Option(help="Methods that a load may use, comma-separated; others count as left out.")
    ] = "GET,HEAD",
    output_format: FormatOption = Format.text,
    *,
    log_options: LogOptions,
) -> None:
    """Group the requests of a log by endpoint, and report which of them a generated load can represent.

    Numbers, slugs and hashes in paths, and the values of queries, are generalised; a method with a generalised path is
    an endpoint. Rare requests are combined into one endpoint, and those for missing documents into another.

    Example: sojourn endpoints access.log --endpoint 'GET /api/*'
    """
    log, log_options = as_one(logs, log_options)
    require_log(log, log_options.also)
    with Stages(talk, quiet=output_format is Format.json or not talk.is_terminal) as stages:
        stages.begin("read")
        found = requests.read(log, log_options, stages.update)
        stages.done(f"{found.requests:,} requests")
    covered = coverage(found, endpoints(found.rows, endpoint or []), allow_methods.upper().split(","))
    if output_format is Format.json:
        print_json(_as_json(covered, found))
    else:
        _print(covered, found)


def _as_json(covered: Coverage, found: requests.LogRequests) -> dict[str, object]:
    return {
        "tool": "endpoints",
        "requests": covered.requests,
        "requests_fraction": covered.fraction,
        "malformed_lines": found.malformed,
        "duration_seconds": found.duration_seconds,
        "peak_requests_per_second": found.peak_requests_per_second,
        "endpoints": [
            {
                "name": each.name,
                "method": each.method,
                "requests": each.count,
                "fraction": each.count / covered.requests,
                "targets": each.targets,
                "mean_bytes": each.mean_bytes,
                "mean_request_time_seconds": each.mean_logged_seconds,
                "statuses": {str(status): count for status, count in sorted(each.statuses().items())},
            }
            for each in covered.endpoints
        ],
        "left_out": [vars(each) for each in covered.left_out],
    }


def _print(covered: Coverage, found: requests.LogRequests) -> None:
    has_times = any(each.mean_logged_seconds is not None for each in covered.endpoints)
    table = Table(box=None, pad_edge=False)
    table.add_column("endpoint", overflow="fold")
    for name in ("requests", "share", "targets", "mean size", *(["mean time"] if has_times else [])):
        table.add_column(name, justify="right")
    table.add_column("statuses")
    for each in covered.endpoints:
        cells = [
            each.name,
            f"{each.count:,}",
            format.percent(each.count / covered.requests),
            f"{each.targets:,}",
            format.size(each.mean_bytes),
        ]
        if has_times:
            seconds = each.mean_logged_seconds
            cells.append("" if seconds is None else f"{seconds * 1e3:,.1f} ms")
        common = [str(status) for status, _ in each.statuses().most_common(4)]
        table.add_row(*cells, " ".join(common))
    data.print(table)
    data.print(
        f"\n{format.percent(covered.fraction)} of {covered.requests:,} requests; the busiest minute had "
        f"{found.peak_requests_per_second:,.1f} requests/s",
        highlight=False,
    )
    for missing in covered.left_out:
        data.print(f"left out: {missing.count:,} ({format.percent(missing.fraction)}): {missing.why}", highlight=False)
