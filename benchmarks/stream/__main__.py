"""`benchmarks/stream/bench`: makes the films, plays and measures them, and writes the page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import command_line, machine, run, selection
from benchmarks.command_line import Docs, Output, Seed
from benchmarks.stream import pace
from benchmarks.stream.competitors import COMPETITORS
from benchmarks.stream.effort import FULL, PACE, PARTS, QUICK, Effort, Part, within
from benchmarks.stream.page import page, verdicts
from benchmarks.stream.plot import charts
from benchmarks.stream.results import tables
from benchmarks.stream.session import Measured, MeasurementSession
from benchmarks.stream.viewers import Play
from sojourn.machine.cores import Cores, keep_off_server_core
from sojourn.report.image import image
from sojourn.workload import media

NAME = "stream-benchmark"
talk = Console(stderr=True)


def _bench(
    only: Annotated[str | None, typer.Option(help="Parts, comma-separated: costs, capacity, pace.")] = None,
    rates: Annotated[str, typer.Option(help="Of the films.")] = "300k,2M",
    transports: Annotated[str, typer.Option(help="How packets come.")] = "udp,tcp",
    servers: Annotated[str | None, typer.Option(help="Which servers, * allowed.")] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, max=100, help="How often costs and pace are measured.")
    ] = None,
    seed: Seed = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Only try whether everything runs.")] = False,
    minutes: Annotated[float | None, typer.Option(help="Measure so shortly that all ends in about this time.")] = None,
    output: Output = machine.ROOT / "runs" / NAME,
    docs: Docs = None,
) -> None:
    """Measure what a stream costs each server, how many streams conform, and how late ours sends many.

    Ctrl-C ends the run and writes the page of the measurements so far.

    Examples: benchmarks/stream/bench --quick --servers gst-* --rates 300k --transports udp;
    benchmarks/stream/bench --minutes 15
    """
    began = time.monotonic()
    parts = selection.chosen(only, PARTS, "part")
    competitors = selection.chosen(servers, COMPETITORS, "server")
    cores = machine.two_cores()
    machine.raise_descriptors()
    # The pace is measured with one film and one server.
    played = [] if parts == [PACE] else rates.split(",")
    places = [
        (competitor, rate, transport)
        for competitor in competitors
        for rate in played
        for transport in transports.split(",")
        if transport in competitor.transports
    ]
    effort = _effort(quick, minutes, parts, len(places), repetitions)
    films = {rate: _film(output, rate, effort.film_seconds) for rate in dict.fromkeys([*played, pace.RATE])}
    plays = [Play(competitor, rate, transport, films[rate]) for competitor, rate, transport in places]
    about = run.describe("benchmarks/stream/bench", talk) | _about(seed, quick, effort, cores)
    session = MeasurementSession(plays, films[pace.RATE], effort, seed, cores)
    count = session.count(parts)
    with keep_off_server_core(cores):
        _, complete = run.keep(
            session.measurements(parts),
            about,
            output / "cells.jsonl",
            talk,
            lambda number, cell: f"{number} of {count}: {cell.said}",
        )
    for verdict in verdicts(session.measured):
        print(verdict.line)
    about |= {"seconds": time.monotonic() - began}
    text = page(about, session.measured, _images(session.measured, (output, docs)), complete=complete)
    run.finish(NAME, text, (output, docs), complete=complete, console=talk)


def _effort(quick: bool, minutes: float | None, parts: Sequence[Part], plays: int, repetitions: int | None) -> Effort:
    if quick:
        return QUICK
    if minutes is not None:
        return within(minutes, parts, plays, repetitions)
    return FULL.repeated(repetitions)


def _film(output: Path, rate: str, seconds: float) -> Path:
    """Returns a film of this rate; makes it only if it is missing."""
    folder = output / "films" / f"{rate}-{seconds:g}s"
    if not folder.is_dir():
        talk.print(f"making a film of {rate}bit/s and {seconds:g} s", highlight=False)
    media.make(media.Film(media.bits_per_second(rate), seconds, "h264"), folder, 1)
    return next(folder.glob("*.mp4"))


def _images(measured: Measured, folders: Iterable[Path | None]) -> list[tuple[str, str]]:
    """Writes the plots beside the page; returns their titles and names."""
    drawn = charts(tables(measured.costs))
    for folder in filter(None, folders):
        folder.mkdir(parents=True, exist_ok=True)
        for chart in drawn:
            (folder / f"{NAME}-{chart.identifier}.svg").write_text(image(chart) + "\n")
    return [(chart.title, f"{NAME}-{chart.identifier}.svg") for chart in drawn]


def _about(seed: int, quick: bool, effort: Effort, cores: Cores) -> dict[str, Any]:
    planned = {"server": cores.server, "generator": cores.generator}
    return {"seed": seed, "quick": quick, **effort.as_json(), "cores": planned}


if __name__ == "__main__":
    command_line.run(_bench)
