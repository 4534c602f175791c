"""`sojourn misses`: cache misses per request, simulated where the processor does not count them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sojourn.cache_misses import Measurement, Request, measure
from sojourn.cache_misses.lock_step import Mix
from sojourn.cache_misses.measurement import LABEL
from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.failure import CouldNotRun
from sojourn.progress import Stages
from sojourn.report import format
from sojourn.terminal import table

_CACHE = "BYTES,WAYS,LINE"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("misses", context_settings={"allow_interspersed_args": False})(_misses)


def _misses(
    command: Annotated[list[str], typer.Argument(help="The server, in the foreground: -- COMMAND ARGUMENTS.")],
    url: Annotated[str, typer.Option(help="Where it listens, as http://127.0.0.1:8080.")],
    path: Annotated[list[str] | None, typer.Option(help="Ask for this path; may be given again [default: /].")] = None,
    mix: Annotated[Path | None, typer.Option(help="Pick at random from a file list: lines of `/path weight`.")] = None,
    requests: Annotated[int, typer.Option(min=1, max=1_000_000, help="N: runs make N and 2N requests.")] = 500,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Of both runs.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of what is asked for.")] = 1,
    i1: Annotated[str | None, typer.Option(metavar=_CACHE, help="Instruction cache [default: the machine's].")] = None,
    d1: Annotated[str | None, typer.Option(metavar=_CACHE, help="First data cache [default: the machine's].")] = None,
    ll: Annotated[str | None, typer.Option(metavar=_CACHE, help="Last cache [default: the machine's].")] = None,
    free_running: Annotated[bool, typer.Option(help="Do not hold time still: runs then differ a little.")] = False,
    output_format: FormatOption = Format.text,
) -> None:
    """Simulate the caches under a server (valgrind's cachegrind): instructions and misses per request, in user mode.

    For machines that show no hardware counters. The server is started anew for each run and asked N, then 2N times, one
    request after the other; the difference has no start-up in it. Its clocks stand still and nothing times out, so
    that the same seed gives the same counts. Work in the kernel is not seen, and no time is measured.

    Example: sojourn misses --url http://127.0.0.1:8080 --path /index.html -- sojourn-engine serve site --listen
    127.0.0.1:8080
    """
    if path and mix:
        raise CouldNotRun("--path and --mix both say what to ask for", "give one of them")
    if not url.startswith("http://"):
        raise CouldNotRun(f"{url!r} is not where a server listens", "give http://HOST:PORT")
    paths = path or ["/"]
    given = (("I1", i1), ("D1", d1), ("LL", ll))
    request = Request(
        command=command,
        url=url,
        mix=Mix.of_filelist(mix) if mix else Mix(paths, [1.0] * len(paths)),
        requests=requests,
        seed=seed,
        repetitions=repetitions,
        caches=tuple((name, geometry) for name, geometry in given if geometry is not None),
        hold=not free_running,
    )
    with Stages(talk, quiet=output_format is Format.json) as stages:
        stages.begin("misses", 1.0)
        found = measure(request, stages.update)
        stages.done(f"{2 * repetitions} runs")
    if output_format is Format.json:
        print_json(found.as_json())
    else:
        _print(found)


def _print(found: Measurement) -> None:
    figures = table("per request", "mean", "least", "most")
    for name, value in found.per_request.items():
        figures.add_row(name, *(f"{number:,.2f}" for number in (value.mean, value.minimum, value.maximum)))
    caches = ", ".join(
        f"{name} {format.size(cache.size_bytes)} {cache.associativity} {cache.line_bytes} B lines"
        for name, cache in found.geometry.items()
    )
    data.print(Text(f"{LABEL}: {caches}", style="bold"), soft_wrap=True)
    data.print(figures)
    agreement = {True: "all repetitions gave the same counts", False: "repetitions differ, as shown", None: "one run"}
    data.print(Text(f"{found.valgrind}; {agreement[found.is_identical]}", style="dim"))
    if not found.request.hold:
        data.print(Text("time was not held still", style="dim"))
    elif not found.takes_turns:
        data.print(Text("threads did not take turns in a fixed order: that needs real-time scheduling", style="dim"))
