"""`sojourn misses` on a streaming server, whose time passes in steps: nobody is late, and misses grow with viewers."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pytest

from conftest import SOJOURN, run
from films import make_film, needs_ffmpeg
from sojourn.systems.running import free_port

ENGINE = SOJOURN.with_name("sojourn-engine")
CACHES = ("--d1", "8192,4,64", "--i1", "32768,8,64", "--ll", "524288,8,64")

pytestmark = [
    needs_ffmpeg,
    # Programs at real-time priority leave a test beside it next to nothing of their core.
    pytest.mark.alone,
    pytest.mark.skipif(
        shutil.which("valgrind") is None or platform.machine() != "x86_64", reason="needs valgrind, and x86-64"
    ),
]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_film(tmp_path_factory.mktemp("films"))


def test_a_stream_second_is_whole_and_costs_instructions(film: Path) -> None:
    port = free_port()
    url = ("--url", f"rtsp://127.0.0.1:{port}", "--path", film.name)
    server = (ENGINE, "stream", film.parent, "--listen", f"127.0.0.1:{port}")
    options = ("--clients", "4", "--seconds", "2", "--repetitions", "1")
    done = run("misses", *url, *options, *CACHES, "--format", "json", "--", *server)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["label"], found["void"], found["time_held_still"]) == ("simulated, user mode", None, False)
    assert (found["clients"], found["seconds"], found["films"]) == (4, 2, 1)
    each, together = found["per_stream_second"], found["per_second"]
    # Ten pictures and some sound; a picture may take several packets.
    assert 10 <= each["packets"]["mean"] <= 60
    assert each["instructions"]["mean"] > 1000
    assert together["D1_misses"]["mean"] == pytest.approx(4 * each["D1_misses"]["mean"])
    assert [each["stream_seconds"] for each in found["runs"]] == [8, 16]


def test_what_viewers_cannot_do_is_said(film: Path) -> None:
    port = free_port()
    url = f"rtsp://127.0.0.1:{port}"
    server = ("--", ENGINE, "stream", film.parent, "--listen", f"127.0.0.1:{port}")
    for arguments, said in (
        (("--url", url, "--path", "/missing.mp4", *server), "was answered with 404"),
        (("--url", url, "--path", film.name, "--seconds", "8", *server), "lasts 14 s"),
        (("--url", url, "--path", film.name, "--seconds", "30", *server), "too long"),
        (("--url", url, *server), "both choose the films"),
        (("--url", url, "--path", film.name, "--requests", "9", *server), "--requests does not apply"),
        (("--url", f"http://127.0.0.1:{port}", "--clients", "9", *server), "--clients does not apply"),
    ):
        done = run("misses", *arguments)
        assert done.returncode == 2, (arguments, done.stdout)
        assert said in done.stderr, (arguments, done.stderr)
