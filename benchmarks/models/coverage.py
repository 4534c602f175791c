"""Measures how often the simulator's 95 % intervals cover true values that do not come from the simulator.

    python -m benchmarks.models.coverage --docs docs

True values come from closed forms and the programs in `oracles/`, which share no code with the simulator. Every run is
saved when it ends, and the same command continues where the last one stopped (`--minutes` ends it early; with
`--cluster` the seeds run on a cluster, with the same figures). A case whose seeds are not complete keeps its rows of
the page, with the commit that they were measured at. A figure passes unless chance can hardly explain that fewer than
90 % of the intervals of converged runs cover.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from scipy.stats import binom

from benchmarks import machine
from benchmarks.models import fits
from benchmarks.models.oracles import PERCENTILES, birth_death, lattice, tagged_job
from sojourn import queueing
from sojourn.cluster import dask_cluster
from sojourn.cluster import target as clusters
from sojourn.cluster.dask_cluster import DaskCluster
from sojourn.cluster.tasks import in_order
from sojourn.text import format

SEEDS = 200
HALF_WIDTH = 0.05
COVERED_MIN = 0.90
CHANCE_MIN = 0.025
SIMULATOR = "crates/queueing/src/simulator"
FILE = machine.ROOT / "runs" / "models-coverage" / "runs.jsonl"

Truths = dict[str, float]
"""The true values of figures, by their keys in results."""
Result = queueing.Simulation | queueing.StationSimulation


@dataclass(frozen=True)
class Case:
    """One model, one way to simulate it, and its true values."""

    name: str
    what: str
    run: Callable[[int], Result]
    truths: Callable[[], Truths]


@dataclass(frozen=True)
class Figure:
    """A figure of one run; a station's figure has converged if it has an interval."""

    value: float
    half_width: float | None
    converged: bool


@dataclass(frozen=True)
class Run:
    """One seed of a case."""

    case: str
    seed: int
    revision: str
    """The revision of the last change to the simulator."""
    jobs: int
    figures: dict[str, Figure]


@dataclass(frozen=True)
class Row:
    """A figure over all seeds of a case."""

    case: str
    what: str
    figure: str
    seeds: int
    converged: int
    converged_covered: int
    intervals: int
    covered: int
    bias: float
    jobs: float

    @property
    def passes(self) -> bool:
        """Returns false if, at a true coverage of 90 %, so few would cover in less than one experiment of forty."""
        return bool(binom.cdf(self.converged_covered, self.converged, COVERED_MIN) >= CHANCE_MIN)


def cases() -> Iterator[Case]:
    exponential = '{ law = "exponential", mean = "1s" }'
    queue = _station("fifo", exponential, 0.95)
    heavy = _station("fifo", '{ law = "log-normal", mean = "1s", scv = 20 }', 0.7)
    shape, largest = 1.5, 1e4
    pareto, h2 = queueing.pareto(shape, 1.0, largest), queueing.hyper_exponential(1.0, 10.0)
    heavy_tail = partial(lattice.pareto, shape, largest, 0.7)
    ends: tuple[tuple[str, queueing.Target], ...] = (("", "mean"), ("-p95", "p95"))
    for suffix, target in ends:
        what = ", p95 asked for" if suffix else ""
        run = _poisson(queueing.exponential(1.0), 0.95, 1, target)
        yield Case(f"poisson-mm1{suffix}", f"M/M/1 FIFO, ρ 0.95{what}", run, _mm1)
        run = _poisson(h2, 0.95, None, target)
        yield Case(f"poisson-h2-ps{suffix}", f"M/H₂/1/PS, C² 10, ρ 0.95{what}", run, _h2_ps)
        run = _poisson(pareto, 0.7 / pareto.mean, 1, target)
        name = f"M/Pareto/1 FIFO, index 1.5 on [1, 10⁴], ρ 0.7{what}"
        yield Case(f"poisson-pareto{suffix}", name, run, heavy_tail)
    for replications in (1, 4, 16, 100, 500):
        name = f"replications-{replications}"
        what = f"M/M/1 FIFO, ρ 0.95, {replications} replication{'s' * (replications > 1)}"
        yield Case(name, what, _system(queue, replications), _mm1)
        yield Case(f"{name}-p95", f"{what}, p95 asked for", _system(queue, replications, "p95"), _mm1)
    yield Case("closed", "two users at M/M/1, throughput", _system(_users(), 4), _two_users)
    yield Case(
        "log-normal", "M/log-normal/1 FIFO, C² 20, ρ 0.7", _system(heavy, 1), partial(lattice.log_normal, 20, 0.7)
    )


