"""What an assessment of an application says when something fails under it: in bounded time, and with what it has.

No figure decides here, so other tests may run beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SOJOURN, run, wait_for_steps

pytestmark = pytest.mark.slow

SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mode, left = sys.argv[1], int(sys.argv[2])

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global left
        left -= 1
        if left < 0 and mode == "says nothing":
            time.sleep(3600)
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        if left < 0:
            self.wfile.flush()
            time.sleep(3600)
        self.wfile.write(b"x" * 100)

    def log_message(self, *words):
        pass

class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
FORWARDER = """
import os, subprocess, sys
child = subprocess.Popen(["sh", "-c", sys.argv[2]], stdout=subprocess.PIPE)
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
for line in child.stdout:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""
LINE = '10.0.0.1 - - [21/Nov/2026:10:00:{:02d} +0000] "GET /page HTTP/1.1" 200 100\n'
OBJECTIVE = ("--slo", "p95 < 30s", "--at-rate", "2")


@contextmanager
def server(mode: str, answers: int) -> Iterator[int]:
    """A server that answers so many requests and then hangs; its port."""
    words = [sys.executable, "-c", SERVER, mode, str(answers)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.write_text("".join(LINE.format(second) for second in range(60)))
    return path


def words(log: Path, port: int, *more: str) -> list[str]:
    return ["assess", str(log), "--target", f"http://127.0.0.1:{port}", "--effort", "quick", *more]


def kept(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "application.json").read_text())
    assert found["steps"]
    assert not found["complete"]
    assert not any(each["holds"] for each in found["objectives"])
    return found


def test_an_application_that_hangs_in_the_middle_is_no_knee_and_what_was_measured_is_kept(
    log: Path, tmp_path: Path
) -> None:
    begun = time.monotonic()
    with server("says nothing", 15) as port:
        done = run(*words(log, port, "--tier", f"app=port:{port}", *OBJECTIVE, "--output", str(tmp_path / "run")))
    assert done.returncode == 1, done.stderr
    assert time.monotonic() - begun < 120
    found = kept(tmp_path / "run")
    assert found["knee"] is None
    assert "does it hang" in found["incomplete_because"]
    assert "INCOMPLETE" in done.stdout


def test_an_application_that_stops_within_its_answers_is_named_before_any_load(log: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    with server("stops", 0) as port:
        done = run(*words(log, port, "--tier", f"app=port:{port}", "--output", str(tmp_path / "run")))
    assert done.returncode == 2, done.stdout
    assert time.monotonic() - begun < 60
    assert "transfer_timeout" in done.stderr
    assert "begins answers but does not end them" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"), [(signal.SIGKILL, "connection to elsewhere is broken"), (signal.SIGSTOP, "elsewhere, or the")]
)
def test_a_connection_to_a_tier_that_breaks_or_hangs_ends_the_assessment_with_what_was_measured(
    log: Path, tmp_path: Path, given: signal.Signals, said: str
) -> None:
    (tmp_path / "forwarder.py").write_text(FORWARDER)
    shell = f"{sys.executable} {tmp_path / 'forwarder.py'} {tmp_path / 'pid'} {{command}}"
    with server("says nothing", 1_000_000) as port:
        tier = ["--tier", f"app=ssh:elsewhere/port:{port}", "--tier-shell", shell, "--max-rate", "100"]
        command = [str(SOJOURN), *words(log, port, *tier, *OBJECTIVE, "--output", str(tmp_path / "run"))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_for_steps(process, tmp_path / "run", 2)
            os.kill(int((tmp_path / "pid").read_text()), given)
            _, error = process.communicate(timeout=100)
        assert process.returncode == 1, error
    assert said in kept(tmp_path / "run")["incomplete_because"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_that_has_expired_is_named_with_the_cure(log: Path, tmp_path: Path) -> None:
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority"
    subprocess.run([*made.split(), "-keyout", "ca.key", "-out", "ca.pem"], cwd=tmp_path, check=True)
    made = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"
    subprocess.run([*made.split(), "-keyout", "leaf.key", "-out", "leaf.csr"], cwd=tmp_path, check=True)
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    # Of no days: it ends as it begins.
    made = "openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial 1 -days 0 -extfile names -out leaf.pem"
    subprocess.run(made.split(), cwd=tmp_path, check=True)
    time.sleep(2)
    served = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "leaf.pem", tmp_path / "leaf.key")
    served.socket = context.wrap_socket(served.socket, server_side=True)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    port = served.server_address[1]
    given = words(log, port, "--tier", f"app=port:{port}", "--cacert", str(tmp_path / "ca.pem"))
    done = run(*[word.replace("http:", "https:") for word in given], "--output", str(tmp_path / "run"))
    served.shutdown()
    served.server_close()
    assert done.returncode == 2, done.stdout
    assert "certificate_expired" in done.stderr
    assert "renew it" in done.stderr
