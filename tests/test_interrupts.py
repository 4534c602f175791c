"""Ctrl-C on a real terminal, kill, a terminal that is closed: what was measured is kept, however impatient one is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import SOJOURN
from sojourn import engine
from test_commands import serving

SECONDS_MAX = 120
LOAD = ("--rate", "50", "--duration", "10m")
CTRL_C = b"\x03"


class Terminal:
    """`sojourn` in the foreground of a terminal of its own; standard output may be a pipe."""

    def __init__(self, *words: str | Path, piped: bool = False) -> None:
        self._main, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [str(SOJOURN), *map(str, words)],
            stdin=terminal,
            stdout=subprocess.PIPE if piped else terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        self._is_read = True
        self._drawn, self._piped = list[bytes](), list[bytes]()
        self._threads = [threading.Thread(target=self._read, daemon=True)]
        if self.process.stdout is not None:
            self._threads.append(threading.Thread(target=self._read_pipe, daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def drawn(self) -> str:
        """What was written to the terminal by now."""
        return b"".join(self._drawn).decode(errors="replace")

    @property
    def piped(self) -> str:
        """What was written to the pipe, in the end."""
        return b"".join(self._piped).decode()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert self.process.poll() is None, self.drawn
            assert time.monotonic() < deadline, self.drawn
            time.sleep(0.05)

    def wait_for_engine(self) -> None:
        """Waits until the engine, this process or a child of it, has measured for a moment."""
        self.wait_for(lambda: any(_is_engine(pid) for pid in (self.process.pid, *_children(self.process.pid))))
        time.sleep(2)

    def interrupt(self, how: signal.Signals, times: int = 1) -> int:
        """Types Ctrl-C, or kills, so often; the exit code."""
        for _ in range(times):
            if how == signal.SIGINT:
                with contextlib.suppress(OSError):
                    os.write(self._main, CTRL_C)
            else:
                self.process.send_signal(how)
            time.sleep(0.05)
        code = self.process.wait(SECONDS_MAX)
        for thread in self._threads:
            thread.join(SECONDS_MAX)
        os.close(self._main)
        return code

    def hang_up(self) -> int:
        """Closes the terminal, as when its window is closed or a connection breaks; the exit code."""
        self._is_read = False
        for thread in self._threads:
            thread.join(SECONDS_MAX)
        os.close(self._main)
        return self.process.wait(SECONDS_MAX)

    def _read(self) -> None:
        # A terminal that nobody reads fills up, and whoever draws on it waits. It ends with the last who has it open.
        with contextlib.suppress(OSError):
            while self._is_read:
                if select.select([self._main], [], [], 0.05)[0]:
                    some = os.read(self._main, 65536)
                    if not some:
                        return
                    self._drawn.append(some)

    def _read_pipe(self) -> None:
        assert self.process.stdout is not None
        self._piped.append(self.process.stdout.read())


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_engine(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink() == engine.path().resolve()
    return False


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    (site / "index.html").write_text("<p>hello</p>")
    return site


@pytest.mark.parametrize(("how", "times"), [(signal.SIGINT, 1), (signal.SIGINT, 5), (signal.SIGTERM, 1)])
def test_a_load_into_a_folder_is_kept(root: Path, tmp_path: Path, how: signal.Signals, times: int) -> None:
    with serving(root) as (address, _):
        load = Terminal("load", f"http://{address}/", *LOAD, "--output", tmp_path / "run")
        load.wait_for(lambda: load.drawn.count("first byte") >= 2)
        assert load.interrupt(how, times) == 1
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["interrupted"], result["complete"]) == (True, False)
    assert result["requests"] > 10
    assert "since due" in load.drawn, "the answer is on the terminal"
    assert "interrupted" in (tmp_path / "run" / "report.html").read_text()
    assert "Traceback" not in load.drawn


def test_a_load_is_kept_when_its_terminal_is_closed(root: Path, tmp_path: Path) -> None:
    with serving(root) as (address, _):
        load = Terminal("load", f"http://{address}/", *LOAD, "--output", tmp_path / "run")
        load.wait_for(lambda: load.drawn.count("first byte") >= 2)
        assert load.hang_up() == 1
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["interrupted"], result["complete"]) == (True, False)
    assert "interrupted" in (tmp_path / "run" / "report.html").read_text()


def test_a_load_ends_with_its_command_even_if_that_is_killed(root: Path) -> None:
    with serving(root) as (address, _):
        load = Terminal("load", f"http://{address}/", *LOAD)
        load.wait_for_engine()
        (generator,) = [pid for pid in _children(load.process.pid) if _is_engine(pid)]
        assert load.interrupt(signal.SIGKILL) == -signal.SIGKILL
        deadline = time.monotonic() + SECONDS_MAX
        while _is_engine(generator):
            assert time.monotonic() < deadline, "it loads the server on and on"
            time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("--threshold", "p99<10s"), ("--live",)])
def test_a_load_without_a_folder_is_printed(root: Path, how: signal.Signals, options: tuple[str, ...]) -> None:
    with serving(root) as (address, _):
        load = Terminal("load", f"http://{address}/", *LOAD, *options, "--format", "json", piped=True)
        load.wait_for_engine()
        assert load.interrupt(how) == 1
    result = json.loads(load.piped)
    assert result["interrupted"]
    assert result["requests"] > 10
    assert "Traceback" not in load.drawn


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_replay_is_kept(root: Path, small_log: Path, tmp_path: Path, how: signal.Signals) -> None:
    with serving(root) as (address, _):
        replay = Terminal("replay", small_log, f"http://{address}/", "--scale", "1", "--output", tmp_path / "run")
        replay.wait_for_engine()
        assert replay.interrupt(how) == 1
    assert json.loads((tmp_path / "run" / "result.json").read_text())["interrupted"]
    assert "Traceback" not in replay.drawn


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_probe_is_kept_and_printed(tmp_path: Path, how: signal.Signals) -> None:
    kept = tmp_path / "probe.json"
    probe = Terminal("probe", "--interval", "20ms", "--output", kept, "--", "sleep", "600")
    probe.wait_for_engine()
    # It is how a probe ends.
    assert probe.interrupt(how, times=3) == 0
    assert json.loads(kept.read_text())["samples"] > 2
    assert "cpu_seconds" in probe.drawn


HEARS = """
import signal, time
heard = []
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, lambda number, _: heard.append(number))
print("ready", flush=True)
while not heard:
    time.sleep(0.01)
