"""`sojourn link` with real sockets on both sides: delays, rates, losses, lines, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SOJOURN, run

WITHOUT = "needs root and TUN devices"
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/net/tun").exists(), reason=WITHOUT)

PING = """
import socket, sys, time
server = (sys.argv[1], int(sys.argv[2]))
for source in sys.argv[3:] or ["0.0.0.0"]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ping:
        ping.bind((source, 0))
        ping.settimeout(10)
        begin = time.monotonic()
        ping.sendto(b"x" * 100, server)
        ping.recv(200)
        print(time.monotonic() - begin)
"""
BURST = """
import socket, sys, time
burst = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[3])):
    burst.sendto(b"x" * 100, (sys.argv[1], int(sys.argv[2])))
    if number % 20 == 0:
        time.sleep(0.001)
"""
FETCH = """
import socket, sys, time
begin = time.monotonic()
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as connection:
    count = 0
    while some := connection.recv(65536):
        count += len(some)
print(count, time.monotonic() - begin)
"""
LONGEST = """
import socket, sys
line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
line.setblocking(False)
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as connection:
    while connection.recv(65536):
        pass
lengths = []
try:
    while True:
        lengths.append(len(line.recv(65536)))
except BlockingIOError:
    print(max(lengths))
"""
BODY = bytes(150_000)


LINKS = itertools.count()


@pytest.fixture(scope="module")
def kernel_shaper() -> None:
    """Skips where the kernel or iproute2 lacks what a rate needs."""
    done = run("link", "--shaper", "kernel", "--network", unused(), "--rate", "1Mbit/s", "--", "true")
    if "is not installed" in done.stderr or "this kernel has no" in done.stderr:
        pytest.skip(done.stderr.strip())


@pytest.fixture(params=["user", "kernel"])
def shaper(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The options of links by this program and, where it can, by the kernel."""
    if request.param == "kernel":
        request.getfixturevalue("kernel_shaper")
    return "--shaper", request.param


@pytest.fixture
def network() -> str:
    """See `unused`."""
    return unused()


def unused() -> str:
    """Addresses that no other link of this machine has, whatever is tested beside or was before.

    The kernel repeats the end of a connection whose link is gone. Through the next link with the same addresses it
    would reach a client that knows nothing of it and refuses it: a packet more than was sent.
    """
    return f"10.{100 + os.getpid() % 100}.{next(LINKS)}.0/24"


@pytest.fixture
def server(network: str) -> str:
    """The link's first address."""
    return network.replace(".0/24", ".1")


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server of ours that sends datagrams back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.bind(("0.0.0.0", 0))
        port: int = endpoint.getsockname()[1]

        def serve() -> None:
            while True:
                data, sender = endpoint.recvfrom(2048)
                if not data:
                    return
                endpoint.sendto(data, sender)

        thread = threading.Thread(target=serve)
        thread.start()
        yield port
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", port))
        thread.join()


