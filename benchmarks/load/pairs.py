"""Compares runs of identical servers in pairs: how often `sojourn compare` calls them different, and what it finds.

    python -m benchmarks.load.pairs

Every run starts our server anew and loads it flat out: few clients without think time, the load whose figures vary most
from run to run. Runs that were kept are not repeated, and pairs of groups are formed from all of them: a group begins
at each run. To find a difference of some factor, the second group's times are multiplied by it, as if its server were
so much slower. What other programs took of the machine meanwhile is printed, because it is what the runs vary by.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks import machine, run
from benchmarks.markdown import table_of
from sojourn.loading import comparison, folder, metrics
from sojourn.loading.comparison import Difference, Group
from sojourn.loading.result import LoadResult
from sojourn.machine.cores import pinned_command
from sojourn.systems import Launch, find

RUNS = 220
REGRESSION = 0.05
FACTORS = (1.1, 1.25, 1.5, 2.0, 4.0)
FOUND = ("mean", "p99")
"""The metrics whose differences are looked for."""
WORSE = {"all": comparison.METRICS, "p99": ("p99",)}
"""The metrics that are made worse together, to see how often the exit code is 1."""
FAR = 20
ARCHITECTURE = "amped"
OTHERS = "others.json"
SOJOURN = Path(sys.executable).parent / "sojourn"

Runs = Sequence[LoadResult]


@dataclass(frozen=True)
class Design:
    """How the runs of two groups are taken from successive runs."""

    name: str
    first: Sequence[int]
    second: Sequence[int]
    """Places of the runs, from where the pair begins."""

    def pairs(self, runs: Runs) -> Iterator[tuple[Group, Group]]:
        for begin in range(len(runs) - max(*self.first, *self.second)):
            yield (
                Group("first", [runs[begin + place] for place in self.first]),
                Group("second", [runs[begin + place] for place in self.second]),
            )


DESIGNS = (
    Design("1 and 1, one after the other", (0,), (1,)),
    Design("1 and 1, twenty runs apart", (0,), (FAR,)),
    Design("5, then 1", range(5), (5,)),
    Design("5, then 5", range(5), range(5, 10)),
    Design("5 and 5 in turn", (0, 3, 4, 7, 8), (1, 2, 5, 6, 9)),
    Design(
        "10 and 10 in turn",
        [4 * (i // 2) + 3 * (i % 2) for i in range(10)],
        [1 + i // 2 * 4 + i % 2 for i in range(10)],
    ),
)


@dataclass(frozen=True)
class Row:
    """The findings about all pairs of a design."""

    design: str
    pairs: int
    different: dict[str, float]
    """By metric, the share of pairs that were called different."""
    exits: dict[tuple[str, float], float]
    """By what is worse and by which factor, the share with exit code 1 for `--max-regression 5%`."""
    found: dict[tuple[str, float], float]
    """By metric and factor, the share of pairs whose difference was found."""


def row(design: Design, runs: Runs) -> Row:
    told = [_differences(*pair) for pair in design.pairs(runs)]

    def regresses(each: dict[str, Difference], worse: str, factor: float) -> bool:
        return "shown" in comparison.regressions(_slower(each, WORSE[worse], factor), REGRESSION)

    names = [name for name in comparison.METRICS if any(name in each for each in told)]

    def share(found: Iterable[bool]) -> float:
        return sum(found) / len(told)

    return Row(
        design.name,
        len(told),
        {name: share(name in each and each[name].finding in ("better", "worse") for each in told) for name in names},
        {
            (worse, factor): share(regresses(each, worse, factor) for each in told)
            for worse in WORSE
            for factor in (1.0, *FACTORS)
        },
        {
            (name, factor): share(name in each and (each[name].low or 0.0) * factor > 1 for each in told)
            for name in FOUND
            for factor in FACTORS
        },
    )


def _slower(told: dict[str, Difference], names: Sequence[str], factor: float) -> list[Difference]:
    """The differences with these metrics of the second server worse by a factor."""

    def worse(each: Difference) -> Difference:
        by = factor if each.metric.better == "lower" else 1 / factor
        return replace(each, ratio=by * each.ratio) if each.metric.name in names else each

    return [worse(each) for each in told.values()]


def _differences(first: Group, second: Group) -> dict[str, Difference]:
    found = (comparison.difference(metrics.find(name), first, second) for name in comparison.METRICS)
    return {each.metric.name: each for each in found if each.low is not None}


def measured(place: Path, site: Path, clients: int, seconds: float) -> LoadResult:
    """Makes one run, or reads the one that was kept."""
    if not folder.is_load_run(place):
        cores, before = machine.two_cores(), (_busy_seconds(), _own_seconds(), time.monotonic())
        with tempfile.TemporaryDirectory(prefix="sojourn-pairs-") as work:
            launch = Launch(site, Path(work), cores.server, ARCHITECTURE)
            with find("sojourn").start(launch) as server:
                words = [str(SOJOURN), "load", f"{server.url}/500B", "--clients", str(clients)]
                words += ["--duration", f"{seconds:g}s", "--output", str(place)]
                subprocess.run(pinned_command(cores.generator, words), check=True, capture_output=True)
        busy, own, elapsed = _busy_seconds() - before[0], _own_seconds() - before[1], time.monotonic() - before[2]
        (place / OTHERS).write_text(json.dumps(max(0.0, busy - own) / elapsed))
    return folder.read(place)


def _busy_seconds() -> float:
    """CPU time of all programs since the machine started."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def table(rows: Sequence[Row]) -> str:
    cells = []
    for each in rows:
        worst = max(each.different, key=lambda name: each.different[name])
        cells.append(
            [
                each.design,
                str(each.pairs),
                f"{each.different[worst]:.1%} ({worst})",
                f"{each.exits['all', 1.0]:.1%}",
                *(" / ".join(f"{each.exits[worse, factor]:.0%}" for factor in FACTORS) for worse in WORSE),
                *(" / ".join(f"{each.found[name, factor]:.0%}" for factor in FACTORS) for name in FOUND),
            ]
        )
    factors = ", ".join(f"×{factor:g}" for factor in FACTORS)
    head = ["identical pairs", "pairs", "called different, worst metric", "exit 1 at 5 %"]
    head += [f"exit 1 if {worse} worse {factors}" for worse in WORSE]
    return table_of([*head, *(f"finds the {name} {factors}" for name in FOUND)], cells)


