"""The streaming benchmark: a quick run beside whatever is installed, and its unread sessions; not its figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.stream import unread_sessions
from benchmarks.stream.competitors import COMPETITORS
from conftest import REPOSITORY
from film_server import film_server
from sojourn.failure import CouldNotRun

BENCH = REPOSITORY / "benchmarks" / "stream" / "bench"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BENCH), *arguments], capture_output=True, text=True, timeout=280, check=False)


def test_unread_sessions_play_and_a_server_that_refuses_is_named() -> None:
    with film_server(viewers_max=7) as server:
        with unread_sessions.watching(server.url, 7, come_within_seconds=0.0, begin_within_seconds=0.0):
            assert not server.places.acquire(blocking=False), "all places are taken"
        with (
            pytest.raises(CouldNotRun, match=r"SETUP .*/track1 was answered with 453"),
            unread_sessions.watching(server.url, 8, come_within_seconds=0.0, begin_within_seconds=0.0),
        ):
            pass


def test_unread_sessions_that_are_not_played_to_do_not_count() -> None:
    with (
        film_server(viewers_max=7, plays=False) as server,
        pytest.raises(CouldNotRun, match=r"PLAY .* was answered with 454"),
        unread_sessions.watching(server.url, 7, come_within_seconds=0.0, begin_within_seconds=0.0),
    ):
        pass


def test_what_is_asked_for_wrongly_is_said() -> None:
    for arguments, what in (
        (("--only", "nothing"), "error: no part is named nothing\nhint: one or more of costs,capacity,pace"),
        (("--servers", "nobody"), "error: no server is named nobody\nhint: one or more of sojourn,"),
    ):
        done = bench(*arguments)
        assert (done.returncode, done.stderr.startswith(what)) == (2, True), done.stderr


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="server and generator need a core each")
@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg to make a film")
def test_a_quick_run_measures_what_is_installed(entered_path: Path) -> None:
    done = bench("--quick", "--rates", "300k", "--transports", "udp", "--output", str(entered_path))
    assert done.returncode == 0, done.stderr
    lacking = {each.name for each in COMPETITORS if each.lacking() is not None}
    cells = [json.loads(line) for line in (entered_path / "cells.jsonl").read_text().splitlines()[1:]]
    for part in ("costs", "capacity"):
        assert {cell["competitor"] for cell in cells if cell["part"] == part} == {each.name for each in COMPETITORS}
    for cell in cells:
        if cell["part"] == "pace":
            assert (cell["trouble"], cell["playing"]) == (None, 50), cell
            assert cell["samples"] > 0
        elif cell["competitor"] in lacking:
            assert cell["trouble"]
        elif cell["part"] == "costs":
            # On a busy machine streams of a second may not conform.
            assert cell["trouble"] is None or "conformed" in cell["trouble"], cell
            assert cell["cpu_seconds_per_stream_second"] > 0
    assert "## How many streams conform" in (entered_path / "stream-benchmark.md").read_text()
