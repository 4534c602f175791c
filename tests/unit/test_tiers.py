"""Tiers: what a person declares, which processes that is, and what each of several uses at the same time."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import numpy as np
import pytest

from sojourn.failure import CouldNotRun
from sojourn.tiers import mysql, php_fpm, postgresql, processes, prometheus, remote, sockets
from sojourn.tiers.declaration import Tier, parse_all
from sojourn.tiers.watch import Sources, Watch, _levels, _Span, unevenness

SPINS = "while True: pass"
SHARES = (0.05, 0.9), (0.1, 1.0)
"""The cores of the busiest process and of both: idle, and with requests."""
LISTENS = """
import socket, subprocess, sys, time
listener = socket.create_server(("127.0.0.1", 0))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(listener.getsockname()[1], child.pid, flush=True)
kept = []
while True:
    kept.append(listener.accept())
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web=port:443", Tier("web", "port", "443")),
        ("app=unit:gunicorn.service", Tier("app", "unit", "gunicorn.service")),
        ("db=ssh:me@db1/port:5432", Tier("db", "port", "5432", "me@db1")),
        ("w=command:python.*worker", Tier("w", "command", "python.*worker")),
        ("c=cgroup:/sys/fs/cgroup/a/b", Tier("c", "cgroup", "/sys/fs/cgroup/a/b")),
    ],
)
def test_a_tier_is_read_as_it_is_written(text: str, expected: Tier) -> None:
    assert Tier.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        "web",
        "web=443",
        "web=port:x",
        "web=port:0",
        "=port:1",
        "w=command:(",
        "w=ssh:/port:1",
        "w=ssh:-o/port:1",
        "w=ssh:h",
    ],
)
def test_what_names_no_tier_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(CouldNotRun):
        Tier.parse(text)


def test_two_tiers_need_two_names() -> None:
    with pytest.raises(CouldNotRun, match="two tiers"):
        parse_all(["a=pid:1", "a=pid:2"])