def circumstances(runs: Runs, others: Sequence[float]) -> str:
    """The spread of the runs, and the other work of the machine."""
    parts = []
    for name in ("rps", "mean", "p99"):
        values = np.log([metrics.find(name).of_run(each) for each in runs])
        near = float(np.std(np.diff(values))) / math.sqrt(2)
        parts.append(f"{name} {near:.0%} from run to run, {float(np.std(values)):.0%} over all")
    cores = np.quantile(others, [0.1, 0.5, 0.9])
    return (
        f"{len(runs)} runs; standard deviations: {'; '.join(parts)}. Other programs used {cores[1]:.2f} cores in the "
        f"median run ({cores[0]:.2f} to {cores[2]:.2f} in eight of ten)."
    )


def _main(
    runs: Annotated[int, typer.Option(min=FAR + 1, help="Runs.")] = RUNS,
    seconds: Annotated[float, typer.Option(help="Length of each.")] = 3.0,
    clients: Annotated[int, typer.Option(help="Clients, without think time.")] = 8,
    minutes: Annotated[float, typer.Option(help="Stop after so long; the same command goes on.")] = math.inf,
    output: Annotated[Path, typer.Option(help="The folder of the runs.")] = machine.ROOT / "runs" / "load-pairs",
) -> None:
    """Compare identical servers, flat out."""
    output.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * minutes
    site = run.small_site(output / "site")
    made: list[LoadResult] = []
    for number in range(runs):
        place = output / f"{number:03}"
        if time.monotonic() > until and not folder.is_load_run(place):
            break
        made.append(measured(place, site, clients, seconds))
    others = [json.loads((output / f"{number:03}" / OTHERS).read_text()) for number in range(len(made))]
    print(table([row(design, made) for design in DESIGNS if max(*design.first, *design.second) < len(made) - 1]))
    print()
    print(circumstances(made, others))
    if len(made) < runs:
        raise SystemExit(f"{runs - len(made)} runs are missing: the same command goes on with them")


if __name__ == "__main__":
    typer.run(_main)
