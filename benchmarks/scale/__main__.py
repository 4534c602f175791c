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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
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

NAME = "scale-benchmark"
EMPTY_TASKS = 400
SIMULATIONS = 16
"""Tasks of the sweep: enough for eight processes, each of about a second."""
SWEPT_JOBS = 1_000_000
REPLICATIONS = 8
LOG_LINES = 1_600_000
RECORDS = 2_000_000
RECORD = np.dtype(
    [(name, ">u4") for name in ("time", "client", "object", "bytes")]
    + [(name, "u1") for name in ("method", "status", "kind", "server")]
)
"""A record of the World Cup 1998 logs."""
MACHINES = 100
MACHINE_THREADS = 16
RATE = 2000
LOAD_SECONDS = 4
GENERATOR_ROUNDS = 4
SYSTEM = machine.ROOT / "studies/systems/web-server.toml"
talk = Console(stderr=True)

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Pair:
    """The same work in one process and in several."""

    name: str
    one: Callable[[], object]
    several: Callable[[], object]


def _bench(
    processes: Annotated[int, typer.Option(min=2, max=64, help="Worker processes of the cluster.")] = 2,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Rounds; each has both sides of every pair.")] = 5,
    minutes: Annotated[
        float, typer.Option(min=0, help="After this time no round begins, but there is at least one.")
    ] = 4,
    quick: Annotated[bool, typer.Option(help="Only try it: small tasks, figures that mean nothing.")] = False,
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
) -> None:
    """Measure what a task costs, what a second process gives, and whether two generators see what one sees.

    Both sides of a pair run in turn, and the least elapsed time of each counts, because other work only adds to it. The
    machine should be quiet: a busy core halves what a second process can give. Each measurement is kept in the output's
    folder when it ends; the same command goes on where it was interrupted.

    Example: benchmarks/scale/bench --repetitions 3
    """
    about = run.describe("benchmarks/scale/bench", talk)
    share = 20 if quick else 1
    settings = {"processes": processes, "seed": seed, "share": share, "revision": about["revision"]}
    kept = _Kept(output / "measured.jsonl", settings)
    began = time.monotonic()
    with dask_cluster.opened(LocalProcesses(processes), talk.print) as cluster, tempfile.TemporaryDirectory() as work:
        starting = format.seconds(time.monotonic() - began)
        kept.measured("tasks", lambda: [("starting the cluster", starting), *_tasks(cluster, EMPTY_TASKS // share)])
        pairs = [
            Pair("a sweep of simulations", *_sweep(cluster, SWEPT_JOBS // share, seed)),
            Pair("replications of one simulation", *_replicated(cluster, 8 * SWEPT_JOBS // share, seed)),
            Pair("the import of a log, plain", *_import(Path(work), LOG_LINES // share, "", processes, seed)),
            Pair("the import of a log, gzip", *_import(Path(work), LOG_LINES // share, ".gz", processes, seed)),
            Pair("the import of World Cup records", *_records(Path(work), RECORDS // share, processes, seed)),
        ]
        kept.measured(
            "generators",
            lambda: _generators(cluster, Path(work), LOAD_SECONDS / math.sqrt(share), GENERATOR_ROUNDS, seed),
        )
        for number in range(repetitions):
            if number > 0 and time.monotonic() - began > 60 * minutes:
                talk.print(f"{number} rounds: the {minutes:g} minutes are over")
                break
            for pair in pairs:
                kept.measured(f"{pair.name} {number}", partial(_timed_pair, pair))
    rows: Rows = kept.rows("tasks")
    for pair in pairs:
        rows += _row(pair.name, [kept.pair(f"{pair.name} {number}") for number in range(repetitions)])
    rows += kept.rows("generators")
    for name, said in rows:
        print(f"| {name} | {said} |")
    (output / "scale.json").write_text(json.dumps({"about": about | settings, "rows": rows}, indent=2) + "\n")
    talk.print(f"written: {output / 'scale.json'}", highlight=False)


class _Kept:
    """What has been measured, a line of a file for each. Those of other settings or revisions are forgotten."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError, json.JSONDecodeError):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            if lines and lines[0] == settings:
                self._values = dict(lines[1:])
        if not self._values:
            path.write_text(json.dumps(settings) + "\n")

    def measured(self, name: str, measure: Callable[[], Any]) -> None:
        """Measures unless it has been."""
        if name in self._values:
            talk.print(f"{name}: kept from before", highlight=False)
            return
        self._values[name] = measure()
        with self._path.open("a") as file:
            file.write(json.dumps([name, self._values[name]]) + "\n")
        talk.print(f"{name}: {self._values[name]}", highlight=False)

    def rows(self, name: str) -> Rows:
        return [(each, said) for each, said in self._values[name]]

    def pair(self, name: str) -> tuple[float, float] | None:
        """The elapsed times of a pair's round, if it was measured."""
        found = self._values.get(name)
        return None if found is None else (found[0], found[1])


def _timed_pair(pair: Pair) -> tuple[float, float]:
    """The elapsed times of both sides, whose results must be the same."""
    times, results = [], []
    for side in (pair.one, pair.several):
        began = time.perf_counter()
        results.append(side())
        times.append(time.perf_counter() - began)
    assert results[0] == results[1], f"{pair.name}: the sides differ"
    return times[0], times[1]


def _row(name: str, rounds: list[tuple[float, float] | None]) -> Rows:
    """The least elapsed times of both sides, their ratio, and the ratios of the rounds."""
    times = [each for each in rounds if each is not None]
    alone, spread = (min(side) for side in zip(*times, strict=True))
    ratios = sorted(first / second for first, second in times)
    said = f"{alone:.2f} s and {spread:.2f} s: {alone / spread:.2f} times as fast"
    said += f" ({len(times)} rounds: {ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f})"
    return [(name, said)]


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
    threads = MACHINES * MACHINE_THREADS
    least = f"{format.seconds(threads * own / count)} keep {threads} threads busy; {count / own:.0f} tasks per second"
    return [
        ("a task of nothing", said),
        ("a question to a worker", asked),
        (f"tasks of at least this length, {MACHINES} machines of {MACHINE_THREADS} threads", least),
    ]


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
    work: Path, lines: int, ending: str, cores: int, seed: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    path = work / f"access.log{ending}"
    _native.synthesise_log(str(work / "access.log"), seed, lines)
    if ending:
        import gzip

        path.write_bytes(gzip.compress((work / "access.log").read_bytes(), 1))

    return _imports(path, work, cores, seed)


def _records(work: Path, count: int, cores: int, seed: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Records of many clients: the tables of names are larger than a processor's cache."""
    random = np.random.default_rng(seed)
    records = np.zeros(count, RECORD)
    records["time"] = 894_000_000 + np.arange(count) // 300
    records["client"] = 300_000 * random.random(count) ** 3
    records["object"] = 40_000 * random.random(count) ** 4
    records["bytes"] = 100 + records["object"] * 7 % 5000
    records["status"] = 0x42
    records["kind"] = records["object"] % 3 > 0
    path = work / "wc_day50_1"
    path.write_bytes(records.tobytes())
    return _imports(path, work, cores, seed)


def _imports(path: Path, work: Path, cores: int, seed: int) -> tuple[Callable[[], object], Callable[[], object]]:
    def imported(parsers: int) -> object:
        target = work / "trace"
        options = _native.LogOptions(parsers=parsers)
        report = _native.import_log_to_file(str(path), str(target), str(work), options, seed)
        return report, target.read_bytes()

    return partial(imported, 0), partial(imported, cores - 1)


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
