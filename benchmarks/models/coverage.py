"""How often the simulator's 95 % intervals cover: an experiment whose truths do not come from the simulator.

    python -m benchmarks.models.coverage --docs docs

Means are those of Pollaczek and Khinchine, and of processor sharing, which is insensitive to the distribution of
demand; percentiles of M/M/1 are those of an exponential distribution. Where no formula exists, Lindley's recursion over
hundreds of millions of jobs is the reference: ten lines that share nothing with the simulator, not even its generator.
A case passes if 90 % of the intervals of converged runs cover, within the error of the number of seeds.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import typer

from benchmarks import machine
from sojourn import queueing
from sojourn.text import format

HALF_WIDTH = 0.05
COVERED_MIN = 0.90
LINDLEY_BLOCK = 10_000_000
LINDLEY_BLOCKS = 40

Truths = dict[str, float]
"""The true value of figures, by their keys in results."""


@dataclass(frozen=True)
class Case:
    """One model, one way to simulate it, and what is true of it."""

    name: str
    what: str
    targets: tuple[queueing.Target, ...]
    run: Callable[[int], queueing.Simulation | queueing.StationSimulation]
    truths: Callable[[], Truths]


@dataclass(frozen=True)
class Seen:
    """A figure in one run: covered or not, if there was an interval; converged or not."""

    covered: bool | None
    converged: bool
    error: float


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
        """Whether 90 % coverage is within two standard errors, or better."""
        if not self.converged:
            return True
        error = math.sqrt(COVERED_MIN * (1 - COVERED_MIN) / self.converged)
        return self.converged_covered / self.converged >= COVERED_MIN - 2 * error


def _station(discipline: str, demand: str, rate: float) -> queueing.System:
    return queueing.System(
        f'stations.web = {{ discipline = "{discipline}", demand = {demand} }}\n'
        f'classes.visitors = {{ rate = "{rate}/s", route = ["web"] }}\n'
    )


EXPONENTIAL = '{ law = "exponential", mean = "1s" }'
HEAVY = '{ law = "log-normal", mean = "1s", scv = 20 }'


def _mm1(rho: float) -> Truths:
    mean = 1 / (1 - rho)
    percentiles = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
    truths = {"mean": mean} | {name: -mean * math.log(1 - p) for name, p in percentiles.items()}
    return truths | {"utilisation": rho, "queue": rho * mean, "residence": mean}


def _pollaczek_khinchine(mean: float, second_moment: float, rate: float) -> float:
    return mean + rate * second_moment / (2 * (1 - rate * mean))


@cache
def _lindley(shape: float, largest: float, rate: float) -> Truths:
    """The bounded Pareto under FIFO: W' = max(0, W + S - A), by running minima of a random walk."""
    random, wait, counted = np.random.default_rng(20_000), 0.0, np.zeros(3_000)
    scale = 100.0  # bins of 1 %
    for _ in range(LINDLEY_BLOCKS):
        uniform = random.random(LINDLEY_BLOCK)
        demand = (1 - uniform * (1 - largest**-shape)) ** (-1 / shape)
        walk = np.cumsum(demand - random.exponential(1 / rate, LINDLEY_BLOCK))
        before = np.concatenate(([0.0], walk[:-1]))
        waits = before + np.maximum(wait, -np.minimum.accumulate(np.minimum(before, 0.0)))
        wait = max(0.0, float(walk[-1] + max(wait, -min(0.0, float(before.min())))))
        bins = np.minimum(np.log(waits + demand) * scale, len(counted) - 1).astype(int)
        counted += np.bincount(bins, minlength=len(counted))
    below = np.cumsum(counted) / counted.sum()
    return {
        name: math.exp((np.interp(p, below, np.arange(1, len(below) + 1))) / scale)
        for name, p in {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}.items()
    }


def cases() -> Iterator[Case]:
    """The cases, the replications last: they take longest."""
    queue = _station("fifo", EXPONENTIAL, 0.95)
    heavy = _station("fifo", HEAVY, 0.7)
    exponential, h2 = queueing.exponential(1.0), queueing.hyper_exponential(1.0, 10.0)
    pareto = queueing.pareto(1.5, 1.0, 1e4)
    poisson, system = partial(_poisson), partial(_system)
    yield Case(
        "poisson-mm1", "M/M/1, ρ 0.95, `simulate_poisson`", ("mean",), poisson(exponential, 0.95, 1), lambda: _mm1(0.95)
    )
    yield Case(
        "poisson-mm1-p95", "the same, p95 asked for", ("p95",), poisson(exponential, 0.95, 1, "p95"), lambda: _mm1(0.95)
    )
    yield Case("poisson-h2-ps", "M/H₂/1/PS, C² 10, ρ 0.95", ("mean",), poisson(h2, 0.95, None), lambda: {"mean": 20.0})
    yield Case(
        "poisson-pareto",
        "M/Pareto/1, index 1.5 on [1, 10⁴], ρ 0.7",
        ("mean",),
        poisson(pareto, 0.7 / pareto.mean, 1),
        lambda: _lindley(1.5, 1e4, 0.7 / pareto.mean),
    )
    yield Case(
        "poisson-pareto-p95",
        "the same, p95 asked for",
        ("p95",),
        poisson(pareto, 0.7 / pareto.mean, 1, "p95"),
        lambda: _lindley(1.5, 1e4, 0.7 / pareto.mean),
    )
    yield Case(
        "log-normal",
        "M/log-normal/1, C² 20, ρ 0.7, `simulate`",
        ("mean",),
        system(heavy, 1),
        lambda: {"mean": _pollaczek_khinchine(1.0, 21.0, 0.7)},
    )
    for replications in (1, 4, 16, 100, 500):
        name, what = f"replications-{replications}", f"M/M/1, ρ 0.95, {replications} replications"
        yield Case(name, what, ("mean",), system(queue, replications), lambda: _mm1(0.95))
        yield Case(f"{name}-p95", what + ", p95", ("p95",), system(queue, replications, "p95"), lambda: _mm1(0.95))


