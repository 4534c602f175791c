"""`sojourn cache simulate`: simulates cache replacement policies on a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn import _native
from sojourn.caching.requests import fingerprint, read_requests
from sojourn.caching.simulation import default_sizes, simulate
from sojourn.cluster.kept import kept
from sojourn.commands.cluster_option import PROGRESS, ClusterOption, resumed_later, with_cluster_option
from sojourn.commands.formats import Format, FormatOption, show, talk
from sojourn.commands.help import Group
from sojourn.commands.log_options import with_log_options
from sojourn.commands.progress import Stages
from sojourn.failure import CouldNotRun
from sojourn.report.caching.page import prepare, write
from sojourn.report.caching.terminal import print_cache_simulation
from sojourn.text import quantity
from sojourn.workload.log import LogOptions

_POLICIES = dict(_native.cache_policies())
_ADMISSIONS = dict(_native.cache_admissions())


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=Group, no_args_is_help=True, help="Simulate caches on a trace.")
    group.callback()(_group)
    group.command("simulate")(with_cluster_option(with_log_options(_simulate)))
    app.add_typer(group, name="cache")


def _group() -> None:
    """Simulate caches on a trace."""


def _simulate(
    trace: Annotated[
        str, typer.Argument(help="An access log, a trace of `sojourn trace --output`, or *.oracleGeneral.bin[.gz].")
    ],
    policy: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(_POLICIES)}; repeatable [default: all].")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Cache sizes, such as 64MiB,1GiB [default: 0.1 % to 100 % of all objects].")
    ] = None,
    admission: Annotated[
        str, typer.Option(help="; ".join(f"{name}: {summary}" for name, summary in _ADMISSIONS.items()) + ".")
    ] = "all",
    object_limit: Annotated[str | None, typer.Option(help="The largest object to cache [default: any].")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for spreading a log's requests within their second.")] = 1,
    output: Annotated[Path | None, typer.Option(help="Write a folder: report.html, cache.json, Parquet, SVG.")] = None,
    output_format: FormatOption = Format.text,
    *,
    log_options: LogOptions,
    cluster: ClusterOption,
) -> None:
    """Simulate cache replacement policies: the miss ratio by requests and by bytes, over the size of the cache.

    Only objects' bytes count, without a cache's overhead. belady knows the future: it is the optimum for objects of
    equal size, if the cache must admit every object that is requested again.

    Example: sojourn cache simulate access.log.gz --sizes 1MiB,4MiB,16MiB --output runs/cache
    """
    policies = _known("policy", policy or list(_POLICIES), _POLICIES)
    _known("admission", [admission], _ADMISSIONS)
    chosen = None if sizes is None else [quantity.size_bytes(part) for part in sizes.split(",")]
    object_bytes_max = None if object_limit is None else quantity.size_bytes(object_limit)
    folder = prepare(output) if output else None
    quiet = output_format is Format.json
    place = None if folder is None else folder.path
    with resumed_later(place), cluster.tasks(quiet=quiet) as tasks, Stages(talk, quiet=quiet) as stages:
        stages.begin("read")
        requests = read_requests(trace, log_options, seed, stages.update)
        stages.done(f"{len(requests):,} requests")
        stages.begin("simulate")
        cache_sizes = chosen or default_sizes(requests)
        asked = [fingerprint(requests), policies, cache_sizes, admission, object_bytes_max]
        with kept(tasks, None if place is None else place / PROGRESS, asked) as tasks:
            found = simulate(
                trace,
                requests,
                policies,
                cache_sizes,
                admission=admission,
                object_bytes_max=object_bytes_max,
                progress=stages.update,
                tasks=tasks,
            )
        stages.done(f"{len(found.points):,} simulations")
    page = write(folder, found) if folder else None
    show(output_format, found.as_json, lambda console: print_cache_simulation(found, console), page)


def _known(what: str, names: list[str], known: dict[str, str]) -> list[str]:
    for name in names:
        if name not in known:
            raise CouldNotRun(f"there is no {what} {name!r}", f"use {', '.join(known)}")
    return list(dict.fromkeys(names))
