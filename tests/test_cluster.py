"""Work on a cluster: tasks on workers and schedulers that die, sweeps with the numbers of one process, load as one."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
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
from films import make_film
from login_scenario import login_scenario
from shop_server import shop
from sojourn import __version__, _native, queueing, systems
from sojourn.assessment.measurement import Bench, observed
from sojourn.caching import requests as requests_of_caches
from sojourn.caching.simulation import simulate
from sojourn.cluster import dask_cluster
from sojourn.cluster.dask_cluster import LOAD, DaskCluster
from sojourn.cluster.target import LocalProcesses, Scheduler
from sojourn.cluster.tasks import InProcess, Outcome, in_order
from sojourn.failure import CouldNotRun
from sojourn.loading import folder
from sojourn.loading.fleet import Fleet
from sojourn.loading.record import RequestsRecord
from sojourn.loading.run import run_load, run_replay
from sojourn.machine.cores import Cores
from sojourn.planning import replications
from sojourn.systems import Launch
from sojourn.workload import site
from sojourn.workload.log import LogOptions, import_log, import_log_to_file
from sojourn.workload.log_pieces import OnWorkers
from streaming_server import streaming
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


@pytest.mark.usefixtures("cluster")
def test_dask_prints_nothing_of_what_the_command_says() -> None:
    loggers = [name for name in logging.root.manager.loggerDict if name.startswith(("distributed", "tornado"))]
    assert "distributed.client" in loggers
    assert [name for name in loggers if logging.getLogger(name).isEnabledFor(logging.ERROR)] == []


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


def test_logs_are_parsed_by_workers_as_here(cluster: DaskCluster, tmp_path: Path) -> None:
    line = '10.0.0.{} - - [10/Oct/2000:13:{:02}:{:02} +0000] "GET /{} HTTP/1.0" 200 {}\n'
    lines = [line.format(n % 40, n // 600, n // 10 % 60, n % 30, n % 30) for n in range(30_000)]
    log, older = tmp_path / "access.log", tmp_path / "access.log.1.gz"
    log.write_text("".join(lines[20_000:]))
    older.write_bytes(gzip.compress("".join(lines[:20_000]).encode(), 1))

    def imported(parsing: OnWorkers | None) -> tuple[bytes, object]:
        options, trace = LogOptions(also=[str(log)]), tmp_path / "trace"
        _, report = import_log_to_file(str(older), trace, options, 1, lambda done, total: None, parsing=parsing)
        return trace.read_bytes(), report

    assert imported(OnWorkers(cluster, part_bytes=30_000)) == imported(None)


def test_processes_of_this_machine_are_not_started_for_a_log_that_threads_parse(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text('10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.0" 200 2326\n' * 10)
    done = run("trace", log, "--cluster", "local:2")
    assert done.returncode == 0, done.stderr
    assert "10 lines" in done.stderr
    assert "workers" not in done.stderr


def _slow_if_first(place: int, mark: str) -> int:
    """The first waits until no other begins."""
    Path(mark, str(place)).touch()
    if place == 0:
        time.sleep(0.3)
    return len(list(Path(mark).iterdir()))


def test_no_task_begins_far_ahead_of_one_that_has_not_come(cluster: DaskCluster, tmp_path: Path) -> None:
    outcomes = list(cluster.each(_slow_if_first, ((place, str(tmp_path)) for place in range(20)), ahead_max=4))
    assert next(each.value for each in outcomes if each.place == 0) <= 4
    assert len(outcomes) == 20


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


def test_users_who_are_logged_in_are_shared_by_the_workers_and_come_back(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("name,password\n" + "".join(f"u{n},pw u{n}\n" for n in range(5)))
    (tmp_path / "shop.toml").write_text(
        login_scenario("Hello u")
        + '[[request]]\nname = "home"\nurl = "/home"\ncheck.contains = "Hello ${name}"\n'
        + '[[request]]\nname = "items"\nurl = "/api/items"\n'
    )
    kept = tmp_path / "users.json"
    with shop() as server:
        words = [server.url, "--scenario", str(tmp_path / "shop.toml"), "--users-file", str(kept), "--warm-up", "0s"]
        with pytest.raises(CouldNotRun, match="has no users who are logged in"):
            Fleet(cluster).run([*words, "--clients", "2", "--duration", "1s"])
        run_load([*words, "--clients", "5", "--sessions", "5", "--duration", "5s"])
        before = {user["number"]: user["iterations"] for user in json.loads(kept.read_text())}
        logins = server.logins.copy()
        result = Fleet(cluster, weights=[3, 2]).run([*words, "--clients", "5", "--duration", "1s"])
        assert server.logins == logins
        with pytest.raises(CouldNotRun, match="5 users who are logged in cannot be shared by 2 machines"):
            Fleet(cluster, weights=[99, 1]).run([*words, "--rate", "5", "--duration", "1s"])
    assert result.complete
    assert result.of_requests.errors == 0
    assert result.requests > 20
    items = next(each for each in result.of_requests.by_name if each.name == "items")
    timing = {name: each.count for name, each in items.server_timing_seconds.items()}
    assert timing == {"app": items.requests, "db": items.requests}
    after = {user["number"]: user["iterations"] for user in json.loads(kept.read_text())}
    assert after.keys() == before.keys() == set(range(5))
    assert all(after[number] > before[number] for number in before)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_sessions_of_a_log_are_each_replayed_once(cluster: DaskCluster, tmp_path: Path) -> None:
    line = '10.0.0.{client} - - [10/Oct/2000:13:55:{second:02} +0000] "GET /{page} HTTP/1.0" 200 5\n'
    (tmp_path / "log").write_text(
        "".join(line.format(client=n % 40, second=n % 20, page=n % 3) for n in sorted(range(200), key=lambda n: n % 20))
    )
    trace, _ = import_log(str(tmp_path / "log"), LogOptions(), 1, lambda done, total: None)
    trace.save(str(tmp_path / "trace"))
    site.build(tmp_path / "site", site.documents_of(trace), 10**8, lambda *_: None)
    words = ["--scale", "20", "--think-scale", "0.05"]
    with serving(tmp_path / "site") as (address, _):
        shared = Fleet(cluster, "replay", [3, 1]).run([str(tmp_path / "trace"), f"http://{address}", *words])
        alone = run_replay([str(tmp_path / "trace"), f"http://{address}", *words])
    assert shared.requests == alone.requests == 200
    parts = [machine.requests or 0 for machine in shared.of_requests.machines]
    assert sum(parts) == 200
    assert parts[0] > parts[1] > 20
    (step,) = shared.of_requests.steps
    (expected,) = alone.of_requests.steps
    assert step.offered_requests_per_second == pytest.approx(expected.offered_requests_per_second)


@pytest.mark.slow
def test_films_are_played_by_viewers_of_several_machines(cluster: DaskCluster, tmp_path: Path) -> None:
    film = make_film(tmp_path)
    with streaming(tmp_path) as server:
        words = [server.url(film.name), "--clients", "6", "--ramp", "60/s", "--duration", "2s"]
        result = Fleet(cluster).run([*words, "--prebuffer", "500ms"])
    record = result.of_streams
    assert result.complete
    assert record.streaming.streams.started >= 6
    assert [machine.streams for machine in record.machines] == [3, 3]
    (step,) = record.steps
    assert step.clients == 6
    assert step.streams_playing_mean == pytest.approx(6, rel=0.2)
    packets, rates = record.streaming.packets, record.streaming.bit_rate
    assert packets is not None
    assert packets.received > 0
    assert record.behind_seconds.count == len(result.latencies["behind"]) > 0
    assert rates is None or rates.min_bits_per_second <= rates.p50_bits_per_second <= rates.max_bits_per_second
    assert result.timeline["streams_playing"].max() == 6


@pytest.mark.slow
def test_a_rising_load_by_machines_is_observed_from_here(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "log").write_text(
        "".join(f'10.0.0.{n} - - [10/Oct/2000:13:55:{n:02} +0000] "GET / HTTP/1.0" 200 5\n' for n in range(50))
    )
    trace, _ = import_log(str(tmp_path / "log"), LogOptions(), 1, lambda done, total: None)
    trace.save(str(tmp_path / "trace"))
    site.build(tmp_path / "site", site.documents_of(trace), 10**8, lambda *_: None)
    launch = Launch(tmp_path / "site", tmp_path, None, "amped")
    with systems.find("sojourn").start(launch) as server:
        bench = Bench(server, Cores(None, None), 1, fleet=Fleet(cluster))
        found = bench.rising_load(
            tmp_path / "trace", [100, 200], ["--step", "1s", "--settle", "200ms", "--embed"], None
        )
    assert [machine.host for machine in found.machines][-1] == "this machine"
    assert [step.offered_requests_per_second for step in found.steps] == [pytest.approx(100), pytest.approx(200)]
    for step in found.steps:
        assert step.server is not None
        assert observed(step, "cpu_seconds_per_request") is not None
    assert found.histograms


def test_replications_on_workers_give_the_same_figures(cluster: DaskCluster) -> None:
    system = queueing.System(Path("studies/systems/web-server.toml").read_text())
    seen: list[int] = []
    spread = replications.simulate(
        system,
        cluster,
        half_width=0.02,
        jobs_max=400_000,
        seed=3,
        targets=["mean", "p95"],
        replications=5,
        progress=lambda jobs, *_: seen.append(jobs),
    )
    alone = queueing.simulate(system, half_width=0.02, jobs_max=400_000, seed=3, target=["mean", "p95"], replications=5)
    assert spread == alone
    assert seen[-1] == spread["jobs"]
    assert seen == sorted(seen)


def test_a_load_of_fewer_clients_than_machines_may_leave_some_out(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    with serving(tmp_path) as (address, _):
        words = [f"http://{address}/", "--clients", "1", "--duration", "300ms", "--warm-up", "100ms"]
        with pytest.raises(CouldNotRun, match="1 clients cannot be shared by 2 machines"):
            Fleet(cluster).run(words)
        result = Fleet(cluster, leaves_out=True).run(words)
    assert [machine.share for machine in result.of_requests.machines] == [1]


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
    # Its engine stops and leaves what it has measured.
    because = next(each.failed_because for each in result.of_requests.machines if each.host == mortal.name)
    left = Path((because or "").rpartition(" ")[2]) / "result.json"
    kept = RequestsRecord.model_validate_json(left.read_text())
    assert (kept.complete, kept.requests > 10) == (False, True)
    shutil.rmtree(left.parent)


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
