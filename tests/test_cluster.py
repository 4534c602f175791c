"""Work on a cluster: tasks on workers and schedulers that die, sweeps with the numbers of one process, load as one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from conftest import run
from sojourn import __version__, _native
from sojourn.caching import requests as requests_of_caches
from sojourn.caching.simulation import simulate
from sojourn.cluster import dask_cluster
from sojourn.cluster.dask_cluster import LOAD, DaskCluster
from sojourn.cluster.target import LocalProcesses, Scheduler
from sojourn.cluster.tasks import InProcess, Outcome, in_order
from sojourn.failure import CouldNotRun
from sojourn.loading import folder
from sojourn.loading.fleet import Fleet
from test_commands import serving

assert requests_of_caches, "it tells pickle how requests travel"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    said: list[str] = []
    with dask_cluster.opened(LocalProcesses(2), said.append) as opened:
        assert said[0] == "cluster local:2: 2 workers, 2 threads"
        assert said[1].startswith("dashboard: http://127.0.0.1:")
        yield opened


def _half_or_fail(number: int) -> float:
    if number < 0:
        raise CouldNotRun(f"{number} is negative", "give another")
    return number / 2


def _die_once(mark: str) -> str:
    """Kills the worker that runs it first; runs to the end the second time."""
    path = Path(mark)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{path.name} of {__version__}"


def test_values_and_failures_come_back_whatever_their_order(cluster: DaskCluster) -> None:
    found = {each.place: each for each in cluster.each(_half_or_fail, ((number,) for number in (6, -1, 8)))}
    assert (found[0].result(), found[2].result()) == (3, 4)
    with pytest.raises(CouldNotRun) as failure:
        found[1].result()
    assert failure.value.hint == "give another"
    assert in_order(cluster.each(_half_or_fail, ((number,) for number in range(40)))) == [n / 2 for n in range(40)]


def test_who_stops_asking_stops_the_tasks(cluster: DaskCluster) -> None:
    outcomes = cluster.each(time.sleep, ((0.05,) for _ in range(10_000)))
    next(outcomes)
    began = time.monotonic()
    outcomes.close()
    assert in_order(cluster.each(_half_or_fail, [(2,)])) == [1]
    assert time.monotonic() - began < 5


def test_caches_miss_on_workers_as_here(cluster: DaskCluster) -> None:
    random = np.random.default_rng(1)
    objects = random.zipf(1.3, 5000).astype(np.uint64)
    requests = _native.CacheTrace(objects, objects % np.uint64(1000) + np.uint64(1))

    def found(tasks: InProcess | DaskCluster) -> object:
        return simulate(
            "made",
            requests,
            ["lru", "gdsf", "belady"],
            [1000, 20_000],
            admission="all",
            object_bytes_max=None,
            progress=lambda done, total: None,
            tasks=tasks,
        ).as_json()

    assert found(cluster) == found(InProcess())


def test_load_is_generated_by_workers_as_one(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    with serving(tmp_path) as (address, _):
        words = [f"http://{address}/", "--clients", "6", "--duration", "1s", "--warm-up", "200ms"]
        result = Fleet(cluster, weights=[2, 1]).run(words)
    machines = result.of_requests.machines
    assert [machine.share for machine in machines] == [pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert sum(machine.requests or 0 for machine in machines) == result.requests > 100
    assert result.complete
    assert not result.lost_machines
    assert result.of_requests.response_time_seconds.count == result.requests
    for machine in machines:
        # The workers are on this machine: its clock is not apart from itself by more than the stated error.
        assert abs(machine.clock_offset_seconds) <= machine.round_trip_seconds / 2 + 1e-3


def test_a_load_that_the_engine_refuses_is_an_error(cluster: DaskCluster) -> None:
    with pytest.raises(CouldNotRun, match="nonsense"):
        Fleet(cluster).run(["http://127.0.0.1:1/", "--clients", "4", "--nonsense", "1"])


def test_a_machine_that_dies_is_named_and_the_rest_kept(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    _, mortal = cluster.loaders()
    pid = mortal.ask(os.getpid)
    killer = threading.Timer(2.5, os.kill, (pid, signal.SIGKILL))
    with serving(tmp_path) as (address, _):
        killer.start()
        words = [f"http://{address}/", "--clients", "4", "--duration", "4s", "--warm-up", "100ms"]
        result = Fleet(cluster).run(words)
    killer.join()
    assert not result.complete
    assert result.lost_machines == [mortal.name]
    assert mortal.name in (result.record.stopped_because or "")
    assert result.is_whole_without_lost
    assert result.requests > 100


def test_a_task_whose_worker_dies_runs_again(cluster: DaskCluster, tmp_path: Path) -> None:
    marks = [(str(tmp_path / f"mark-{number}"),) for number in range(2)]
    assert in_order(cluster.each(_die_once, marks)) == [f"mark-{number} of {__version__}" for number in range(2)]


# -- a scheduler that is already running --------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def _dask(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "dask", *words]
    # The scheduler reads the tasks, too: it needs what they are made of.
    known = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(command, env=known, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _scheduler(port: int) -> Iterator[subprocess.Popen[bytes]]:
    words = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    with _dask("scheduler", *words) as scheduler:
        yield scheduler


@contextmanager
def _worker(address: str) -> Iterator[subprocess.Popen[bytes]]:
    words = (address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    with _dask("worker", *words, "--resources", f"{LOAD}=1") as worker:
        yield worker


def _slow_square(number: int) -> int:
    time.sleep(0.1)
    return number * number


@pytest.mark.slow
def test_tasks_go_on_when_a_scheduler_comes_back() -> None:
    port = _free_port()
    address = f"tcp://127.0.0.1:{port}"
    found: list[Outcome[int]] = []
    with _scheduler(port) as scheduler, _worker(address):
        time.sleep(1)
        with dask_cluster.opened(Scheduler(address)) as opened:
            outcomes = opened.each(_slow_square, ((number,) for number in range(30)))
            found += [next(outcomes) for _ in range(5)]
            scheduler.kill()
            scheduler.wait()
            with _scheduler(port), _worker(address):
                found += outcomes
    assert sorted((each.place, each.result()) for each in found) == [(n, n * n) for n in range(30)]


def test_a_scheduler_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS_MAX", 0.5)
    with pytest.raises(CouldNotRun, match="cannot be started"), dask_cluster.opened(Scheduler("tcp://127.0.0.1:1")):
        pass


# -- commands ------------------------------------------------------------------------------------------------------


def _points(kept: Path) -> list[object]:
    records = [json.loads(path.read_text()) for path in sorted((kept / "points").glob("*.json"))]
    return [(record["settings"], record["repetition"], record["metrics"]) for record in records]


@pytest.mark.slow
def test_a_study_and_a_plan_have_the_same_numbers_on_a_cluster(tmp_path: Path) -> None:
    study = ("study", "web-model/by-helpers", "--quick", "--format", "json")
    alone = run(*study, "--output", tmp_path / "alone")
    spread = run(*study, "--output", tmp_path / "spread", "--cluster", "local:2")
    assert alone.returncode == spread.returncode == 0, spread.stderr
    assert _points(tmp_path / "spread") == _points(tmp_path / "alone") != []
    system = Path("studies/systems/web-server.toml").resolve()
    plan = ("plan", system, "--target", "p95 < 2s", "--format", "json")
    alone = run(*plan, "--output", tmp_path / "plan-alone")
    spread = run(*plan, "--output", tmp_path / "plan-spread", "--cluster", "local:2")
    assert (spread.returncode, spread.stdout) == (alone.returncode, alone.stdout), spread.stderr
    assert "dashboard" not in spread.stderr


def test_a_load_by_two_workers_has_a_report_and_a_verdict(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    with serving(tmp_path) as (address, _):
        words = ("load", f"http://{address}/", "--clients", "4", "--duration", "1s", "--warm-up", "100ms")
        done = run(
            *words, "--cluster", "local:2", "--shares", "3,1", "--output", tmp_path / "run", "--threshold", "rps>1"
        )
    assert done.returncode == 0, done.stderr
    assert "dashboard: http" in done.stderr
    assert folder.read(tmp_path / "run").intervals
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The load machines" in page
    refused = run("load", "http://127.0.0.1:1/", "--clients", "4", "--cluster", "tcp://10.0.0.1:8786")
    assert refused.returncode == 2
    assert "no authentication" in refused.stderr
