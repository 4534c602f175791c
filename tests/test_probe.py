"""`sojourn probe` as a person or a script meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest

from conftest import SOJOURN, run
from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.probe import files
from sojourn.probe.merging import merge

BUSY = ("sh", "-c", "i=0; while :; do i=$((i+1)); done")


@pytest.mark.alone
def test_a_command_is_started_measured_and_ended(tmp_path: Path) -> None:
    done = run("probe", "--duration", "1s", "--format", "json", "--output", tmp_path / "busy.parquet", "--", *BUSY)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    cpu = found["counters"]["cpu_seconds"]
    # It spins on a core that it may have to share.
    assert 0.05 < cpu["total"] <= 1.1 * found["duration_seconds"]
    assert (cpu["unit"], cpu["kind"]) == ("s", "total")
    assert cpu["source"]
    clock = found["counters"]["perf_task_clock_seconds"]
    if "unavailable" not in clock:
        assert clock["total"] == pytest.approx(cpu["total"], rel=0.02, abs=0.02)
    assert found["counters"]["accept_queue"]["unavailable"] == "no port was named"
    (pid,) = found["pids"]
    assert not Path(f"/proc/{pid}").exists()


def test_a_recording_is_read_back_and_joined_to_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "busy.parquet"
    done = run("probe", "--duration", "500ms", "--interval", "50ms", "--output", path, "--", *BUSY)
    assert done.returncode == 0, done.stderr
    recording = files.read(path)
    assert len(recording.rows) >= 3
    assert np.all(np.diff(recording.values("cpu_seconds")) >= 0)
    middle = (recording.unix_seconds[0] + recording.unix_seconds[-1]) / 2
    timeline = polars.DataFrame({"unix_seconds": [recording.unix_seconds[0] - 10.0, middle]})
    joined = merge(timeline, recording)["probe_cpu_seconds"]
    assert np.isnan(joined[0])
    assert recording.values("cpu_seconds")[0] <= joined[1] <= recording.values("cpu_seconds")[-1]
    with pytest.raises(CouldNotRun, match="do not overlap"):
        merge(timeline, recording, offset_seconds=3600.0)


def test_prometheus_text_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "busy.prom"
    assert run("probe", "--duration", "300ms", "--output", path, "--", *BUSY).returncode == 0
    text = path.read_text()
    assert "# TYPE sojourn_probe_cpu_seconds_total counter" in text
    assert "# TYPE sojourn_probe_resident_bytes gauge" in text
    assert "# sojourn_probe_accept_queue is unavailable: no port was named" in text
    for line in text.splitlines():
        if not line.startswith("#"):
            float(line.rsplit(" ", 1)[1])


def test_an_interruption_keeps_what_was_sampled(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    command = ("sh", "-c", f"touch {begun}; exec sleep 60")
    program = [str(SOJOURN), "probe", "--interval", "20ms", "--format", "json", "--", *command]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        output, talk = process.communicate(timeout=30)
    assert process.returncode == 0, talk
    assert json.loads(output)["samples"] >= 2


SERVER_WITH_QUEUE = """
import fcntl, os, socket, struct, sys, time
SIOCSIFFLAGS, UP = 0x8914, 1
listener = socket.create_server(("0.0.0.0", 0))
fcntl.ioctl(listener, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", UP))
address = ("127.0.0.1", listener.getsockname()[1])
for _ in range(200):
    with socket.create_connection(address) as client:
        listener.accept()[0].close()
        client.recv(1)
open_ones = [(socket.create_connection(address), listener.accept()) for _ in range(50)]
waiting = [socket.create_connection(address) for _ in range(3)]
print(address[1], flush=True)
time.sleep(60)
"""
"""A server in a network namespace of its own, with connections of every kind; three wait to be accepted."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a network namespace")
@pytest.mark.parametrize("may_enter", [True, False])
def test_the_accept_queue_is_seen_in_another_network_namespace(may_enter: bool) -> None:
    namespace = ["unshare", "--net", sys.executable, "-c", SERVER_WITH_QUEUE]
    with subprocess.Popen(namespace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        port = server.stdout.readline().strip()
        if not port:
            pytest.skip(f"no network namespace can be made here: {server.stderr.read()[-200:]}")
        try:
            probe = [str(SOJOURN.with_name("sojourn-engine")), "probe", "--pid", str(server.pid), "--port", port]
            probe += ["--sources", "network", "--duration", "300ms"]
            without = [] if may_enter else ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
            done = subprocess.run([*without, *probe], capture_output=True, text=True, timeout=60, check=False)
        finally:
            server.kill()
    assert done.returncode == 0, done.stderr
    header, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    place = [column["name"] for column in header["columns"]].index("accept_queue")
    assert {row["values"][place] for row in rows} == {3.0}


SERVER_WITH_WORKERS = """
import os, signal, socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    worker = os.fork()
    if worker == 0:
        signal.pause()
    print(worker, flush=True)
    os.waitpid(worker, 0)
"""
"""A server whose only worker holds the socket, too, and is replaced when it ends."""


def test_a_worker_that_is_replaced_costs_no_counter() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER_WITH_WORKERS], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        try:
            assert server.stdout is not None
            port, worker = (int(server.stdout.readline()) for _ in range(2))
            arguments = ["probe", "--port", str(port), "--sources", "processes", "--interval", "20ms"]
            with engine.Stream(arguments) as probe:
                lines = map(json.loads, probe)
                header = next(lines)
                assert header["pids"] == [server.pid]
                place = [column["name"] for column in header["columns"]].index("cpu_seconds")
                assert isinstance(next(lines)["values"][place], float)
                os.kill(worker, signal.SIGKILL)
                # Once the next worker has been started, the ended one is none of the server's any more.
                assert int(server.stdout.readline()) != worker
                replaced = time.time()
                later = (row["values"][place] for row in lines if row["unix_seconds"] > replaced)
                values = [next(later) for _ in range(5)]
                assert all(isinstance(each, float) for each in values), values
        finally:
            os.killpg(server.pid, signal.SIGKILL)


