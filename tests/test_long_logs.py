"""Long logs: that neither import nor replay takes more memory for more requests, and that they give the same."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from conftest import SOJOURN, run

REQUESTS_PER_SECOND = 200
GROWTH_BYTES_MAX = 8 << 20
"""Well below what the additional requests take, at the sixteen bytes that one needs while it is sorted."""


def seconds_of_log(seconds: int) -> Iterator[bytes]:
    """A second of log after the other: 200 requests of a thousand clients for a thousand documents."""
    line = '10.0.{}.{} - - [21/Nov/2026:HH:MM:SS +0000] "GET /{} HTTP/1.1" 200 {}\n'
    # A client asks in ten seconds that follow each other and then pauses for ninety.
    for second in range(seconds):
        first = second // 10 % 10 * 100
        clients = [first + number % 100 for number in range(REQUESTS_PER_SECOND)]
        text = "".join(
            line.format(client // 100, client % 100, number, number)
            for client, number in zip(clients, range(second % 5, 1000, 5), strict=True)
        )
        clock = f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        yield text.replace("HH:MM:SS", clock).encode()


def peak_bytes(process: subprocess.Popen[bytes]) -> int:
    """Waits for the child; the most memory it held."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def imported(seconds: int, trace: Path) -> tuple[int, dict[str, object]]:
    """The peak memory of an import from a pipe, and what it counted."""
    command = [str(SOJOURN), "trace", "-", "--output", str(trace), "--format", "json"]
    result = trace.with_suffix(".json")
    with result.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output)
        assert process.stdin is not None
        for text in seconds_of_log(seconds):
            process.stdin.write(text)
        process.stdin.close()
        peak = peak_bytes(process)
    return peak, json.loads(result.read_text())["import"]


def replayed(trace: Path) -> int:
    """The peak memory of a replay of the first two seconds; nobody listens, for it is the trace that matters."""
    command = [str(SOJOURN), "replay", str(trace), "http://127.0.0.1:1", "--scale", "1", "--duration", "2s"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1)
    return usage.ru_maxrss * 1024


@pytest.mark.slow
def test_ten_times_the_requests_take_no_more_memory(tmp_path: Path) -> None:
    short, long = tmp_path / "short.trace", tmp_path / "long.trace"
    # Both spill what they sort: the shorter one is a million requests.
    import_short, short_report = imported(5_000, short)
    import_long, long_report = imported(50_000, long)
    assert (short_report["requests"], long_report["requests"]) == (1_000_000, 10_000_000)
    assert short_report["documents"] == long_report["documents"] == 1000
    assert import_long - import_short < GROWTH_BYTES_MAX
    assert replayed(long) - replayed(short) < GROWTH_BYTES_MAX


class Recorder(BaseHTTPRequestHandler):
    """Answers every request and keeps its path."""

    protocol_version = "HTTP/1.1"
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def paths_asked_for(source: Path) -> list[str]:
    """What a replay as logged asks for, sorted: sessions may overtake each other."""
    recorder = type("Recorder", (Recorder,), {"paths": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), recorder) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = run("replay", source, url, "--scale", "1", "--paths", "original", "--seed", "5")
        assert done.returncode == 0, done.stderr
        server.shutdown()
    return sorted(recorder.paths)


def test_a_log_and_its_trace_are_replayed_alike(tmp_path: Path) -> None:
    log, trace = tmp_path / "some.log", tmp_path / "some.trace"
    log.write_bytes(b"".join(seconds_of_log(2)))
    assert run("trace", log, "--output", trace, "--seed", "5").returncode == 0
    paths = paths_asked_for(log)
    assert paths == paths_asked_for(trace)
    assert paths == sorted(f"/{number}" for second in range(2) for number in range(second, 1000, 5))


def test_a_trace_of_another_version_says_what_to_do(tmp_path: Path) -> None:
    trace = tmp_path / "old.trace"
    trace.write_bytes(b"SJTRACE2" + bytes(24))
    for command in (["replay", trace, "http://127.0.0.1:1", "--scale", "1"], ["fileset", "from-log", trace]):
        output = ["--output", tmp_path / "site"] if command[0] == "fileset" else []
        done = run(*command, *output)
        assert done.returncode == 2
        assert "import its log again" in done.stderr


def test_a_trace_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    trace, broken = tmp_path / "kept.trace", tmp_path / "broken.log"
    trace.write_bytes(b"what was there")
    broken.write_text("no log\n")
    assert run("trace", broken, "--output", trace).returncode == 2
    assert trace.read_bytes() == b"what was there"
    assert sorted(tmp_path.iterdir()) == [broken, trace]
