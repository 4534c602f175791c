"""`benchmarks/scale/bench`: a cluster of local processes beside one process; prints the rows of docs/scale.md."""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import command_line, machine, run
from benchmarks.command_line import Output, Seed
from sojourn import _native, queueing
from sojourn.cluster import dask_cluster
from sojourn.cluster.dask_cluster import DaskCluster
from sojourn.cluster.target import LocalProcesses
from sojourn.cluster.tasks import InProcess, Tasks, in_order
from sojourn.loading.comparison import Group, compare
from sojourn.loading.fleet import Fleet
from sojourn.loading.run import run_load
from sojourn.planning import replications
from sojourn.systems import Launch, find
from sojourn.text import format
from sojourn.text.toml import read_text
from sojourn.workload import log

NAME = "scale-benchmark"
EMPTY_TASKS = 400
SIMULATIONS = 16
"""Tasks of the sweep: enough for eight processes, each of about a second."""
SWEPT_JOBS = 1_000_000
REPLICATIONS = 8
LOG_LINES = 800_000
RATE = 2000
LOAD_SECONDS = 5
SYSTEM = machine.ROOT / "studies/systems/web-server.toml"
talk = Console(stderr=True)

Rows = list[tuple[str, str]]


def _bench(
    processes: Annotated[int, typer.Option(min=2, max=64, help="Worker processes of the cluster.")] = 2,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Rounds; each has both sides of every pair.")] = 5,
    quick: Annotated[bool, typer.Option(help="Only try it: small tasks, figures that mean nothing.")] = False,
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
) -> None:
    """Measure what a task costs, what a second process gives, and whether two generators see what one sees.

    Both sides of a pair run in turn, and the least elapsed time of each counts, because other work only adds to it. The
    machine should be quiet: a busy core halves what a second process can give. Ten minutes.

    Example: benchmarks/scale/bench --repetitions 3
    """
    about = run.describe("benchmarks/scale/bench", talk) | {"processes": processes, "repetitions": repetitions}
    share = 20 if quick else 1
    rows: Rows = []
    began = time.perf_counter()
    with dask_cluster.opened(LocalProcesses(processes), talk.print) as cluster, tempfile.TemporaryDirectory() as work:
        rows.append(("starting the cluster", format.seconds(time.perf_counter() - began)))
        rows += _tasks(cluster, EMPTY_TASKS // share)
        for name, one, several in (
            ("a sweep of simulations", *_sweep(cluster, SWEPT_JOBS // share, seed)),
            ("replications of one simulation", *_replicated(cluster, 8 * SWEPT_JOBS // share, seed)),
            ("the import of a log, plain", *_import(Path(work), LOG_LINES // share, "", processes, seed)),
            ("the import of a log, gzip", *_import(Path(work), LOG_LINES // share, ".gz", processes, seed)),
        ):
            rows += _pair(name, one, several, repetitions, talk)
        rows += _generators(cluster, Path(work), LOAD_SECONDS / math.sqrt(share), repetitions, seed)
    for name, said in rows:
        print(f"| {name} | {said} |")
    output.mkdir(parents=True, exist_ok=True)
    (output / "scale.json").write_text(json.dumps({"about": about, "rows": rows}, indent=2) + "\n")
    talk.print(f"written: {output / 'scale.json'}", highlight=False)


def _pair(
    name: str, one: Callable[[], object], several: Callable[[], object], repetitions: int, console: Console
) -> Rows:
    """Both sides in turn: the least elapsed times, their ratio, and the ratio of each round."""
    times: list[tuple[float, float]] = []
    results: list[object] = []
    for _ in range(repetitions):
        pair = []
        for side in (one, several):
            began = time.perf_counter()
            results.append(side())
            pair.append(time.perf_counter() - began)
        times.append((pair[0], pair[1]))
        console.print(f"{name}: {pair[0]:.2f} s alone, {pair[1]:.2f} s", highlight=False)
    assert all(each == results[0] for each in results), f"{name}: the sides differ"
    alone, spread = (min(side) for side in zip(*times, strict=True))
    rounds = sorted(first / second for first, second in times)
    said = f"{alone:.2f} s and {spread:.2f} s: {alone / spread:.2f} times as fast"
    return [(name, f"{said} (rounds: {rounds[0]:.2f} to {rounds[-1]:.2f}, median {statistics.median(rounds):.2f})")]


# -- tasks


def _tasks(cluster: DaskCluster, count: int) -> Rows:
    """What a task of nothing costs the command's process, where client and scheduler are, and its worker."""
    words = [(place,) for place in range(count)]
    in_order(cluster.each(_nothing, words))
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    at_workers = sum(cluster.client.run(time.process_time).values())
    in_order(cluster.each(_nothing, words))
    elapsed, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    at_workers = sum(cluster.client.run(time.process_time).values()) - at_workers
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = ", ".join(
        f"{format.seconds(seconds / count)} {what}"
        for seconds, what in ((own, "of CPU here"), (at_workers, "at workers"), (elapsed, "elapsed"))
    )
    loader = cluster.loaders()[0]
    trips = sorted(_timed(partial(loader.ask, time.time)) for _ in range(max(9, count // 4)))
    asked = f"best {format.seconds(trips[0])}, median {format.seconds(trips[len(trips) // 2])}"
    return [("a task of nothing", said), ("a question to a worker", asked)]


def _nothing(place: int) -> int:
    return place


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


# -- simulations


def _sweep(cluster: Tasks, jobs: int, seed: int) -> tuple[Callable[[], object], Callable[[], object]]:
    text = read_text(SYSTEM, "")

    def swept(tasks: Tasks) -> object:
        return in_order(tasks.each(_simulated, ((text, jobs, seed + place) for place in range(SIMULATIONS))))

    return partial(swept, InProcess()), partial(swept, cluster)


def _simulated(text: str, jobs: int, seed: int) -> float:
    found = queueing.simulate(queueing.System(text), half_width=1e-6, jobs_max=jobs, seed=seed)
    return found["response_time_seconds"]["mean"]


def _replicated(cluster: Tasks, jobs: int, seed: int) -> tuple[Callable[[], object], Callable[[], object]]:
    system = queueing.System(read_text(SYSTEM, ""))

    def alone() -> object:
        with _one_core():
            return queueing.simulate(
                system, half_width=1e-6, jobs_max=jobs, seed=seed, target="mean", replications=REPLICATIONS
            )

    def spread() -> object:
        return replications.simulate(
            system,
            cluster,
            half_width=1e-6,
            jobs_max=jobs,
            seed=seed,
            targets=["mean"],
            replications=REPLICATIONS,
            progress=lambda *_: None,
        )

    return alone, spread


@contextmanager
def _one_core() -> Iterator[None]:
    """Keeps this thread, and those that it starts, on one core."""
    whole = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(whole)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, whole)


# -- logs


def _import(
    work: Path, lines: int, ending: str, threads: int, seed: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    path = work / f"access.log{ending}"
    _native.synthesise_log(str(work / "access.log"), seed, lines)
    if ending:
        import gzip

        path.write_bytes(gzip.compress((work / "access.log").read_bytes(), 6))

    def imported(parsers: int) -> object:
        target = work / "trace"
        options = _native.LogOptions(parsers=parsers)
        report = _native.import_log_to_file(str(path), str(target), str(work), options, seed)
        return report, target.read_bytes()

    assert log.TRACE_MAGIC, "the trace is written by the importer itself"
    return partial(imported, 0), partial(imported, threads - 1)


# -- load


def _generators(cluster: DaskCluster, work: Path, seconds: float, repetitions: int, seed: int) -> Rows:
    """One generator beside all workers together, at the same rate: their histograms within their confidence."""
    site = work / "site"
    site.mkdir()
    (site / "index.html").write_text("x" * 1000)
    alone, together = [], []
    fleet = Fleet(cluster)
    with find("sojourn").start(Launch(site, work, None, "amped")) as server:
        for number in range(repetitions + 1):
            words = [f"{server.url}/", "--rate", str(RATE), "--duration", f"{seconds:g}s", "--warm-up", "1s"]
            words += ["--seed", str(seed + number)]
            alone.append(run_load(words))
            together.append(fleet.run(words))
    found = compare(Group("one generator", alone), Group("all workers", together))
    shown = [each for each in found.differences if each.metric.name in ("rps", "mean", "p50", "p90", "p99")]
    said = "; ".join(
        f"{each.metric.name} {each.ratio:.3f} ({each.low:.3f} to {each.high:.3f})"
        if each.low is not None and each.high is not None
        else f"{each.metric.name} {each.ratio:.3f}"
        for each in shown
    )
    return [(f"{RATE} requests/s by all workers, over those of one generator", said)]


if __name__ == "__main__":
    command_line.run(_bench)
