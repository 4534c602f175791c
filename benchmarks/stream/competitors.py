"""The streaming servers: how to start each with a film, and the film's URL."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.machine.cores import pinned_command
from sojourn.systems import gst_rtsp_server
from sojourn.systems.running import accepts, free_port, start_process

STARTED_WITHIN_SECONDS = 20.0
STARTS_MAX = 3
SAID = "said.log"
ENDED_WITHIN_SECONDS = 10.0
SESSIONS_MAX = 65536
"""High enough that our server's own limit does not decide how many streams it carries."""


@dataclass(frozen=True)
class Competitor:
    name: str
    command: Callable[[Path, int, Path], list[str]]
    """The command for a film, a port and a folder."""
    path: Callable[[Path], str]
    """The path of the film in the URL."""
    lacking: Callable[[], str | None]
    """Returns why it cannot run here, if it cannot."""
    transports: tuple[str, ...] = ("udp", "tcp")
    """The transports that it supports."""


@dataclass(frozen=True)
class Running:
    pid: int
    url: str
    said: Path
    """The file with its output."""


@contextmanager
def running(competitor: Competitor, film: Path, core: int | None) -> Iterator[Running]:
    """Starts the server on a free port, with one film, on a core of its own.

    Raises:
        CouldNotRun: it is not installed, or did not listen in time.
    """
    if (why := competitor.lacking()) is not None:
        raise CouldNotRun(f"{competitor.name}: {why}")
    with tempfile.TemporaryDirectory() as folder:
        # A server that drops root must still be able to read it.
        Path(folder).chmod(0o777)
        process, port = _started(competitor, film, core, Path(folder))
        try:
            url = f"rtsp://127.0.0.1:{port}{competitor.path(film)}"
            yield Running(process.pid, url, Path(folder) / SAID)
        finally:
            _end(process)


def _started(competitor: Competitor, film: Path, core: int | None, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Returns the listening server and its port; tries another port if the first was taken meanwhile."""
    environment = {**os.environ, "HOME": str(folder)}
    for _ in range(STARTS_MAX):
        port = free_port()
        command = pinned_command(core, competitor.command(film, port, folder))
        process = start_process(command, folder / SAID, env=environment)
        deadline = time.monotonic() + STARTED_WITHIN_SECONDS
        try:
            while time.monotonic() < deadline and process.poll() is None:
                if accepts(port) and process.poll() is None:
                    return process, port
                time.sleep(0.1)
        except BaseException:
            _end(process)
            raise
        hangs = process.poll() is None
        _end(process)
        if hangs:
            break
    raise CouldNotRun(f"{competitor.name} did not begin to listen on port {port}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(ENDED_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ours(film: Path, port: int, folder: Path) -> list[str]:
    words = [str(engine.path()), "stream", str(film.parent), "--listen", f"127.0.0.1:{port}"]
    # All UDP viewers are set up before the first plays.
    return [*words, "--sessions-max", str(SESSIONS_MAX), "--setups-max", str(SESSIONS_MAX), "--setup-timeout", "60s"]


def _gstreamer(film: Path, port: int, folder: Path) -> list[str]:
    return [gst_rtsp_server.PYTHON, str(gst_rtsp_server.PROGRAM), str(film.parent), "127.0.0.1", str(port)]


def _vlc(film: Path, port: int, folder: Path) -> list[str]:
    settings = folder / "film.vlm"
    settings.write_text(f"new film vod enabled\nsetup film input {film.resolve().as_uri()}\n")
    settings.chmod(0o644)
    command = ["cvlc", "--intf", "dummy", "--no-dbus", "--vlm-conf", str(settings), "--rtsp-port", str(port)]
    # It refuses to run as root.
    return ["setpriv", "--reuid", "nobody", "--clear-groups", *command] if os.geteuid() == 0 else command


def _ours_lacks() -> str | None:
    done = subprocess.run([str(engine.path()), "stream", "--help"], capture_output=True, check=False)
    return None if done.returncode == 0 else "the installed engine is older than `sojourn stream`"


def _gstreamer_lacks() -> str | None:
    try:
        gst_rtsp_server.installed_version()
    except CouldNotRun as error:
        return f"{error.what} (benchmarks/stream/peers)"
    return None


def _vlc_lacks() -> str | None:
    return None if shutil.which("cvlc") else "not installed (benchmarks/stream/peers)"


def ours_with(*options: str) -> Competitor:
    """Returns our server with more options than in the comparison."""
    return replace(COMPETITORS[0], command=lambda film, port, folder: [*_ours(film, port, folder), *options])


OURS = "sojourn"
COMPETITORS = (
    Competitor(OURS, _ours, lambda film: f"/{film.name}", _ours_lacks),
    Competitor("gst-rtsp-server", _gstreamer, lambda film: f"/{film.name}", _gstreamer_lacks),
    Competitor("VLC", _vlc, lambda film: "/film", _vlc_lacks, ("udp",)),
)
"""VLC refuses interleaved packets (461). MediaMTX is left out: it does not read films itself, but runs one ffmpeg per
film."""
