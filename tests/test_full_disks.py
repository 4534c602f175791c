"""Disks that are full and folders that are closed or gone: the answer comes all the same, and what lacks is named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run
from test_commands import serving

DISK_BYTES = 3 << 20
LOAD = ("--rate", "100", "--duration", "1s", "--warm-up", "0s")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk of its own needs the right to mount: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def full_disk(small_disk: Path) -> Path:
    """A disk on which a folder can be made, and no file written."""
    fill(small_disk)
    return small_disk


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    (site / "index.html").write_text("<p>hello</p>")
    with serving(site) as (address, _):
        yield address


def check(done: subprocess.CompletedProcess[str], *named: Path) -> str:
    """The answer came, with exit code 1 and one message that names what lacks and the cure; the message."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    _, _, message = done.stderr.partition("error: not written: ")
    assert message, done.stderr
    assert "hint: make room there" in message
    for each in named:
        assert each.name in message
        assert str(each.parent) in message
    return message


def test_a_load_answers_on_a_full_disk(full_disk: Path, address: str) -> None:
    kept, csv = full_disk / "run", full_disk / "run.csv"
    done = run("load", f"http://{address}/", *LOAD, "--output", kept, "--csv", csv, "--format", "json")
    message = check(done, csv)
    assert "No space left on device" in message
    assert all(name in message for name in ("run/environment.json", "run/result.json", "report.html"))
    assert json.loads(done.stdout)["requests"] > 50
    assert not list(full_disk.rglob("*.partial"))


def test_a_disk_that_fills_meanwhile_keeps_what_fitted(small_disk: Path, address: str) -> None:
    kept = small_disk / "run"
    filling = threading.Thread(target=_fill_once_made, args=(kept, small_disk))
    filling.start()
    done = run("load", f"http://{address}/", "--rate", "100", "--duration", "5s", "--output", kept)
    filling.join()
    check(done, kept / "result.json")
    assert "requests/s" in done.stdout


def _fill_once_made(folder: Path, disk: Path) -> None:
    _wait_for(folder)
    fill(disk)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_folder_that_is_removed_meanwhile_is_made_again(tmp_path: Path, address: str) -> None:
    kept = tmp_path / "runs" / "one"
    removing = threading.Thread(target=_remove_once_made, args=(kept,))
    removing.start()
    done = run("load", f"http://{address}/", "--rate", "100", "--duration", "3s", "--output", kept)
    removing.join()
    assert done.returncode == 0, done.stderr
    assert json.loads((kept / "result.json").read_text())["requests"] > 100
    assert (kept / "report.html").is_file()


def _remove_once_made(folder: Path) -> None:
    _wait_for(folder / "latency")
    shutil.rmtree(folder.parent)


def test_a_folder_that_becomes_a_file_meanwhile_is_named(tmp_path: Path, address: str) -> None:
    kept = tmp_path / "run"
    closing = threading.Thread(target=_close_once_made, args=(kept,))
    closing.start()
    done = run("load", f"http://{address}/", "--rate", "100", "--duration", "3s", "--output", kept)
    closing.join()
    check(done, kept / "result.json")
    assert "requests/s" in done.stdout


def _close_once_made(folder: Path) -> None:
    _wait_for(folder / "latency")
    shutil.rmtree(folder)
    folder.write_text("no folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_closed_folder_is_refused_before_anything_is_measured(tmp_path: Path, address: str) -> None:
    tmp_path.chmod(0o500)
    done = run("load", f"http://{address}/", *LOAD, "--output", tmp_path / "run")
    assert done.returncode == 2
    assert "--output" in done.stderr


def test_a_probe_answers_on_a_full_disk(full_disk: Path) -> None:
    kept = [full_disk / f"probe.{ending}" for ending in ("parquet", "json")]
    outputs = [word for path in kept for word in ("--output", path)]
    done = run("probe", "--duration", "1s", *outputs, "--format", "json", "--", "sleep", "10")
    check(done, *kept)
    assert json.loads(done.stdout)["samples"] > 2


def test_a_trace_is_characterised_on_a_full_disk(full_disk: Path, small_log: Path) -> None:
    kept = full_disk / "small.trace"
    done = run("trace", small_log, "--output", kept, "--format", "json")
    check(done, kept)
    assert json.loads(done.stdout)["import"]["requests"] == 600
    assert not kept.exists()


def test_a_search_answers_on_a_full_disk(full_disk: Path, address: str) -> None:
    kept = full_disk / "run"
    words = ("--rate", "50", "--duration", "500ms", "--search", "p95<10s", "--search-time", "4s", "--output", kept)
    done = run("load", f"http://{address}/", *words, "--format", "json")
    check(done, kept / "search.json")
    assert json.loads(done.stdout)["trials"]


def test_a_study_says_what_it_found_on_a_full_disk(full_disk: Path, tmp_path: Path) -> None:
    kept = full_disk / "run"
    words = ("--quick", "--output", kept, "--work-dir", tmp_path / "work", "--format", "json")
    done = run("study", "system-model/server-speed", *words)
    check(done, kept / "study.toml")
    (study,) = json.loads(done.stdout)["studies"]
    assert study["points"] == study["points_planned"] > 0


@pytest.mark.slow
def test_an_assessment_answers_on_a_full_disk(full_disk: Path, small_log: Path) -> None:
    kept = full_disk / "run"
    words = ("--effort", "quick", "--think-scale", "0.1", "--output", kept)
    done = run("assess", small_log, *words, "--format", "json")
    message = check(done, kept / "trace.sojourn")
    assert "No space left on device" in message
    summary = json.loads(done.stdout)
    assert summary["complete"]
    assert summary["answer"]
    assert summary["steps"]