def _poisson(
    demand: queueing.Distribution, rate: float, r: int | None, target: queueing.Target = "mean"
) -> Callable[[int], queueing.StationSimulation]:
    return lambda seed: queueing.simulate_poisson(rate, demand, r, half_width=HALF_WIDTH, target=target, seed=seed)


def _system(
    system: queueing.System, replications: int, target: queueing.Target = "mean"
) -> Callable[[int], queueing.Simulation]:
    return lambda seed: queueing.simulate(
        system, half_width=HALF_WIDTH, target=target, seed=seed, replications=replications
    )


def measure(case: Case, seeds: int, threads: int = 2) -> list[Row]:
    """Simulates with every seed; a row for each figure whose truth is known."""
    truths = case.truths()
    seen: dict[str, list[Seen]] = {name: [] for name in truths}
    jobs = []
    with ThreadPoolExecutor(threads) as pool:
        for result in pool.map(case.run, range(1, seeds + 1)):
            jobs.append(result["jobs"])
            for name, truth in truths.items():
                found = _figure(result, name)
                if found is not None:
                    value, half_width, converged = found
                    covered = None if half_width is None else abs(value - truth) <= half_width
                    seen[name].append(Seen(covered, converged, value / truth - 1))
    return [_row(case, name, each, fmean(jobs)) for name, each in seen.items() if each]


def _row(case: Case, figure: str, seen: list[Seen], jobs: float) -> Row:
    converged = [each for each in seen if each.converged]
    return Row(
        case=case.name,
        what=case.what,
        figure=figure,
        seeds=len(seen),
        converged=len(converged),
        converged_covered=sum(bool(each.covered) for each in converged),
        intervals=sum(each.covered is not None for each in seen),
        covered=sum(bool(each.covered) for each in seen),
        bias=fmean(each.error for each in seen),
        jobs=jobs,
    )


def _figure(
    result: queueing.Simulation | queueing.StationSimulation, name: str
) -> tuple[float, float | None, bool] | None:
    """Value, half-width, and whether it converged; a station's figure converges when it has an interval."""
    if name in result["figures"]:
        value = float(result["response_time_seconds"][name])  # type: ignore[literal-required]
        half_width = result["response_time_seconds"][f"{name}_half_width"]  # type: ignore[literal-required]
        return value, half_width, result["figures"][name]["converged"]
    if "stations" not in result:
        return None
    station = result["stations"]["web"]  # type: ignore[typeddict-item]
    figure, half_width = {
        "utilisation": (station["utilisation"], station["utilisation_half_width"]),
        "queue": (station["queue_mean"], station["queue_mean_half_width"]),
        "residence": (station["residence_time_seconds"], station["residence_time_half_width_seconds"]),
    }[name]
    return float(figure or 0.0), half_width, half_width is not None


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| case | figure | jobs a run, mean | converged | of these, cover | intervals | of these, cover | bias |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        share = f"{row.converged_covered / row.converged:.1%}".replace("%", " %") if row.converged else "–"
        every = f"{row.covered / row.intervals:.1%}".replace("%", " %") if row.intervals else "–"
        lines.append(
            f"| {row.what} | {row.figure} | {format.number(row.jobs / 1e6)} million | {row.converged} of {row.seeds} "
            f"| {share} | {row.intervals} | {every} | {100 * row.bias:+.2f} % |"
        )
    return "\n".join(lines)


def _main(
    only: Annotated[str, typer.Option(help="Cases, * allowed.")] = "*",
    seeds: Annotated[int, typer.Option(min=2, help="Runs of every case.")] = 200,
    docs: Annotated[Path | None, typer.Option(help="Put the table here.")] = None,
    output: Annotated[Path, typer.Option(help="The rows as JSON.")] = machine.ROOT / "runs" / "coverage.json",
) -> None:
    """Measure the coverage of the simulator's 95 % intervals, 5 % asked for."""
    rows: list[Row] = []
    for case in cases():
        if fnmatch(case.name, only):
            rows += measure(case, seeds, os.cpu_count() or 1)
            print(table(rows[-len(case.truths()) :]), flush=True)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps([vars(row) for row in rows], indent=1))
    if docs:
        page = (Path(__file__).parent / "coverage.md.template").read_text()
        page = (
            page.replace("$seeds", str(seeds)).replace("$revision", machine.revision()).replace("$table", table(rows))
        )
        (docs / "models-coverage.md").write_text(page)
    failed = [f"{row.case} {row.figure}" for row in rows if not row.passes]
    if failed:
        raise SystemExit("coverage below 90 %: " + ", ".join(failed))


if __name__ == "__main__":
    typer.run(_main)
