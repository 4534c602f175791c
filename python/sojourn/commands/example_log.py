"""`sojourn example-log`: writes a synthetic log: the one of `make demo`, or one with the figures of a published log."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sojourn import _native
from sojourn.commands.formats import talk
from sojourn.commands.progress import Stages
from sojourn.failure import CouldNotRun
from sojourn.text import quantity
from sojourn.workload.log import LogOptions, import_log_to_file

TOLERANCE = 0.01
"""How far a figure of the written log may be from the one that it is to have."""


def register(app: typer.Typer) -> None:
    app.command("example-log")(_example_log)


def _example_log(
    output: Annotated[Path, typer.Argument(help="The file to write.")],
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 1,
    like: Annotated[
        str | None, typer.Option(metavar="NAME", help="Give it the figures of this log: olympics98, nyse or ircache.")
    ] = None,
    figures: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            metavar="NAME=VALUE",
            help="Change one of them, such as requests=1e6, files or data_99_percent_bytes=100MB; repeatable.",
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(help="Make this share of it, up to 1: of its time, requests, files and bytes.", min=0.0001, max=1),
    ] = 1,
) -> None:
    """Write a synthetic access log from published statistics of web traffic.

    One day in Combined Log Format: log-normal document sizes (mu 7.811, sigma 1.573), Zipf popularity, sessions of
    pages with embedded objects and think times, two busy periods a day.

    With --like, one day in Common Log Format with the ten figures that the diskless study (IBM RC22629, table 1) has of
    a log: its requests, files, their bytes, those that answer 97 to 99 % of the requests, the peak minute, requests
    per connection. The written log is then read and compared with them.

    Examples: sojourn example-log example.log && sojourn assess example.log

    sojourn example-log nyse.log --like nyse

    sojourn example-log small.log --like olympics98 --share 0.05
    """
    if like is None and (figures or share != 1):
        raise CouldNotRun("--figure and --share need --like", "choose the log whose figures they change")
    output.parent.mkdir(parents=True, exist_ok=True)
    if like is None:
        with Stages(talk, quiet=not talk.is_terminal) as stages:
            stages.begin("write")
            _native.synthesise_log(str(output), seed)
            stages.done()
        talk.print(f"wrote {output}", soft_wrap=True)
        return
    shape = _with_figures(_shape_of(like), figures or [])
    with Stages(talk) as stages:
        stages.begin("write")
        try:
            wanted = _native.synthesise_shape(str(output), seed, json.dumps(shape), share)
        except ValueError as error:
            raise CouldNotRun(f"{output}: {error}", "change fewer figures, or in proportion") from error
        stages.done(str(output))
        stages.begin("check")
        trace, _ = import_log_to_file(str(output), None, LogOptions(), seed, stages.update)
        compared = compare(wanted, trace.characterise()["table1"])
        stages.done(f"{len(compared)} figures")
    for figure in compared:
        talk.print(figure.text(), soft_wrap=True)
    if not all(figure.is_met() for figure in compared):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Figure:
    """A figure that a log is to have, and the one that it has."""

    name: str
    wanted: float
    found: float

    def is_met(self) -> bool:
        """Whether it is close enough."""
        return math.isclose(self.found, self.wanted, rel_tol=TOLERANCE)

    def text(self) -> str:
        """A line for people."""
        return f"  {self.name:28} {self.wanted:>16,.10g} {self.found:>16,.10g}{'' if self.is_met() else '  not met'}"


def compare(wanted: dict[str, float], table1: dict[str, float]) -> list[Figure]:
    """The figures that a log is to have beside those of the import; popularity is not among the latter."""
    peak = table1["peak_requests_per_second"] / table1["average_requests_per_second"]
    found = {**table1, "peak_over_average": peak}
    return [Figure(name, wanted[name], found[name]) for name in wanted if name in found]


def _shape_of(name: str) -> dict[str, float]:
    shapes = _native.log_shapes()
    if name not in shapes:
        raise CouldNotRun(f"there are no figures of a log {name!r}", f"choose one of {', '.join(sorted(shapes))}")
    return shapes[name]


def _with_figures(shape: dict[str, float], changes: list[str]) -> dict[str, float]:
    changed = dict(shape)
    for change in changes:
        name, equals, value = change.partition("=")
        if name not in shape or not equals:
            raise CouldNotRun(f"--figure {change} is no figure of a log", f"choose one of {', '.join(shape)}")
        try:
            changed[name] = quantity.size_bytes(value) if name.endswith("_bytes") else float(value)
        except ValueError as error:
            raise CouldNotRun(f"--figure {change}: {value!r} is no number", "write it as 1e6 or 100MB") from error
        if isinstance(shape[name], int):
            changed[name] = round(changed[name])
    return changed
