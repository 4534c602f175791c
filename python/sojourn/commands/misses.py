"""`sojourn misses`: simulates cache misses per request, for machines without hardware counters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from sojourn.cache_misses import Measurement, Request, measure
from sojourn.cache_misses.lock_step import Mix, Requests
from sojourn.cache_misses.measurement import LABEL, Asked, Value
from sojourn.cache_misses.viewers import Viewers, films_of
from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.commands.progress import Stages
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.report.terminal import table
from sojourn.text import format

_CACHE = "BYTES,WAYS,LINE"
_REQUESTS = 500
_CLIENTS, _SECONDS = 10, 5.0


def register(app: typer.Typer) -> None:
    app.command("misses", context_settings={"allow_interspersed_args": False})(_misses)


def _misses(
    command: Annotated[list[str], typer.Argument(help="The server, in the foreground: -- COMMAND ARGUMENTS.")],
    url: Annotated[str, typer.Option(help="Its address: http://127.0.0.1:8080, or rtsp://127.0.0.1:8554.")],
    path: Annotated[list[str] | None, typer.Option(help="Request this path or film; repeatable [default: /].")] = None,
    mix: Annotated[Path | None, typer.Option(help="Pick at random from a file list: lines of `/path weight`.")] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help=f"N: runs make N and 2N requests [default: {_REQUESTS}].")
    ] = None,
    connection: Annotated[
        Literal["keep-alive", "close"] | None,
        typer.Option(help="One connection for all requests, or one each [default: keep-alive]."),
    ] = None,
    media: Annotated[
        Path | None, typer.Option(help="A list of films, a path per line, assigned to the viewers in turn.")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(min=1, max=10_000, help=f"Viewers of a streaming server [default: {_CLIENTS}].")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help=f"T: viewers play for T, and for 2T [default: {_SECONDS:g}].")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Repetitions of both runs.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random requests.")] = 1,
    i1: Annotated[str | None, typer.Option(metavar=_CACHE, help="Instruction cache [default: the machine's].")] = None,
    d1: Annotated[str | None, typer.Option(metavar=_CACHE, help="First data cache [default: the machine's].")] = None,
    ll: Annotated[str | None, typer.Option(metavar=_CACHE, help="Last cache [default: the machine's].")] = None,
    free_running: Annotated[bool, typer.Option(help="Use the real clock: runs then differ a little.")] = False,
    output_format: FormatOption = Format.text,
) -> None:
    """Simulate the caches under a server (valgrind's cachegrind): instructions and misses, in user mode.

    Use it on machines without hardware counters. The server is restarted for each run. A web server answers N, then 2N
    requests, one after the other, and the difference excludes start-up. Its clocks stand still and nothing times out,
    so that the same seed gives the same counts. A streaming server (rtsp://) sends to viewers for T, then for 2T
    seconds of a simulated clock, which advances only when all due work is done, so that a slow simulation still sends
    on time. Kernel work is not included, and no time is measured.

    Example: sojourn misses --url http://127.0.0.1:8080 --path /index.html -- sojourn-engine serve site --listen
    127.0.0.1:8080

             sojourn misses --url rtsp://127.0.0.1:8554 --path /film.mp4 --clients 50 -- sojourn-engine stream films
    """
    if url.startswith("http://"):
        _refuse(url, {"--media": media, "--clients": clients, "--seconds": seconds})
        asked: Asked = Requests(_mix(path, mix), requests or _REQUESTS, seed, connection or "keep-alive")
    elif url.startswith("rtsp://"):
        only_http = {"--mix": mix, "--requests": requests, "--connection": connection}
        _refuse(url, {**only_http, "--free-running": free_running or None})
        asked = Viewers(_films(path, media), clients or _CLIENTS, _SECONDS if seconds is None else seconds)
    else:
        raise CouldNotRun(f"{url!r} is not a server's address", "give http://HOST:PORT or rtsp://HOST:PORT")
    given = (("I1", i1), ("D1", d1), ("LL", ll))
    request = Request(
        command=command,
        url=url,
        asked=asked,
        repetitions=repetitions,
        caches=tuple((name, geometry) for name, geometry in given if geometry is not None),
        hold=not free_running,
    )
    with Stages(talk, quiet=output_format is Format.json) as stages:
        stages.begin("misses", 1.0)
        found = measure(request, stages.update)
        stages.done(f"{2 * len(found.longer)} runs")
    if output_format is Format.json:
        print_json(found.as_json())
    else:
        _print(found)
    if not found.complete:
        talk.print(f"interrupted: {len(found.longer)} of {repetitions} repetitions were complete", soft_wrap=True)
    if found.void or not found.complete:
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _refuse(url: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise CouldNotRun(f"{name} does not apply to a server at {url}", "leave it out")


def _mix(path: list[str] | None, mix: Path | None) -> Mix:
    if path and mix:
        raise CouldNotRun("--path and --mix both choose the requests", "give one of them")
    paths = path or ["/"]
    return Mix.of_filelist(mix) if mix else Mix(paths, [1.0] * len(paths))


def _films(path: list[str] | None, media: Path | None) -> list[str]:
    if bool(path) == (media is not None):
        raise CouldNotRun(
            "--path and --media both choose the films, and one is needed",
            "give --path /film.mp4, or --media with a list",
        )
    return films_of(media) if media else [f"/{each.lstrip('/')}" for each in path or ()]


def _print(found: Measurement) -> None:
    caches = ", ".join(
        f"{name} {format.size(cache.size_bytes)} {cache.associativity} {cache.line_bytes} B lines"
        for name, cache in found.geometry.items()
    )
    data.print(Text(f"{LABEL}: {caches}", style="bold"), soft_wrap=True)
    if found.void:
        data.print(Text(f"void: {found.void}", style="bold red"), soft_wrap=True)
    for per, values in ((found.request.asked.unit.replace("_", "-"), found.per_unit), ("second", found.per_second)):
        if values is not None:
            data.print(_figures(f"per {per}", values))
    agreement = {True: "all repetitions gave the same counts", False: "repetitions differ, as shown", None: "one run"}
    data.print(Text(f"{found.valgrind}; {agreement[found.is_identical]}", style="dim"))
    if not found.request.hold:
        data.print(Text("time was not virtual", style="dim"))
    elif not found.takes_turns:
        data.print(Text("threads did not take turns in a fixed order: that needs real-time scheduling", style="dim"))


def _figures(title: str, values: Mapping[str, Value]) -> Table:
    figures = table(title, "mean", "least", "most")
    for name, value in values.items():
        figures.add_row(name, *(f"{number:,.2f}" for number in (value.mean, value.minimum, value.maximum)))
    return figures
