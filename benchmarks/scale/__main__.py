"""`benchmarks/scale/bench`: a cluster of local processes beside one process; prints the rows of docs/scale.md."""

from __future__ import annotations

import gzip
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
from benchmarks.paced_server import paced_server
from benchmarks.selection import chosen
from sojourn import _native, queueing
from sojourn.cluster import dask_cluster
from sojourn.cluster.dask_cluster import DaskCluster
from sojourn.cluster.target import LocalProcesses
from sojourn.cluster.tasks import InProcess, Tasks, in_order
from sojourn.loading.comparison import Group, compare
from sojourn.loading.fleet import Fleet
from sojourn.loading.run import run_load
from sojourn.planning import replications
from sojourn.text import format
from sojourn.text.toml import read_text
from sojourn.workload.log import LogOptions, import_log_to_file
from sojourn.workload.log_pieces import OnWorkers

NAME = "scale-benchmark"
EMPTY_TASKS = 400
SIMULATIONS = 16
"""Tasks of the sweep: enough for eight processes, each of about a second."""
SWEPT_JOBS = 10_000_000
REPLICATIONS = 8
LOG_LINES = 1_600_000
RECORDS = 2_000_000
LOGS = 8
"""Compressed logs that workers take, each its own."""
LEAD_SECONDS = 0.1
"""Imports that are to begin at once are told so long before."""
RECORD = np.dtype(
    [(name, ">u4") for name in ("time", "client", "object", "bytes")]
    + [(name, "u1") for name in ("method", "status", "kind", "server")]
)
"""A record of the World Cup 1998 logs."""
MACHINES = 100
MACHINE_THREADS = 16
SERVICE_SECONDS = 0.002
RATE = 300
"""Three fifths of what the paced server can do: requests of one generator wait for those of the other."""
LOAD_SECONDS = 8
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
    written: Path | None = None
    """What both write, and must write alike."""
    apart: Callable[[], float] | None = None
    """The elapsed time of equal parts of the work at once, each on its own: what the machine gives."""


