"""Fits load runs of one server: its demand by the utilisation law, and its latency from response times.

Each run has one load or several steps, with the server's CPU time measured (`--probe`, `--observe-pid`). The demand
follows from the plain law D = U / X over all runs: the measured processes do nothing without requests, so there is no
background load to separate. The difference between measured and modelled mean response times is attributed to a
constant latency: the network and wake-ups. The error is measured on runs held out of both.

The model is open and has processor sharing, so mean response times do not depend on the law of the demands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import polars

from sojourn import queueing
from sojourn.calibration.estimate import (
    BOOTSTRAP_SAMPLES,
    FOLDS,
    FloatArray,
    HeldOut,
    IndexArray,
    cross_validated,
    folds,
    percentile_interval,
)
from sojourn.calibration.fit import Fit, MeasuredTime, Options
from sojourn.calibration.stages import UNSEEN, Stages, followed
from sojourn.failure import CouldNotRun
from sojourn.loading import folder
from sojourn.loading.record import RequestsRecord, Step
from sojourn.loading.result import LoadResult
from sojourn.queueing import system_file
from sojourn.results.records import Interval

RUNS_MIN = 3
"""With fewer runs, none can be held out."""
POINTS_MIN = 4
"""The fewest seconds with responses."""
UNEVEN_RATIO = 1.5
"""The fit warns if the demands of runs differ by more than this factor."""
WINDOW_SECONDS = 1.0
"""Intervals are merged to this length: in shorter ones, work and its response may fall into different intervals."""
ONE_THREAD_SHARE = 0.9
"""A server with a thread that does at least this share of the work is limited to one core."""
CLASS = "requests"


@dataclass(frozen=True)
class _Load:
    """A step of a run: the offered load and the mean response time."""

    run: int
    rate: float
    mean_seconds: float


def is_load_run(path: Path) -> bool:
    """Returns true for a folder of `sojourn load` or `replay`, with a run or a search."""
    return folder.is_load_run(path) or folder.is_search(path)


def fit(runs: Sequence[Path], options: Options, servers: int | None, stages: Stages = UNSEEN) -> Fit:
    """Fits several runs together.

    Args:
        runs: folders of load runs; of a search, all its runs count.
        options: what the measurements do not say; its `servers` is not used.
        servers: how many cores the server works on; None: as the probe saw.
        stages: shows how far it is.
    """
    sources = [str(run) for run in runs]
    runs = [point for run in runs for point in _runs_in(run)]
    results = [folder.read(run) for run in followed(stages, "read", runs, len(runs))]
    _refuse_different_servers(runs, results)
    pairs = zip(runs, results, strict=True)
    tables = [_points(run, result) for run, result in followed(stages, "intervals", pairs, len(runs))]
    of_run = np.repeat(np.arange(len(tables)), [table.height for table in tables])
    points = polars.concat(tables)
    if points.height < POINTS_MIN:
        raise CouldNotRun(
            f"{points.height} seconds with answers are too few: at least {POINTS_MIN} are needed", "measure for longer"
        )
    busy, rates = (points[name].to_numpy() for name in ("busy", "requests_per_second"))
    measured = _rates(results)
    if not measured or not rates.any():
        raise CouldNotRun("no request was answered as it should be", "see what the runs' failures were")
    model = _Model.of(busy, rates, servers or _cores(results))
    loads, warnings = _loads(results)
    latency = model.latency(loads) if loads else None
    held_out, more = _held_out(busy, rates, of_run, model.servers, loads, options.seed, stages)
    return Fit(
        kind="load runs",
        sources=sources,
        points=points.height + len(loads),
        estimates={
            "demand_seconds": {CLASS: _interval(busy, rates, options.seed).model_dump()},
            "cores": model.servers,
            "latency_seconds": latency,
            "measured_requests_per_second": [min(measured), max(measured)],
        },
        held_out=held_out,
        warnings=[*warnings, *more, *_uneven(runs, tables)],
        measured=[MeasuredTime(requests_per_second=each.rate, mean_seconds=each.mean_seconds) for each in loads],
        system=model.described(options.rate or float(rates.mean()), latency or 0.0)
        | {"description": system_file.measured(min(measured), max(measured))},
    )


def _runs_in(path: Path) -> list[Path]:
    if not folder.is_search(path):
        return [path]
    found = folder.points(path)
    if not found:
        raise CouldNotRun(f"{path} is a search without a run", "give its complete folder, with its point-*.json")
    return found


@dataclass(frozen=True)
class _Model:
    """A processor-sharing model with several cores."""

    demand_seconds: float
    servers: int

    @classmethod
    def of(cls, busy: FloatArray, rates: FloatArray, servers: int) -> _Model:
        return cls(float(busy.sum() / rates.sum()), servers)

    def described(self, rate: float, latency_seconds: float) -> dict[str, Any]:
        """The system as `system_file.write` takes it."""
        station = {"discipline": "ps"} | ({"servers": self.servers} if self.servers > 1 else {})
        route = [{"station": "server", "demand": system_file.time(self.demand_seconds)}]
        latency = {"latency": system_file.time(latency_seconds)} if latency_seconds > 0 else {}
        return {
            "name": "server",
            "stations": {"server": station},
            "classes": {CLASS: {"rate": system_file.rate(rate), "route": route, **latency}},
        }

    def mean_seconds(self, rate: float) -> float:
        """The mean response time without latency; infinite if overloaded."""
        if self.demand_seconds * rate >= self.servers:
            return float("inf")
        system = queueing.System(system_file.write(self.described(rate, 0.0)))
        answer = queueing.predict(system, percentiles=False)["solvers"]["open"]["answer"]
        assert answer is not None
        return float(answer["classes"][CLASS]["response_time_seconds"]["mean"])

    def latency(self, loads: Sequence[_Load]) -> float:
        """The constant difference between measured and modelled mean response times."""
        lacking = [load.mean_seconds - self.mean_seconds(load.rate) for load in loads]
        known = [each for each in lacking if np.isfinite(each)]
        return max(0.0, float(np.median(known))) if known else 0.0


def _interval(busy: FloatArray, rates: FloatArray, seed: int) -> Interval:
    random = np.random.default_rng(seed)
    draws = (random.integers(0, len(busy), len(busy)) for _ in range(BOOTSTRAP_SAMPLES))
    samples = np.array([busy[draw].sum() / rates[draw].sum() for draw in draws])
    return percentile_interval(float(busy.sum() / rates.sum()), samples)


def _uneven(runs: Sequence[Path], tables: Sequence[polars.DataFrame]) -> list[str]:
    """Warns if the cost of a request depends on the rate: a single demand is then only a mean."""
    each = [
        _Model.of(table["busy"].to_numpy(), table["requests_per_second"].to_numpy(), 1).demand_seconds
        for table in tables
    ]
    low, high = (each.index(bound) for bound in (min(each), max(each)))
    if each[high] <= UNEVEN_RATIO * each[low]:
        return []
    said = " and ".join(f"{each[index] * 1e6:,.3g} us in {runs[index]}" for index in (high, low))
    return [f"A request cost {said}: the file has the mean over all requests."]


def _refuse_different_servers(runs: Sequence[Path], results: Sequence[LoadResult]) -> None:
    for run, result in zip(runs, results, strict=True):
        if result.is_streams:
            raise CouldNotRun(f"{run} is a run of viewers of films", "give runs of requests")
    named = {urlsplit(result.record.url).netloc for result in results}
    if len(named) > 1:
        raise CouldNotRun(
            f"the runs are of different servers: {', '.join(sorted(named))}", "fit the runs of each on their own"
        )


def _points(run: Path, result: LoadResult) -> polars.DataFrame:
    """A row per window: the busy cores and the throughput."""
    table = result.interval_table
    busy = next(
        (table[name] for name in ("probe_cpu_seconds_per_second", "server_cpu_fraction") if name in table), None
    )
    if busy is None or not np.isfinite(busy).any():
        raise CouldNotRun(
            f"{run} does not contain the server's CPU time",
            "measure again with sojourn load … --probe, or --observe-pid PID",
        )
    good = np.isfinite(busy) & np.isfinite(table["requests"])
    short = polars.DataFrame(
        {
            "window": np.floor((table["time_seconds"] - table["time_seconds"][0]) / WINDOW_SECONDS + 1e-6),
            "seconds": table["length_seconds"],
            "requests": table["requests"],
            "busy": busy * table["length_seconds"],
        }
    ).filter(polars.Series(good))
    windows = short.group_by("window", maintain_order=True).sum().filter(polars.col("busy") > 0)
    return windows.select(
        busy=polars.col("busy") / polars.col("seconds"),
        requests_per_second=polars.col("requests") / polars.col("seconds"),
    )


def _cores(results: Sequence[LoadResult]) -> int:
    """The number of cores the server can use: one if a single thread does all the work, else those available to it."""
    cores = [result.record.probe.cores or 1 for result in results if result.record.probe is not None]
    shares = []
    for result in results:
        table = result.interval_table
        if "probe_busiest_thread_fraction" in table:
            busiest, all_threads = table["probe_busiest_thread_fraction"], table["probe_cpu_seconds_per_second"]
            known = np.isfinite(busiest) & np.isfinite(all_threads) & (all_threads > 0)
            shares += list(busiest[known] / all_threads[known])
    if not cores or (shares and np.median(shares) >= ONE_THREAD_SHARE):
        return 1
    return max(cores)


def _loads(results: Sequence[LoadResult]) -> tuple[list[_Load], list[str]]:
    """The loads whose response times describe the server, and the reasons against the others."""
    found: list[_Load] = []
    left: dict[str, int] = {}
    for run, result in enumerate(results):
        assert isinstance(result.record, RequestsRecord)
        for step in result.record.steps:
            because = _useless(step)
            if because is not None:
                left[because] = left.get(because, 0) + 1
                continue
            mean = step.response_time_sent_seconds.mean
            assert mean is not None
            assert step.offered_requests_per_second is not None
            found.append(_Load(run, step.offered_requests_per_second, mean))
    of_all = len(found) + sum(left.values())
    warnings = [f"{count} of {of_all} loads: no response time: {because}." for because, count in left.items()]
    return found, warnings


def _useless(step: Step) -> str | None:
    if step.offered_requests_per_second is None:
        return "a closed loop (--clients) has no offered rate"
    if step.generator.limited:
        return "the generator was the limit"
    if not step.steady:
        return "they were not steady"
    return None if step.response_time_sent_seconds.mean is not None else "no request was answered"


def _rates(results: Sequence[LoadResult]) -> list[float]:
    """The measured throughputs by step."""
    known = [step.requests_per_second for result in results for step in result.record.steps if isinstance(step, Step)]
    return [rate for rate in known if rate]


def _held_out(
    busy: FloatArray,
    rates: FloatArray,
    of_run: IndexArray,
    servers: int,
    loads: Sequence[_Load],
    seed: int,
    stages: Stages,
) -> tuple[list[HeldOut], list[str]]:
    """The errors on held-out runs, or on held-out parts of the points if there are few runs."""
    several = of_run.max() + 1 >= RUNS_MIN
    groups = list(of_run) if several else list(range(len(busy)))
    utilisation = cross_validated(
        "utilisation",
        "runs left out in turn" if several else f"{FOLDS} parts of the points in turn",
        folds(groups, seed),
        busy,
        lambda fitted, out: _Model.of(busy[fitted], rates[fitted], servers).demand_seconds * rates[out],
    )
    runs = {load.run for load in loads}
    if len(runs) < RUNS_MIN:
        few = f"No response time was held out: that needs {RUNS_MIN} runs with response times (there are {len(runs)})."
        return [utilisation], [few]

    def predict(fitted: IndexArray, out: IndexArray) -> FloatArray:
        inside = [loads[index] for index in fitted]
        kept = np.isin(of_run, [load.run for load in inside])
        model = _Model.of(busy[kept], rates[kept], servers)
        latency = model.latency(inside)
        return np.array([latency + model.mean_seconds(loads[index].rate) for index in out])

    measured = np.array([load.mean_seconds for load in loads])
    splits = folds([load.run for load in loads], seed)
    parts = followed(stages, "held out", splits, len(splits))
    return [utilisation, cross_validated("response_time_mean", "runs left out in turn", parts, measured, predict)], []