MANY_THREADS = """
import threading
for _ in range(100):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(flush=True)
input()
"""


def test_more_threads_than_descriptors_are_measured() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MANY_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as threads:
        try:
            assert threads.stdout is not None
            threads.stdout.readline()
            probe = [str(SOJOURN.with_name("sojourn-engine")), "probe", "--pid", str(threads.pid)]
            few = ["sh", "-c", 'ulimit -S -n 64; exec "$0" "$@"', *probe, "--interval", "20ms", "--duration", "200ms"]
            done = subprocess.run(few, capture_output=True, text=True, timeout=60, check=False)
        finally:
            threads.kill()
    assert done.returncode == 0, done.stderr
    header, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    place = [column["name"] for column in header["columns"]].index("cpu_seconds")
    assert all(isinstance(row["values"][place], float) for row in rows), rows[-1]


@pytest.mark.parametrize(("failing", "code"), [("exit 1", 2), ("trap 'exit 1' INT; while :; do sleep 0.05; done", 1)])
def test_a_profile_that_fails_costs_no_samples(tmp_path: Path, failing: str, code: int) -> None:
    programs, kept = tmp_path / "programs", tmp_path / "busy.json"
    programs.mkdir()
    (programs / "perf").write_text(f"#!/bin/sh\necho 'no perf for this kernel' >&2\n{failing}\n")
    (programs / "perf").chmod(0o755)
    options = ("--interval", "20ms", "--profile", tmp_path / "busy.svg", "--output", kept)
    path = f"{programs}:{os.environ['PATH']}"
    # Before there are samples to lose, it is said at once.
    seconds = "1h" if code == 2 else "1500ms"
    done = run("probe", "--duration", seconds, *options, "--", *BUSY, env=os.environ | {"PATH": path}, timeout=60)
    assert done.returncode == code, done.stderr
    assert "no perf for this kernel" in done.stderr
    if code == 1:
        assert json.loads(kept.read_text())["samples"] > 2
        assert "cpu_seconds" in done.stdout
    assert not (tmp_path / "busy.svg").exists()


def test_bad_input_is_refused_with_its_cure(tmp_path: Path) -> None:
    for arguments, said in (
        ((), "--pid, --port, --cgroup or a command"),
        (("--pid", "4194304"), "process 4194304 does not exist"),
        (("--port", "1"), "start the server first"),
        (("--output", str(tmp_path / "a.txt"), "--pid", "1"), ".parquet, .json, .prom"),
        (("--interval", "1us", "--pid", "1"), "measure the probe itself"),
        (("--", "no-such-program"), "cannot start no-such-program"),
    ):
        done = run("probe", *arguments)
        assert done.returncode == 2, (arguments, done.stdout)
        assert said in done.stderr, (arguments, done.stderr)
