"""`sojourn misses` on real servers under valgrind: the same seed gives the same figures."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import SOJOURN, run
from sojourn.cache_misses import Request, counts, measure, measurement
from sojourn.cache_misses.lock_step import Mix
from sojourn.cache_misses.program import Program
from sojourn.failure import CouldNotRun
from sojourn.systems.running import free_port

ENGINE = SOJOURN.with_name("sojourn-engine")
INSTRUCTIONS_SPREAD_MAX = 0.002
"""Of what a request takes; counts are the same but for what valgrind itself does by the time of day."""

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None or platform.machine() != "x86_64", reason="needs valgrind, and x86-64"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    root.mkdir()
    for number in range(4):
        with (root / f"{number}.html").open("wb") as file:
            file.write(bytes(range(256)) * (4 * number + 1))
            # While the kernel writes a page to the disk, a server may be told that it is not in memory.
            file.flush()
            os.fsync(file.fileno())
    (tmp_path / "mix").write_text("".join(f"/{number}.html {4 - number}\n" for number in range(4)))
    return root


# Programs at real-time priority leave a test beside it next to nothing of their core.
@pytest.mark.alone
@needs_valgrind
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sped", "mt", "mp"])
def test_the_same_seed_gives_the_same_figures(site: Path, architecture: str) -> None:
    port = free_port()
    server = (ENGINE, "serve", site, "--listen", f"127.0.0.1:{port}", "--architecture", architecture, "--workers", "2")
    server = server[:-2] if architecture == "sped" else server
    options = ("--url", f"http://127.0.0.1:{port}", "--mix", site.parent / "mix", "--requests", "60")
    geometry = ("--d1", "32768,8,64", "--i1", "32768,8,64", "--ll", "1048576,16,64")
    done = run("misses", *options, *geometry, "--format", "json", "--", *server)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["label"] == "simulated, user mode"
    assert found["geometry"]["D1"] == {"size_bytes": 32768, "line_bytes": 64, "associativity": "8-way associative"}
    instructions = found["per_request"]["instructions"]
    assert instructions["minimum"] > 500
    spread = (instructions["maximum"] - instructions["minimum"]) / instructions["mean"]
    assert spread <= INSTRUCTIONS_SPREAD_MAX, found["runs"]
    # One loop and nothing beside it: nothing is left to chance where turns are kept.
    assert found["identical"] or architecture != "sped" or not found["threads_take_turns"], found["runs"]


@needs_valgrind
def test_what_cannot_be_simulated_is_said(site: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = (ENGINE, "serve", site, "--listen", f"127.0.0.1:{port}")
    for arguments, said in (
        (("--url", url, "--", "no-such-server"), "there is no program no-such-server"),
        (("--url", url, "--", ENGINE, "serve", site / "missing"), "no server listens"),
        (("--url", url, "--path", "/missing", "--requests", "1", "--", *server), "/missing was answered with 404"),
        (("--url", url, "--d1", "32K", "--", *server), "bytes,ways,line"),
        (("--url", "127.0.0.1", "--", *server), "http://HOST:PORT"),
    ):
        done = run("misses", *arguments)
        assert done.returncode == 2, (arguments, done.stdout)
        assert said in done.stderr, (arguments, done.stderr)


@needs_valgrind
def test_another_processor_is_told_what_it_can_do(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(CouldNotRun, match="this is aarch64") as refused:
        Program(["true"], [], site, site, hold=True)
    assert "--free-running" in str(refused.value.hint)


_SLOW_AT_FIRST = """
cd {folder}
if [ ! -e "$XDG_CACHE_HOME/list" ]; then
    for each in $(seq 9999); do :; done
    : > "$XDG_CACHE_HOME/list"
fi
: > ready
read said < never
"""


@dataclass(frozen=True)
class _Readiness:
    """Asks a program for nothing, once it is ready."""

    file: Path
    unit: str = "request"
    units: float = 1.0
    steps: bool = False

    def as_json(self) -> dict[str, object]:
        return {}

    def ask(self, url: str, program: Program, factor: int) -> counts.Counts:
        deadline = time.monotonic() + 60
        while not self.file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.file.unlink()
        return {}


@needs_valgrind
def test_what_a_first_start_leaves_behind_is_there_when_counting_begins(tmp_path: Path) -> None:
    # Nobody writes into it: a shell that waits for it does no more, whenever it is ended.
    os.mkfifo(tmp_path / "never")
    command = ["sh", "-c", _SLOW_AT_FIRST.format(folder=tmp_path)]
    found = measure(Request(command, "http://", _Readiness(tmp_path / "ready"), repetitions=1, hold=False))
    assert found.shorter[0]["Ir"] == pytest.approx(found.longer[0]["Ir"], rel=0.05)


def test_counts_of_several_processes_are_summed_and_half_a_file_is_refused(tmp_path: Path) -> None:
    text = "desc: D1 cache:         49152 B, 64 B, 12-way associative\nevents: Ir Dr\nfl=x\nsummary: 10 4\n"
    for name in ("one", "two"):
        (tmp_path / name).write_text(text)
    sums, caches = counts.read([tmp_path / "one", tmp_path / "two"])
    assert sums == {"Ir": 20, "Dr": 8}
    assert caches["D1"].size_bytes == 49152
    (tmp_path / "two").write_text(text.replace("summary", "fn=summary"))
    with pytest.raises(CouldNotRun, match="not what cachegrind writes"):
        counts.read([tmp_path / "two"])


def test_more_requests_begin_with_the_fewer() -> None:
    mix = Mix(["/a", "/b", "/c"], [3.0, 2.0, 1.0])
    assert mix.draw(200, 7)[:100] == mix.draw(100, 7)
    assert mix.draw(100, 7) != mix.draw(100, 8)


def test_an_interruption_keeps_the_repetitions_that_were_whole(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Request(["server"], "http://", _Readiness(site), repetitions=5)
    runs = 0

    def count(request: Request, factor: int, kept: Path) -> tuple[counts.Counts, dict[str, counts.Geometry], bool]:
        nonlocal runs
        runs += 1
        if runs > runs_before:
            raise KeyboardInterrupt
        return (
            dict.fromkeys(("Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw"), 100 * factor),
            {},
            False,
        )

    for name, stands_in in (("_prepare", lambda *_: None), ("_run", count), ("_version", lambda: "made up")):
        monkeypatch.setattr(measurement, name, stands_in)
    # Two whole repetitions, and the shorter run of a third.
    runs_before = 5
    found = measure(asked)
    assert not found.complete
    assert not found.as_json()["complete"]
    assert (len(found.shorter), len(found.longer)) == (2, 2)
    assert found.per_unit is not None
    assert found.per_unit["instructions"].mean == 100
    runs, runs_before = 0, 1
    with pytest.raises(KeyboardInterrupt):
        measure(asked)