# A second one would come at once.
time.sleep(0.5)
print("heard", len(heard), flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_confined_program_hears_one_signal_once(how: signal.Signals) -> None:
    confined = Terminal("confine", "--", sys.executable, "-c", HEARS)
    confined.wait_for(lambda: "ready" in confined.drawn)
    assert confined.interrupt(how) == 0
    assert "heard 1" in confined.drawn


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_study_keeps_its_points_and_says_what_they_say(tmp_path: Path, how: signal.Signals) -> None:
    kept = tmp_path / "run"
    study = Terminal("study", "flash/single-file", "--quick", "--output", kept)
    study.wait_for(lambda: len(list((kept / "points").glob("*.json"))) >= 2)
    assert study.interrupt(how, times=3) == 1
    assert json.loads((kept / "study.json").read_text())["points"] >= 2
    assert (kept / "report.html").is_file()
    assert not list(kept.rglob("*.partial"))
    assert "Traceback" not in study.drawn


@pytest.mark.slow
def test_an_impatient_person_gets_the_assessment_all_the_same(small_log: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    options = ("--think-scale", "0.1", "--repetitions", "20", "--output", kept)
    assess = Terminal("assess", small_log, "--effort", "quick", *options)
    assess.wait_for((kept / "points.parquet").exists)
    time.sleep(1)
    assert assess.interrupt(signal.SIGINT, times=4) == 1
    summary = json.loads((kept / "summary.json").read_text())
    assert (summary["complete"], summary["incomplete_because"]) == (False, "interrupted")
    assert summary["steps"]
    assert "interrupted" in (kept / "report.html").read_text()
    assert "Traceback" not in assess.drawn


def test_before_anything_has_begun_it_ends_at_once() -> None:
    assess = Terminal("assess", "access.log")
    maps = Path(f"/proc/{assess.process.pid}/maps")
    # Its libraries are being imported.
    assess.wait_for(lambda: "numpy" in maps.read_text())
    assert assess.interrupt(signal.SIGINT) == 128 + signal.SIGINT
    assert "Traceback" not in assess.drawn
    assert "interrupted" in assess.drawn


def test_while_a_log_is_read_nothing_has_begun(tmp_path: Path) -> None:
    pipe, kept = tmp_path / "access.log", tmp_path / "trace"
    os.mkfifo(pipe)
    # For writing alone it could not be opened before it is read.
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b'a - - [10/Oct/2000:12:00:00 +0000] "GET / HTTP/1.0" 200 5\n')
    trace = Terminal("trace", pipe, "--output", kept)
    trace.wait_for(lambda: fcntl.ioctl(writer, termios.FIONREAD, bytes(4)) == bytes(4))
    assert trace.interrupt(signal.SIGINT) == 128 + signal.SIGINT
    os.close(writer)
    assert "interrupted" in trace.drawn
    assert "Traceback" not in trace.drawn
    assert list(tmp_path.iterdir()) == [pipe]