def through(
    tmp_path: Path, network: str, *options: str, script: str, arguments: tuple[str | int, ...]
) -> tuple[str, dict[str, object]]:
    """What a script behind a link prints, and the link's report."""
    report = tmp_path / "link.json"
    words = [sys.executable, "-c", script, *map(str, arguments)]
    done = run("link", "--network", network, "--report", report, *options, "--", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(report.read_text())


def test_a_packet_travels_as_long_as_the_law_says(tmp_path: Path, network: str, server: str, echo: int) -> None:
    options = ("--delay", "20ms", "--up-delay", "30ms")
    said, report = through(tmp_path, network, *options, script=PING, arguments=(server, echo, *["0.0.0.0"] * 5))
    times = [float(line) for line in said.split()]
    # A machine with other work may be late; it cannot be early.
    assert len(times) == 5
    assert 0.050 <= min(times) < 0.150
    assert report["up"]["delivered_packets"] == report["down"]["delivered_packets"] == 5  # type: ignore[index]
    assert report["up"]["lateness_seconds"]["count"] == 5  # type: ignore[index]


@pytest.fixture
def source() -> Iterator[int]:
    """The port of a server of ours that sends `BODY` to one client."""
    with socket.create_server(("0.0.0.0", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(BODY)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)  # nobody may have come
        thread.join()


def test_bytes_come_no_faster_than_the_rate(
    tmp_path: Path, network: str, server: str, source: int, shaper: tuple[str, str]
) -> None:
    options = (*shaper, "--rate", "2Mbit/s")
    said, report = through(tmp_path, network, *options, script=FETCH, arguments=(server, source))
    count, seconds = said.split()
    assert int(count) == len(BODY)
    # 52 of at most 1,500 bytes are headers; the first packet is not waited for in the client's time.
    assert float(seconds) > 0.95 * len(BODY) * 8 / 2e6
    down = report["down"]
    assert report["shaper"] == shaper[1]
    assert down["delivered_bytes"] > len(BODY)  # type: ignore[index]
    if shaper[1] == "user":
        assert down["queue_packets_max"] > 1  # type: ignore[index]
    else:
        assert [report[name] for name in ("limited", "seed", "cpu_seconds")] == [None] * 3
        unknown = ("lateness_seconds", "queue_packets_max", "bytes")
        assert [down[name] for name in unknown] == [None] * 3  # type: ignore[index]


@pytest.mark.usefixtures("kernel_shaper")
def test_the_kernel_s_packets_are_the_line_s(tmp_path: Path, network: str, server: str, source: int) -> None:
    options = ("--shaper", "kernel", "--rate", "100Mbit/s")
    said, _ = through(tmp_path, network, *options, script=LONGEST, arguments=(server, source))
    assert 1000 < int(said) <= 1500


def test_a_seed_loses_the_same_packets(tmp_path: Path, network: str, server: str) -> None:
    lost = []
    for seed in ("7", "7", "8"):
        options = ("--up-loss", "5%", "--seed", seed)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
            sink.bind(("0.0.0.0", 0))
            arguments = (server, sink.getsockname()[1], 2000)
            _, report = through(tmp_path, network, *options, script=BURST, arguments=arguments)
        up = report["up"]
        assert up["packets"] - up["foreign_packets"] == 2000  # type: ignore[index]
        lost.append(up["lost_packets"])  # type: ignore[index]
    assert lost[0] == lost[1]
    assert all(60 <= count <= 140 for count in lost), lost  # 100 and four standard deviations


def test_each_client_has_a_line_of_its_own(tmp_path: Path, network: str, server: str, echo: int) -> None:
    clients = [server[:-1] + str(number) for number in (2, 3, 4)]
    options = ("--lines", "3", "--line-delay", "exponential:40ms")
    said, _ = through(tmp_path, network, *options, script=PING, arguments=(server, echo, *clients * 2))
    first, second = [float(line) for line in said.split()][:3], [float(line) for line in said.split()][3:]
    assert max(first) > 1.5 * min(first)  # three draws of a law without memory, the same for this seed
    assert all(abs(again - once) < 0.05 for once, again in zip(first, second, strict=True))


def test_a_link_behind_a_link(tmp_path: Path, network: str, server: str, echo: int) -> None:
    inner = network.replace("10.", "172.", 1)
    words = [str(SOJOURN), "link", "--network", inner, "--delay", "10ms", "--", "true"]
    done = run("link", "--network", network, "--delay", "10ms", "--", *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("link up:") == 2


def test_a_second_link_with_the_same_addresses_is_refused(network: str, shaper: tuple[str, str]) -> None:
    words = ["link", *shaper, "--network", network, "--"]
    with subprocess.Popen(
        [str(SOJOURN), *words, "sh", "-c", "echo up; exec sleep 600"], stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "up\n"
        second = run(*words, "true")
        first.terminate()
    assert second.returncode == 2
    assert "choose another --network" in second.stderr


def test_the_command_s_exit_code_is_the_link_s(network: str, shaper: tuple[str, str]) -> None:
    assert run("link", *shaper, "--network", network, "--", "sh", "-c", "exit 7").returncode == 7
    assert (
        run("link", *shaper, "--network", network, "--", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM
    )
    missing = run("link", *shaper, "--network", network, "--", "no-such-program")
    assert missing.returncode == 2
    assert "no-such-program" in missing.stderr


def test_a_signal_reaches_the_command_and_the_report_is_kept(
    tmp_path: Path, network: str, shaper: tuple[str, str]
) -> None:
    report = tmp_path / "link.json"
    words = [str(SOJOURN), "link", *shaper, "--network", network, "--report", str(report), "--", "sh", "-c"]
    script = 'trap "exit 5" INT; echo ready; while :; do sleep 0.05; done'
    with subprocess.Popen([*words, script], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as link:
        assert link.stdout is not None
        assert link.stdout.readline() == "ready\n"
        link.send_signal(signal.SIGINT)
        assert link.wait(timeout=60) == 5
    assert json.loads(report.read_text())["lines"] == 1


def test_nothing_is_left_of_a_link_that_is_killed(network: str, shaper: tuple[str, str]) -> None:
    words = [str(SOJOURN), "link", *shaper, "--network", network, "--", "sh", "-c", "echo $$; exec sleep 600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as link:
        assert link.stdout is not None
        command = int(link.stdout.readline())
        # The kernel's link has a device that is called after the process.
        device = Path(f"/sys/class/net/sojourn-{link.pid}")
        assert device.exists() == (shaper[1] == "kernel")
        link.kill()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{command}").exists() and "Z" not in Path(f"/proc/{command}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "the command outlives its link"
        time.sleep(0.05)
    while device.exists():
        assert time.monotonic() < deadline, "the device outlives its link"
        time.sleep(0.05)
    # The addresses are free again.
    assert run("link", *shaper, "--network", network, "--", "true").returncode == 0


@pytest.mark.usefixtures("kernel_shaper")
def test_the_kernel_s_devices_are_gone_when_the_link_has_ended(network: str) -> None:
    words = [str(SOJOURN), "link", "--shaper", "kernel", "--network", network, "--", "true"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as link:
        assert link.wait(timeout=60) == 0
    assert not Path(f"/sys/class/net/sojourn-{link.pid}").exists()


def test_what_the_kernel_cannot_do_is_refused(network: str) -> None:
    check = {
        ("--delay", "exponential:15ms"): "delay distributions other than a constant",
        ("--up-delay", "erlang:2:15ms"): "delay distributions other than a constant",
        ("--lines", "2"): "a separate line for each client",
        ("--line-delay", "15ms"): "a delay drawn for each line",
        ("--reorder",): "reordering",
        ("--rate", "500bit/s"): "rates below 1 kbit/s",
        ("--seed", "2"): "--seed has no effect",
        ("--core", "0"): "--core has no effect",
        ("--lateness-limit", "2ms"): "--lateness-limit has no effect",
    }
    for options, expected in check.items():
        done = run("link", "--shaper", "kernel", "--network", network, *options, "--", "true")
        assert done.returncode == 2
        assert expected in done.stderr
        assert "--shaper user" in done.stderr


@pytest.mark.usefixtures("kernel_shaper")
def test_the_kernel_delays_or_says_that_it_has_no_netem(tmp_path: Path, network: str, server: str, echo: int) -> None:
    options = ("--shaper", "kernel", "--delay", "20ms", "--up-delay", "30ms")
    done = run("link", "--network", network, *options, "--", "true")
    if done.returncode != 0:
        assert done.returncode == 2
        assert "this kernel has no netem queueing discipline\nhint: --shaper user" in done.stderr
        return
    said, _ = through(tmp_path, network, *options, script=PING, arguments=(server, echo, *["0.0.0.0"] * 5))
    assert 0.050 <= min(float(line) for line in said.split()) < 0.150


def test_slips_are_explained(network: str) -> None:
    check = {
        ("--rate", "2"): "not a rate",
        ("--delay", "erlang:15ms"): "is not a delay such as",
        ("--loss", "2"): "not a loss",
        ("--network", "10.0.0.1/16"): "not a network",
        ("--network", "10.0.0.0/30", "--lines", "9"): "has 1 addresses for clients, not 9",
    }
    for options, expected in check.items():
        done = run("link", *options, "--", "true")
        assert done.returncode == 2
        assert expected in done.stderr


def test_without_privileges_it_says_what_to_do(network: str) -> None:
    def drop() -> None:
        # prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN): root's programs do not have it either then.
        assert ctypes.CDLL(None).prctl(24, 21, 0, 0, 0) == 0

    done = run("link", "--network", network, "--", "true", preexec_fn=drop)
    assert done.returncode == 2
    assert "hint: it needs root" in done.stderr