@pytest.fixture
def server() -> Iterator[tuple[int, int, int]]:
    """Process, port and child of something that listens."""
    with subprocess.Popen([sys.executable, "-c", LISTENS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port, child = map(int, process.stdout.readline().split())
        yield process.pid, port, child
        process.kill()
        subprocess.run(["kill", str(child)], check=False)


def test_a_port_names_its_listener_and_what_descends_from_it(server: tuple[int, int, int]) -> None:
    pid, port, child = server
    assert processes.roots(Tier("a", "port", str(port))) == [pid]
    assert processes.members([pid]) == {pid, child}
    assert processes.roots(Tier("a", "pid", str(pid))) == [pid]
    with pytest.raises(CouldNotRun, match="no process"):
        processes.roots(Tier("a", "pid", "4194303"))


def test_a_command_names_the_processes_that_have_it_and_not_who_asks(server: tuple[int, int, int]) -> None:
    pid, _, _ = server
    found = processes.roots(Tier("a", "command", re.escape("socket.create_server")))
    assert pid in found
    assert os.getpid() not in found


def test_a_control_group_names_its_processes(tmp_path: Path, server: tuple[int, int, int]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "cgroup.procs").write_text("")
    (tmp_path / "inner" / "cgroup.procs").write_text(f"{server[0]}\n{server[2]}\n")
    assert processes.roots(Tier("a", "cgroup", str(tmp_path))) == [server[0]]
    with pytest.raises(CouldNotRun, match="no control group"):
        processes.roots(Tier("a", "cgroup", str(tmp_path / "none")))


def test_connections_are_told_by_where_they_come_from_and_go_to(server: tuple[int, int, int]) -> None:
    pid, port, _ = server
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
        time.sleep(0.1)
        found = sockets.connections({"server": [pid], "us": [os.getpid()]})
    assert found["server"].incoming == 2
    assert found["server"].incoming_by_process == {pid: 2}
    assert found["us"].outgoing[f"127.0.0.1:{port}"] == 2


def test_a_connection_that_ends_while_connections_are_counted_counts_as_one_that_begins_then(
    server: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server[1]
    ending, beginning = socket.create_connection(("127.0.0.1", port)), list[socket.socket]()
    seen = processes.sockets

    def during(pids: set[int]) -> dict[int, set[int]]:
        beginning.append(socket.create_connection(("127.0.0.1", port)))
        found = seen(pids)
        ending.close()
        return found

    monkeypatch.setattr(processes, "sockets", during)
    found = sockets.connections({"us": [os.getpid()]})
    beginning[0].close()
    assert found["us"].outgoing[f"127.0.0.1:{port}"] == 2


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([{1: 3, 2: 3}, {1: 5, 2: 5}], 0.0),
        ([{1: 4}, {2: 4}], 4.0),
        ([{1: 2, 2: 1}, {1: 4, 2: 2}, {2: 1}], 0.6),
        ([{1: 7}], None),
        ([{}, {}], None),
        ([], None),
    ],
)
def test_how_unevenly_processes_have_connections(looks: list[dict[int, int]], expected: float | None) -> None:
    assert unevenness(looks) == (None if expected is None else pytest.approx(expected))


def test_connections_that_choose_a_process_at_random_have_an_unevenness_of_one() -> None:
    random = Random(1)
    looks = [Counter(random.choices((1, 2, 3), k=random.randrange(1, 20))) for _ in range(4000)]
    assert unevenness(looks) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("seconds", [1.2, 2.5, 3.9])
def test_the_busiest_process_is_that_of_the_span_and_not_of_the_time_before(seconds: float) -> None:
    # Until 10 s, two processes share a tenth of a core, then one of them has 0.9 of a core and the other one 0.1.
    times = 5.0 + 0.1037 * np.arange(100)
    busiest, both = (np.where(times < 10, times * idle, 10 * idle + (times - 10) * used) for idle, used in SHARES)
    last_second = busiest - np.interp(times - 1.0, times, busiest)
    inside = (times >= 10.0) & (times <= 10.0 + seconds)
    columns = {"cpu_seconds": both, "busiest_process_fraction": last_second}
    span = _Span({name: column[inside] for name, column in columns.items()}, times[inside])
    assert span.busiest_process_cores() == pytest.approx(0.9, rel=0.02)
    assert _Span({"cpu_seconds": both[inside]}, times[inside]).busiest_process_cores() is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_connections_are_the_same_by_netlink_and_by_text(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Listens on both families, so that the address of IPv4 comes in one of IPv6.
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((address, port)), socket.create_connection((address, port)):
            accepted, _ = listener.accept()
            by_netlink = sockets.connections({"us": [os.getpid()]})

            def refused(_family: int) -> None:
                raise OSError

            monkeypatch.setattr(sockets, "_by_netlink", refused)
            by_text = sockets.connections({"us": [os.getpid()]})
            accepted.close()
    assert by_netlink == by_text
    assert by_netlink["us"].incoming == 1
    assert by_netlink["us"].accept_queue == 1
    assert by_netlink["us"].outgoing[f"{address}:{port}"] == 2


def _cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def test_two_tiers_are_watched_at_once_and_told_apart(server: tuple[int, int, int]) -> None:
    with subprocess.Popen([sys.executable, "-c", SPINS]) as spinning:
        tiers = parse_all([f"busy=pid:{spinning.pid}", f"idle=port:{server[1]}"])
        with Watch(tiers, Sources()) as watch:
            begin, cpu = time.time(), _cpu_seconds(spinning.pid)
            time.sleep(2.0)
            end, cpu = time.time(), _cpu_seconds(spinning.pid) - cpu
            used = watch.used(begin, end)
            assert watch.cores("busy") <= os.sched_getaffinity(0)
        spinning.kill()
    busy, idle = used.tiers["busy"], used.tiers["idle"]
    assert busy.cpu_cores is not None
    assert idle.cpu_cores is not None
    # How much it gets is up to the other tests.
    assert busy.cpu_cores == pytest.approx(cpu / (end - begin), rel=0.25, abs=0.02)
    assert idle.cpu_cores < 0.1
    # It never sleeps: what it did not run, it waited for a core.
    assert busy.core_wait_threads is not None
    assert 0.7 < busy.cpu_cores + busy.core_wait_threads < 1.3
    assert busy.busiest_process_cores == pytest.approx(busy.cpu_cores, rel=0.5)
    assert idle.processes == 2
    assert not watch.missing


def test_a_probe_elsewhere_runs_from_a_copy_of_which_nothing_stays(
    server: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tiers = [Tier("a", "port", str(server[1]), "elsewhere"), Tier("b", "command", "socket.create_server", "elsewhere")]
    with Watch(tiers, Sources(remote_shell="sh -c {command}")) as watch:
        begin = time.time()
        time.sleep(1.2)
        used = watch.used(begin, time.time())
        assert len(list(tmp_path.iterdir())) == 2, "a folder each while it runs"
    assert used.tiers["a"].processes == 2
    assert used.tiers["b"].cpu_cores is not None
    until = time.monotonic() + 5
    while list(tmp_path.iterdir()):
        assert time.monotonic() < until, list(tmp_path.iterdir())
        time.sleep(0.05)


def test_a_tier_elsewhere_that_ends_is_seen_to_end(
    server: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tier = Tier("a", "pid", str(server[0]), "elsewhere")
    with Watch([tier], Sources(remote_shell="sh -c {command}")) as watch:
        assert watch.ended_because(tier) is None
        os.kill(server[0], signal.SIGKILL)
        os.waitpid(server[0], 0)
        until = time.monotonic() + 10
        while (because := watch.ended_because(tier)) is None:
            assert time.monotonic() < until
            time.sleep(0.05)
    assert "processes are gone" in because


def test_a_control_group_elsewhere_is_its_processes(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for folder, pids in ((tmp_path, "11\n12\n"), (tmp_path / "below", "13\n")):
        (folder / "cgroup.procs").write_text(pids)
    found = remote.target(Tier("db", "cgroup", str(tmp_path), "elsewhere"), "sh -c {command}")
    assert sorted(found[1::2]) == ["11", "12", "13"]
    assert set(found[::2]) == {"--pid"}
    with pytest.raises(CouldNotRun, match="none-such"):
        remote.target(Tier("db", "cgroup", str(tmp_path / "none-such"), "elsewhere"), "sh -c {command}")


def test_a_connection_that_breaks_leaves_nothing_either(server: tuple[int, int, int], tmp_path: Path) -> None:
    words = remote.probe_command(Tier("a", "port", "1", "x"), ["probe", "--port", str(server[1])], "sh -c {command}")
    from sojourn import engine

    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(engine.path().read_bytes())
        process.stdin.flush()
        process.stdout.readline()
        assert list(tmp_path.iterdir())
        process.stdin.close()
        process.stdout.close()
    until = time.monotonic() + 5
    while list(tmp_path.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_machine_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    shell = f"{shlex.quote(sys.executable)} -c 'import sys; sys.exit(255)' {{host}} {{command}}"
    with pytest.raises(CouldNotRun), Watch([Tier("a", "port", "1", "nowhere")], Sources(remote_shell=shell)):
        pass


def test_what_postgresql_says_is_read() -> None:
    backends = (
        '[{"application": "", "state": "active", "waits_for": "Lock", "event": "transactionid"},'
        ' {"application": "", "state": "active", "waits_for": "LWLock", "event": "WALWrite"},'
        ' {"application": "", "state": "active", "waits_for": "Client", "event": "ClientWrite"},'
        ' {"application": "", "state": "idle in transaction", "waits_for": null, "event": null},'
        ' {"application": "", "state": "idle", "waits_for": null, "event": null}]'
    )
    rest = '"commits": 7, "connections_max": 100}'
    found = postgresql.parse(f'{{"backends": {backends}, {rest}')
    assert (found.backends, found.active, found.in_transaction, found.in_use) == (5, 3, 1, 4)
    assert found.waits == {"Lock": 1, "IO": 1}
    assert postgresql.parse(f'{{"backends": null, {rest}').backends == 0


def test_what_mysql_says_is_read() -> None:
    lines = [
        "thread\t5\tQuery\texecuting\t1",
        "thread\t6\tSleep\t\t0",
        "thread\t7\tQuery\tUpdating\t0",
        "thread\t8\tQuery\tWaiting for table metadata lock\t0",
        "thread\t9\tQuery\tCommit\t0",
        "thread\t10\tQuery\tSending data\t0",
        "thread\t11\tSleep\t\t0",
        "transaction\t6\tRUNNING",
        "transaction\t7\tLOCK WAIT",
        "transaction\t10\tRUNNING",
        "Handler_commit\t41",
        "limit\t151",
        "sojourn-end",
    ]
    found = mysql.parse(lines)
    assert (found.backends, found.active, found.in_transaction, found.in_use) == (6, 4, 1, 5)
    assert found.waits == {"Lock": 2, "IO": 1}
    assert (found.commits, found.connections_max) == (41, 151)


class _Page(BaseHTTPRequestHandler):
    """The status page of php-fpm for who asks for JSON; otherwise a text."""

    def do_GET(self) -> None:
        told = {
            "pool": "www",
            "listen queue": 3,
            "active processes": 2,
            "total processes": 4,
            "max children reached": 1,
        }
        body = json.dumps(told).encode() if self.path == "/status?json" else b"pool: www\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Says nothing."""


def test_what_php_fpm_says_is_read() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        read = php_fpm.read(f"{url}/status")
        with pytest.raises(CouldNotRun, match="no status page") as refused:
            php_fpm.read(f"{url}/other")
        server.shutdown()
    assert read == {php_fpm.ACTIVE: 2, php_fpm.TOTAL: 4, php_fpm.WAITING: 3}
    assert "pm.status_listen" in str(refused.value.hint)


def test_metrics_are_read_and_what_is_none_is_left_out() -> None:
    text = '# HELP a b\na 1\nb{x="y z",q="}"} 2.5 1700000000\nnonsense\nc NaN\nd +Inf\ne x\n'
    found = prometheus.parse(text)
    assert found["a"] == 1
    assert found['b{x="y z",q="}"}'] == 2.5
    assert set(found) == {"a", 'b{x="y z",q="}"}', "c", "d"}
    # What is no number is none in JSON either.
    assert _levels([found, found]) == {"a": 1, 'b{x="y z",q="}"}': 2.5}


def test_a_page_that_breaks_off_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # The application is asked directly, as by the load.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nbusy 3\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(CouldNotRun, match="IncompleteRead"):
            prometheus.read(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        answering.join()


def test_metrics_are_missing_only_if_none_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, float] | None] = [None, {"busy": 3.0}, None]

    def read(url: str) -> dict[str, float]:
        answer = answers.pop(0)
        if answer is None:
            raise CouldNotRun(f"{url} says no metrics: timed out")
        return answer

    monkeypatch.setattr(prometheus, "read", read)
    watch = Watch([], Sources(prometheus="http://host/metrics"))
    watch._read_metrics()
    assert watch.missing == {"metrics": "http://host/metrics says no metrics: timed out"}
    watch._read_metrics()
    assert not watch.missing
    watch._read_metrics()
    assert not watch.missing, "a busy application answers late now and then"