def measure(case: Case, seeds: range, cluster: DaskCluster | None) -> Iterator[Run]:
    """Simulates the case with every seed, on this machine's cores or on a cluster."""
    revision = machine.last_change(SIMULATOR)
    if cluster is not None:
        # Workers know the function by the module's name, which is another where it runs as a program.
        from benchmarks.models import coverage

        yield from in_order(cluster.each(coverage.run_of, ((case.name, seed, revision) for seed in seeds)))
        return
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda seed: _run(case, seed, revision), seeds)


def run_of(name: str, seed: int, revision: str) -> Run:
    """Simulates the case of that name with a seed."""
    return _run(next(case for case in cases() if case.name == name), seed, revision)


def _run(case: Case, seed: int, revision: str) -> Run:
    result = case.run(seed)
    return Run(case.name, seed, revision, result["jobs"], dict(_figures(result)))


def rows(case: Case, runs: list[Run]) -> list[Row]:
    """Returns a row for each figure whose true value is known."""
    return [_row(case, name, truth, runs) for name, truth in case.truths().items() if name in runs[0].figures]


HEADINGS = [
    "| case | commit | figure | seeds | jobs a run | converged | of these, cover "
    "| intervals | of these, cover | bias |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def lines(found: list[Row], commit: str) -> list[str]:
    """Returns the rows of the table of a case."""
    return [
        f"| {row.what} | {commit} | {row.figure} | {row.seeds} | {format.number(row.jobs / 1e6)} million "
        f"| {row.converged} | {_share(row.converged_covered, row.converged)} | {row.intervals} "
        f"| {_share(row.covered, row.intervals)} | {100 * row.bias:+.2f} % |"
        for row in found
    ]


def read(path: Path = FILE) -> list[Run]:
    """Reads the saved runs."""
    if not path.exists():
        return []
    kept = []
    for line in path.read_text().splitlines():
        run = json.loads(line)
        kept.append(Run(**run | {"figures": {name: Figure(**each) for name, each in run["figures"].items()}}))
    return kept


def _station(discipline: str, demand: str, rate: float) -> queueing.System:
    return queueing.System(
        f'stations.web = {{ discipline = "{discipline}", demand = {demand} }}\n'
        f'classes.visitors = {{ rate = "{rate}/s", route = ["web"] }}\n'
    )


def _poisson(
    demand: queueing.Distribution, rate: float, r: int | None, target: queueing.Target
) -> Callable[[int], Result]:
    return lambda seed: queueing.simulate_poisson(rate, demand, r, half_width=HALF_WIDTH, target=target, seed=seed)


def _system(system: queueing.System, replications: int, target: queueing.Target = "mean") -> Callable[[int], Result]:
    return lambda seed: queueing.simulate(
        system, half_width=HALF_WIDTH, target=target, seed=seed, replications=replications
    )


def _mm1() -> Truths:
    mean, percentiles = birth_death.mm1(0.95)
    return (
        {"mean": mean}
        | percentiles
        | {"throughput": 0.95, "utilisation": 0.95, "queue": 0.95 * mean, "residence": mean}
    )


def _users() -> queueing.System:
    exponential = '{ law = "exponential", mean = "1s" }'
    return queueing.System(
        f'stations.web = {{ discipline = "ps", demand = {exponential} }}\n'
        f'classes.visitors = {{ users = 2, think_time = {exponential}, route = ["web"] }}\n'
    )


def _two_users() -> Truths:
    """Returns the true values of M/M/1//2 by hand: the weights of 0, 1 and 2 jobs at the station are 1, 2 and 2."""
    return {"throughput": 0.8, "utilisation": 0.8, "queue": 1.2, "residence": 1.5, "mean": 1.5}


def _h2_ps() -> Truths:
    solved = tagged_job.solve(tagged_job.h2(1.0, 10.0), 0.95, None, jobs_max=400)
    return {"mean": solved.mean} | solved.percentiles(PERCENTILES)


def _figures(result: Result) -> Iterator[tuple[str, Figure]]:
    times = result["response_time_seconds"]
    for name, figure in result["figures"].items():
        yield name, Figure(times[name], times[f"{name}_half_width"], figure["converged"])  # type: ignore[literal-required]
    if "stations" in result:
        station = result["stations"]["web"]  # type: ignore[typeddict-item]
        for name, value, half_width in (
            ("utilisation", station["utilisation"], station["utilisation_half_width"]),
            ("throughput", result["throughput_per_second"], result["throughput_half_width_per_second"]),  # type: ignore[typeddict-item]
            ("queue", station["queue_mean"], station["queue_mean_half_width"]),
            ("residence", station["residence_time_seconds"], station["residence_time_half_width_seconds"]),
        ):
            yield name, Figure(float(value or 0.0), half_width, half_width is not None)


def _row(case: Case, name: str, truth: float, runs: list[Run]) -> Row:
    figures = [run.figures[name] for run in runs]

    def covers(figure: Figure) -> bool:
        return figure.half_width is not None and abs(figure.value - truth) <= figure.half_width

    converged = [figure for figure in figures if figure.converged]
    return Row(
        case=case.name,
        what=case.what,
        figure=name,
        seeds=len(runs),
        converged=len(converged),
        converged_covered=sum(map(covers, converged)),
        intervals=sum(figure.half_width is not None for figure in figures),
        covered=sum(map(covers, figures)),
        bias=fmean(figure.value / truth - 1 for figure in figures),
        jobs=fmean(run.jobs for run in runs),
    )


def _share(covered: int, intervals: int) -> str:
    return f"{100 * covered / intervals:.1f} %" if intervals else "–"


def _main(
    only: Annotated[str, typer.Option(help="Cases, * allowed.")] = "*",
    seeds: Annotated[int, typer.Option(min=2, help="Runs of every case.")] = SEEDS,
    minutes: Annotated[float, typer.Option(help="Stop after so long; the same command goes on.")] = math.inf,
    anew: Annotated[bool, typer.Option(help="Forget the runs that were kept.")] = False,
    docs: Annotated[Path | None, typer.Option(help="Put the page here.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Where to simulate, as --cluster of sojourn says it.")] = None,
) -> None:
    """Measure the coverage of the simulator's 95 % intervals, 5 % asked for."""
    with ExitStack() as stack:
        workers = None if cluster is None else stack.enter_context(dask_cluster.opened(clusters.parse(cluster)))
        _measure_all(only, seeds, minutes, anew, docs, workers)


def _measure_all(
    only: str, seeds: int, minutes: float, anew: bool, docs: Path | None, cluster: DaskCluster | None
) -> None:
    until = time.monotonic() + 60 * minutes
    FILE.parent.mkdir(parents=True, exist_ok=True)
    if anew:
        FILE.unlink(missing_ok=True)
    chosen = [case for case in cases() if fnmatch(case.name, only)]
    threads = cluster.threads if cluster is not None else os.cpu_count() or 1
    missing = 0
    for case in chosen:
        done = max((run.seed for run in read() if run.case == case.name), default=0)
        for first in range(done + 1, seeds + 1, 4 * threads):
            if time.monotonic() > until:
                missing += seeds + 1 - first
                break
            for run in measure(case, range(first, min(first + 4 * threads, seeds + 1)), cluster):
                with FILE.open("a") as file:
                    file.write(json.dumps(asdict(run)) + "\n")
        print(case.name, flush=True)
    _report(chosen, seeds, docs)
    if missing:
        raise SystemExit(f"{missing} runs are missing: the same command goes on with them")


def _report(chosen: list[Case], seeds: int, docs: Path | None) -> None:
    kept = read()
    of = {case.name: [run for run in kept if run.case == case.name] for case in chosen}
    found = {case.what: rows(case, of[case.name]) for case in chosen if of[case.name]}
    place = docs / "models-coverage.md" if docs else None
    page = place.read_text().splitlines() if place and place.exists() else []
    table = HEADINGS.copy()
    for case in cases():
        known = [line for line in page if line.startswith(f"| {case.what} |")]
        if case.what in found and not (known and len(of[case.name]) < seeds):
            known = lines(found[case.what], ", ".join(dict.fromkeys(run.revision for run in of[case.name])))
        table += known
    print("\n".join(table))
    failed = [f"{row.case} {row.figure}" for each in found.values() for row in each if not row.passes]
    if place:
        template = (Path(__file__).parent / "coverage.md.template").read_text()
        fitted, too_few = fits.table(SEEDS)
        failed += too_few
        place.write_text(template.replace("$table", "\n".join(table)).replace("$fits", fitted))
    if failed:
        raise SystemExit("coverage below 90 %: " + ", ".join(failed))


if __name__ == "__main__":
    typer.run(_main)