def _bench(
    processes: Annotated[int, typer.Option(min=2, max=64, help="Worker processes of the cluster.")] = 2,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Rounds; each has both sides of every pair.")] = 5,
    minutes: Annotated[
        float, typer.Option(min=0, help="After this time no round begins, but there is at least one.")
    ] = 4,
    quick: Annotated[bool, typer.Option(help="Only try it: small tasks, figures that mean nothing.")] = False,
    only: Annotated[
        str | None, typer.Option(help="Pairs to measure: names as in the rows, comma-separated; * is a wildcard.")
    ] = None,
    seed: Seed = 1,
    output: Output = machine.ROOT / "runs" / NAME,
) -> None:
    """Measure what a task costs, what a second process gives, and whether two generators see what one sees.

    Both sides of a pair run in turn, and the least elapsed time of each counts, because other work only adds to it.
    --only chooses pairs, and leaves the generators out. The machine should be quiet: a busy core halves what a second
    process can give. Each measurement is kept in the folder of the output when it ends; the same command goes on
    where it was interrupted.

    Example: benchmarks/scale/bench --only "*import*" --repetitions 10
    """
    about = run.describe("benchmarks/scale/bench", talk)
    share = 20 if quick else 1
    settings = {"processes": processes, "seed": seed, "share": share, "revision": about["revision"]}
    kept = _Kept(output / "measured.jsonl", settings)
    began = time.monotonic()
    with dask_cluster.opened(LocalProcesses(processes), talk.print) as cluster, tempfile.TemporaryDirectory() as work:
        starting = format.seconds(time.monotonic() - began)
        kept.measured("tasks", lambda: [("starting the cluster", starting), *_tasks(cluster, EMPTY_TASKS // share)])
        logs = Logs(Path(work), cluster, processes, seed)
        lines, records = LOG_LINES // share, RECORDS // share
        pairs = [
            _sweep(cluster, processes, SWEPT_JOBS // share, seed),
            Pair("replications of one simulation", *_replicated(cluster, 8 * SWEPT_JOBS // share, seed)),
            logs.on_threads("the import of a log, plain", logs.made(lines, processes)),
            logs.on_threads("the import of a log, gzip", logs.made(lines, processes, ".gz")),
            logs.on_threads("the import of World Cup records", logs.records(records)),
        ]
        for ending, form in ((".gz", "gzip"), (".zst", "zstd")):
            if ending == ".gz" or shutil.which("zstd"):
                several = logs.made(lines, LOGS, ending).parts
                pairs.append(logs.on_workers(f"the import of {LOGS} logs on workers, {form}", several))
        pairs = chosen(only, pairs, "pair")
        if only is None:
            kept.measured(
                "generators",
                lambda: _generators(cluster, LOAD_SECONDS / math.sqrt(share), GENERATOR_ROUNDS, seed),
            )
        for number in range(repetitions):
            if number > 0 and time.monotonic() - began > 60 * minutes:
                talk.print(f"{number} rounds: the {minutes:g} minutes are over")
                break
            for pair in pairs:
                kept.measured(f"{pair.name} {number}", partial(_timed_pair, pair))
    rows: Rows = kept.rows("tasks")
    for pair in pairs:
        rows += _row(pair.name, [kept.times(f"{pair.name} {number}") for number in range(repetitions)])
    if only is None:
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

    def times(self, name: str) -> list[float] | None:
        """The elapsed times of a pair's round, if it was measured."""
        return self._values.get(name)


def _timed_pair(pair: Pair) -> list[float]:
    """The elapsed times of both sides, whose results must be the same, and of the parts apart."""
    times, results = [], []
    for side in (pair.one, pair.several):
        began = time.perf_counter()
        result = side()
        times.append(time.perf_counter() - began)
        results.append((result, pair.written and pair.written.read_bytes()))
    assert results[0] == results[1], f"{pair.name}: the sides differ"
    return times if pair.apart is None else [*times, pair.apart()]


def _row(name: str, rounds: list[list[float] | None]) -> Rows:
    """The least elapsed times of both sides and of the parts apart, their ratios, and the ratios of the rounds."""
    times = [each for each in rounds if each is not None]
    alone, spread, *apart = (min(side) for side in zip(*times, strict=True))
    ratios = sorted(each[0] / each[1] for each in times)
    said = f"{alone:.3f} s and {spread:.3f} s: {alone / spread:.2f} times as fast"
    said += f" ({len(times)} rounds: {ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f})"
    said += "".join(f"; equal parts apart, at once: {each:.3f} s, {alone / each:.2f} times" for each in apart)
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


def _at_once(tasks: Tasks, act: Callable[..., None], words: Sequence[tuple[object, ...]]) -> float:
    """The elapsed time of tasks that begin at the same moment, until the last ends."""
    at = time.monotonic() + LEAD_SECONDS
    return max(in_order(tasks.each(_ended, [(at, act, *each) for each in words]))) - at


def _ended(at: float, act: Callable[..., None], *words: object) -> float:
    """Acts from a moment on; returns the moment of the end."""
    time.sleep(max(0, at - time.monotonic()))
    act(*words)
    return time.monotonic()


# -- simulations


def _sweep(cluster: Tasks, processes: int, jobs: int, seed: int) -> Pair:
    text = read_text(SYSTEM, "")
    words = [(text, jobs, seed + place) for place in range(SIMULATIONS)]

    def swept(tasks: Tasks) -> object:
        return in_order(tasks.each(_simulated, words))

    def apart() -> float:
        return _at_once(cluster, _all_simulated, [(words[first::processes],) for first in range(processes)])

    return Pair("a sweep of simulations", partial(swept, InProcess()), partial(swept, cluster), apart=apart)


def _all_simulated(simulations: Sequence[tuple[str, int, int]]) -> None:
    for each in simulations:
        _simulated(*each)


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


@dataclass(frozen=True)
class Made:
    """A log, and the same in equal parts."""

    whole: Path
    parts: list[Path]


@dataclass(frozen=True)
class Logs:
    """Logs that are made in a folder, and imported there."""

    folder: Path
    cluster: DaskCluster
    cores: int
    seed: int

    def made(self, lines: int, parts: int, ending: str = "") -> Made:
        """A log of the combined format, compressed as its ending says."""
        plain = self.folder / "plain.log"
        if not plain.exists():
            _native.synthesise_log(str(plain), self.seed, lines)
        text = plain.read_bytes()
        ends = [text.index(b"\n", len(text) * number // parts - 1) + 1 for number in range(1, parts)]
        return self._stored(f"access.log{ending}", text, ends, ending)

    def records(self, count: int) -> Made:
        """Records of many clients: the tables of names are larger than a processor's cache."""
        random = np.random.default_rng(self.seed)
        records = np.zeros(count, RECORD)
        records["time"] = 894_000_000 + np.arange(count) // 300
        records["client"] = 300_000 * random.random(count) ** 3
        records["object"] = 40_000 * random.random(count) ** 4
        records["bytes"] = 100 + records["object"] * 7 % 5000
        records["status"] = 0x42
        records["kind"] = records["object"] % 3 > 0
        ends = [count * number // self.cores * RECORD.itemsize for number in range(1, self.cores)]
        return self._stored("wc_day50_1", records.tobytes(), ends, "")

    def _stored(self, name: str, text: bytes, ends: list[int], ending: str) -> Made:
        ranges = zip([0, *ends], [*ends, len(text)], strict=True)
        parts = [
            _written(self.folder / f"{len(ends) + 1}-{number}-{name}", text[begin:end], ending)
            for number, (begin, end) in enumerate(ranges)
        ]
        return Made(_written(self.folder / name, text, ending), parts)

    def on_threads(self, name: str, log: Made) -> Pair:
        trace = self.folder / "trace"
        one, several = (partial(_imported, [log.whole], trace, parsers, self.seed) for parsers in (0, self.cores - 1))
        return Pair(name, one, several, trace, partial(self._apart, log.parts))

    def on_workers(self, name: str, logs: list[Path]) -> Pair:
        trace = self.folder / "trace"

        def alone() -> None:
            _imported(logs, trace, 0, self.seed)

        def on_workers() -> None:
            options = LogOptions(also=[str(log) for log in logs[1:]])
            import_log_to_file(
                str(logs[0]), trace, options, self.seed, lambda *_: None, parsing=OnWorkers(self.cluster)
            )

        return Pair(name, alone, on_workers, trace)

    def _apart(self, parts: list[Path]) -> float:
        words = [(str(part), str(self.folder), self.seed) for part in parts]
        return _at_once(self.cluster, _imported_apart, words)


def _written(path: Path, text: bytes, ending: str) -> Path:
    if ending == ".gz":
        path.write_bytes(gzip.compress(text, 1))
    elif ending == ".zst":
        subprocess.run(["zstd", "--quiet", "--force", "-o", path], input=text, check=True)
    else:
        path.write_bytes(text)
    return path


def _imported(logs: Sequence[Path], trace: Path, parsers: int, seed: int) -> object:
    options = _native.LogOptions(parsers=parsers)
    paths = [(str(log), False) for log in logs]
    return _native.import_log_to_file(paths, str(trace), str(trace.parent), options, seed)


def _imported_apart(log: str, folder: str, seed: int) -> None:
    """Imports a log on one thread, into a folder of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        _imported([Path(log)], Path(own) / "trace", 0, seed)


# -- load


def _generators(cluster: DaskCluster, seconds: float, repetitions: int, seed: int) -> Rows:
    """One generator beside all workers together, at the same rate: their histograms within their confidence."""
    alone, together = [], []
    fleet = Fleet(cluster)
    with paced_server(SERVICE_SECONDS) as url:
        for number in range(repetitions + 1):
            words = [url, "--rate", str(RATE), "--duration", f"{seconds:g}s", "--warm-up", "1s"]
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
