"""The installed commands as a person or a script meets them."""

from __future__ import annotations

import fcntl
import gzip
import json
import re
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conftest import SOJOURN, run

COMMANDS = (
    "assess",
    "trace",
    "serve",
    "proxy",
    "load",
    "replay",
    "fileset",
    "media",
    "simulate",
    "predict",
    "plan",
    "ui",
    "fit",
    "compare",
    "import-jmt",
    "export-jmt",
    "report",
    "example-log",
)
OPTIONS_MAX = 15
"""As many does `--help` show, those of the engine and of Python together."""


@contextmanager
def serving(root: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [str(SOJOURN), "serve", str(root), "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            assert line.startswith("listening on "), line
            yield line.split()[-1], process
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    (folder / "index.html").write_text("<p>hello</p>")
    (folder / "large.bin").write_bytes(bytes(range(256)) * 4096)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"sojourn {command}" in done.stdout
    assert "xample" in done.stdout
    shown = re.findall(r"^  (?:-\w, )?--(?:\[no-\])?([\w-]+)", done.stdout, re.MULTILINE)
    assert len([name for name in shown if name not in ("help", "help-all")]) <= OPTIONS_MAX, shown


@pytest.mark.parametrize("architecture", ["sped", "amped"])
def test_serve_answers_a_real_client(root: Path, architecture: str, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(root, "--architecture", architecture, "--access-log", str(log)) as (address, process):
        body = subprocess.run(["curl", "-sS", f"http://{address}/large.bin"], capture_output=True, check=True).stdout
        assert body == (root / "large.bin").read_bytes()
        head = subprocess.run(["curl", "-sSI", f"http://{address}/"], capture_output=True, text=True, check=True).stdout
        assert head.startswith("HTTP/1.1 200 OK")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert '"GET /large.bin HTTP/1.1" 200 1048576' in log.read_text()


def test_load_prints_one_object_with_the_promised_keys(root: Path) -> None:
    with serving(root) as (address, _):
        done = run(
            "load",
            f"http://{address}/",
            "--clients",
            "4",
            "--duration",
            "1s",
            "--warm-up",
            "200ms",
            "--format",
            "json",
        )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["requests"] > 100
    assert result["errors"] == 0
    for name in ("response_time_seconds", "time_to_first_byte_seconds", "connect_time_seconds"):
        assert set(result[name]) >= {"mean", "p50", "p90", "p95", "p99", "p999", "max"}
    assert 0 < result["generator"]["cpu_fraction"] <= 1.05
    assert result["generator"]["limited"] in (True, False)


def test_load_without_a_server_fails_clearly() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        done = run("load", f"http://127.0.0.1:{taken.getsockname()[1]}/", "--clients", "2", "--duration", "1s")
    assert done.returncode in (1, 2)
    assert "refused" in (done.stdout + done.stderr).lower()


def test_serve_on_a_port_in_use_says_so(root: Path) -> None:
    with serving(root) as (address, _):
        done = run("serve", root, "--listen", address)
    assert done.returncode == 2
    assert "in use" in done.stderr
    assert "hint:" in done.stderr


def test_serve_without_a_root_says_so(tmp_path: Path) -> None:
    done = run("serve", tmp_path / "nowhere", "--listen", "127.0.0.1:0")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "hint:" in done.stderr


def test_trace_characterises_and_replay_takes_its_trace(small_log: Path, tmp_path: Path) -> None:
    trace, site = tmp_path / "small.trace", tmp_path / "site"
    done = run("trace", small_log, "--output", trace, "--build-site", site, "--format", "json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)["characteristics"]["table1"]
    assert table["requests"] == 600
    assert table["files"] == 22
    with serving(site) as (address, _):
        done = run(
            "replay",
            trace,
            f"http://{address}",
            "--scale",
            "200",
            "--think-scale",
            "0.01",
            "--format",
            "json",
        )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["requests"], result["errors"]) == (600, 0)


def test_replay_takes_a_log_as_it_is(small_log: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    run("trace", small_log, "--build-site", site)
    packed = tmp_path / "small.log.gz"
    packed.write_bytes(gzip.compress(small_log.read_bytes()))
    with serving(site) as (address, _):
        done = run(
            "replay",
            packed,
            f"http://{address}",
            "--scale",
            "500",
            "--think-scale",
            "0.01",
            "--format",
            "json",
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["errors"] == 0


def test_replay_asks_a_real_site_for_the_paths_of_the_log(tmp_path: Path) -> None:
    root, log = tmp_path / "root", tmp_path / "site.log"
    root.mkdir()
    (root / "a.html").write_bytes(bytes(500))
    (root / "larger.html").write_bytes(bytes(501))
    requests = (("/a.html", 200, 500), ("/a.html?q=1", 200, 500), ("/missing", 404, 9))
    log.write_text(
        "".join(
            f'10.0.0.{n} - - [21/Nov/2026:10:00:{n % 60:02d} +0000] "GET {target} HTTP/1.1" {status} {size}\n'
            for n in range(30)
            for target, status, size in requests
        )
    )
    # A session ends with its first failure here; what it abandons is not the subject.
    quick = ("--scale", "100", "--think-scale", "0.01", "--abandoned-limit", "100%", "--format", "json")
    original = ("--paths", "original", "--check-sizes")

    def replayed(address: str, *options: str) -> tuple[int, dict[str, int]]:
        done = run("replay", log, f"http://{address}", *quick, *options)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        return result["requests"], result["errors_by_cause"]

    with serving(root) as (address, _):
        assert replayed(address, *original) == (60, {})
        assert replayed(address, *original, "--failed", "expect") == (90, {})
        assert replayed(address, *original, "--failed", "send", "--keep", "queries") == (90, {})
        # Under other paths the site has another answer than the log.
        requests_found, errors = replayed(
            address, *original, "--failed", "expect", "--map-path", "/missing=/larger.html"
        )
        assert (requests_found, errors) == (60, {"wrong_status": 30})
        larger = ("--map-path", "/a.html=/larger.html")
        assert "wrong_size" in replayed(address, *original, *larger)[1]
        assert replayed(address, "--paths", "original", *larger) == (60, {})


def test_a_log_in_the_servers_own_format(tmp_path: Path) -> None:
    log = tmp_path / "own.log"
    lines = (f"{1_700_000_000 + n}.500|10.0.0.{n % 7}|GET /{n % 3} HTTP/1.1|200|{100 + n % 3}\n" for n in range(60))
    log.write_text("".join(lines))
    unknown = run("trace", log)
    assert unknown.returncode == 2
    assert "--log-format" in unknown.stderr
    own = "$msec|$remote_addr|$request|$status|$body_bytes_sent"
    done = run("trace", log, "--log-format", own, "--path", "~^/[01]$", "--format", "json")
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout)["import"]
    assert (imported["requests"], imported["not_selected"], imported["time_resolution_ns"]) == (40, 20, 1_000_000)
    wrong = run("trace", log, "--log-format", "$msec $nothing")
    assert wrong.returncode == 2
    assert "has no field for the status" in wrong.stderr
    assert "hint:" in wrong.stderr


@pytest.mark.parametrize("options", [(), ("--log-format", "combined")])
def test_an_import_that_waits_for_its_log_can_be_interrupted(options: tuple[str, ...]) -> None:
    line = '10.0.0.1 - - [21/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 5\n'
    command = [str(SOJOURN), "trace", "-", *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(line * 3)
        process.stdin.flush()
        _wait_until_read(process)
        # A signal between two reads is seen at the next one: it may take a second signal to end that. Not while an
        # interpreter goes down after the first, which would then end by the second.
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                assert process.wait(5) == 130
                return
    pytest.fail("an import that waits cannot be interrupted")


def _wait_until_read(process: subprocess.Popen[str]) -> None:
    """Waits until the process has taken what was written to its standard input."""
    assert process.stdin is not None
    waiting = bytearray(4)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        fcntl.ioctl(process.stdin, termios.FIONREAD, waiting)
        if not any(waiting):
            return
        time.sleep(0.05)
    pytest.fail("the process does not read")


def test_a_trace_takes_no_options_of_a_log(small_log: Path, tmp_path: Path) -> None:
    trace = tmp_path / "small.trace"
    assert run("trace", small_log, "--output", trace).returncode == 0
    done = run("replay", trace, "http://127.0.0.1:1", "--scale", "1", "--status", "200")
    assert done.returncode == 2
    assert "hint:" in done.stderr


@pytest.mark.parametrize("command", ["trace", "assess", "replay"])
def test_no_such_log(command: str, tmp_path: Path) -> None:
    done = run(command, tmp_path / "nowhere.log", *(["http://127.0.0.1:1"] if command == "replay" else []))
    assert done.returncode == 2
    assert "nowhere.log" in done.stderr
    assert "hint:" in done.stderr


def test_replay_of_an_empty_log_says_so(tmp_path: Path) -> None:
    log = tmp_path / "empty.log"
    log.touch()
    done = run("replay", log, "http://127.0.0.1:1", "--scale", "1")
    assert done.returncode == 2
    assert "empty" in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("not a log line\n" * 20, "none of"),
        ('1.2.3.4 - - [21/Nov/2026:10:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 5\n', "static"),
    ],
)
def test_logs_that_hold_nothing_to_serve(text: str, word: str, tmp_path: Path) -> None:
    log = tmp_path / "odd.log"
    log.write_text(text)
    done = run("assess", log, "--output", tmp_path / "run")
    assert done.returncode == 2, done.stdout
    assert word in done.stderr
    assert "hint:" in done.stderr


def test_a_site_above_the_content_limit(small_log: Path, tmp_path: Path) -> None:
    done = run("assess", small_log, "--output", tmp_path / "run", "--content-limit", "10kB")
    assert done.returncode == 2
    assert "--content-limit" in done.stderr


def test_a_quantity_without_a_unit(small_log: Path) -> None:
    done = run("assess", small_log, "--target-p95", "200")
    assert done.returncode == 2
    assert "200ms" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["assess", "LOG"],
        ["trace", "LOG"],
        ["replay", "LOG", "http://127.0.0.1:1"],
        ["cache", "simulate", "LOG"],
        ["fileset", "lognormal", "--output", "FOLDER"],
        ["fileset", "from-log", "LOG", "--output", "FOLDER"],
        ["example-log", "FOLDER"],
        ["fit", "LOG"],
    ],
    ids=" ".join,
)
def test_a_negative_seed_is_a_usage_error(words: list[str], small_log: Path, tmp_path: Path) -> None:
    instead = {"LOG": str(small_log), "FOLDER": str(tmp_path / "new")}
    done = run(*(instead.get(word, word) for word in words), "--seed", "-1")
    assert done.returncode == 2
    assert "Invalid value for '--seed'" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_cpu_limit_of_a_server_that_runs_already_is_refused(small_log: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    done = run("assess", small_log, "--server", "http://127.0.0.1:1", "--cpu-limit", "0.5", "--output", output)
    assert done.returncode == 2
    assert "--cpu-limit limits a server that is started here" in done.stderr
    assert not output.exists()


def test_an_unknown_option_is_a_usage_error(small_log: Path) -> None:
    done = run("assess", small_log, "--no-such-option")
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr
