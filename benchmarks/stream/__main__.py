"""`benchmarks/stream/bench`: options to films and plays, plays to measurements, measurements to the page."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine
from benchmarks.selection import selected
from benchmarks.server.busy import BUSY_FRACTION_MAX, busy_fraction
from benchmarks.stream import pace
from benchmarks.stream.contestants import CONTESTANTS
from benchmarks.stream.effort import FULL, QUICK, SHARES, Effort, Part, within
from benchmarks.stream.page import page, verdicts
from benchmarks.stream.record import Record
from benchmarks.stream.sitting import Sitting
from benchmarks.stream.viewers import Play
from sojourn import environment, media
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES
from sojourn.report import format

NAME = "stream-benchmark"
MINUTE_SECONDS = 60
talk = Console(stderr=True)


def _bench(
    only: Annotated[str | None, typer.Option(help="Parts, comma-separated: costs, capacity, pace.")] = None,
    rates: Annotated[str, typer.Option(help="Of the films.")] = "300k,2M",
    transports: Annotated[str, typer.Option(help="How packets come.")] = "udp,tcp",
    servers: Annotated[str | None, typer.Option(help="Which servers, * allowed.")] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, max=100, help="How often costs and pace are measured.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The order of cells is drawn from this.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Only try whether everything runs.")] = False,
    minutes: Annotated[float | None, typer.Option(help="Measure so shortly that all ends in about this time.")] = None,
    output: Annotated[Path, typer.Option(help="The run's folder.")] = machine.ROOT / "runs" / NAME,
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
) -> None:
    """Measure what a stream costs each server, how many of them conform, and how late ours sends many.

    Ctrl-C ends the run and writes the page of what there is.

    Examples: benchmarks/stream/bench --quick --servers gst-* --rates 300k --transports udp;
    benchmarks/stream/bench --minutes 15
    """
    began = time.monotonic()
    parts = _parts(only)
    cores = machine.two_cores()
    machine.raise_descriptors()
    output.mkdir(parents=True, exist_ok=True)
    places = _places(servers, rates.split(","), transports.split(","))
    effort = _effort(quick, minutes, parts, len(places), repetitions)
    wanted = dict.fromkeys([*(rate for _, rate, _ in places if "costs" in parts or "capacity" in parts), pace.RATE])
    films = {rate: _film(output, rate, effort.film_seconds) for rate in wanted}
    run = _run(seed, effort, quick, cores.server, cores.generator)
    if run["busy_fraction"] > BUSY_FRACTION_MAX:
        talk.print(f"warning: other work uses {format.percent(run['busy_fraction'])} of this machine")
    record = Record(output, run)
    plays = [Play(who, rate, transport, films.get(rate, films[pace.RATE])) for who, rate, transport in places]
    complete = Sitting(plays, films[pace.RATE], effort, seed, cores, record, talk).measure(parts)
    run |= {"complete": complete, "seconds": time.monotonic() - began}
    for verdict in verdicts(record):
        print(verdict.line)
    for folder in filter(None, (output, docs)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_text(page(record))
        talk.print(f"page: {folder / f'{NAME}.md'}", soft_wrap=True, highlight=False)
    sys.exit(EXIT_RAN if complete else EXIT_RAN_WITH_FAILURES)


def _parts(only: str | None) -> list[Part]:
    chosen = selected(only, [*SHARES], "part")
    return [part for part in SHARES if part in chosen]


def _places(servers: str | None, rates: Sequence[str], transports: Sequence[str]) -> list[tuple[Any, str, str]]:
    """Every server with every rate and every way of packets that it has."""
    names = selected(servers, [each.name for each in CONTESTANTS], "server")
    return [
        (contestant, rate, transport)
        for contestant in CONTESTANTS
        if contestant.name in names
        for rate in rates
        for transport in transports
        if transport in contestant.transports
    ]


def _effort(quick: bool, minutes: float | None, parts: Sequence[Part], plays: int, repetitions: int | None) -> Effort:
    if quick:
        return QUICK
    if minutes is not None:
        return within(minutes, parts, plays, repetitions)
    return FULL.repeated(repetitions)


def _film(output: Path, rate: str, seconds: float) -> Path:
    """One film of a rate; made anew only where it is not there."""
    folder = output / "films" / f"{rate}-{seconds:g}s"
    if not folder.is_dir():
        talk.print(f"making a film of {rate}bit/s and {seconds:g} s", highlight=False)
    media.make(media.Film(media.bits_per_second(rate), seconds, "h264"), folder, 1)
    return next(folder.glob("*.mp4"))


def _run(seed: int, effort: Effort, quick: bool, server_core: int | None, generator_core: int | None) -> dict[str, Any]:
    return {
        "revision": machine.revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["benchmarks/stream/bench", *sys.argv[1:]]),
        "seed": seed,
        "quick": quick,
        **effort.as_json(),
        "cores": {"server": server_core, "generator": generator_core},
        "busy_fraction": busy_fraction(),
        "environment": environment.describe(),
    }


if __name__ == "__main__":
    entry.run(_bench)
