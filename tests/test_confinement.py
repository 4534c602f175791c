"""`sojourn confine` and the probe's limits, as root on a machine with control groups: they bind, and they go."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SOJOURN, run
from sojourn.failure import CouldNotRun
from sojourn.machine.confinement import Confinement, disk_limits
from sojourn.systems import SYSTEMS, Launch

FILES = 24
FILE_BYTES = 1 << 20
LIMIT = "16MiB"
LIMIT_BYTES = 16 << 20
GROUPS = Path("/sys/fs/cgroup")
WAIT_LIMIT_SECONDS = 30.0


def groups(state: Path) -> list[Path]:
    """Those that a run which is under way, or was killed, has made."""
    (journal,) = state.iterdir()
    return [Path(group) for group in json.loads(journal.read_text())["changes"]["groups"]]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for journals of the test's own, where the machine lets groups be made."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    tried = run("confine", "--memory-limit", LIMIT, "--", "true")
    if tried.returncode != 0:
        pytest.skip(f"no control groups can be made here: {tried.stderr.splitlines()[0]}")
    return folder / "sojourn" / "confinement"


@pytest.fixture
def site() -> Iterator[Path]:
    # Not in a folder for temporary files, which may live in memory.
    folder = Path(__file__).parent.parent / "target" / f"confined-site-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        for number in range(FILES):
            (folder / f"{number}.bin").write_bytes(os.urandom(FILE_BYTES))
        yield folder
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def test_a_limit_holds_the_page_cache_and_is_gone_afterwards(state: Path, site: Path, tmp_path: Path) -> None:
    membership = tmp_path / "membership"
    for limit in ((), ("--memory-limit", LIMIT)):
        program = ("sh", "-c", f"cat /proc/self/cgroup >{membership}; cat {site}/*.bin >/dev/null; sleep 1")
        done = run("probe", "--site", site, *limit, "--interval", "50ms", "--format", "json", "--", *program)
        assert done.returncode == 0, done.stderr
        resident = json.loads(done.stdout)["counters"]["site_resident_bytes"]
        if limit:
            assert resident["maximum"] <= LIMIT_BYTES
            (name,) = set(re.findall(r"sojourn-\d+$", membership.read_text(), re.MULTILINE))
            assert not list(GROUPS.glob(f"**/{name}"))
        else:
            assert resident["maximum"] == FILES * FILE_BYTES
    assert list(state.iterdir()) == []


def test_a_killed_run_is_undone_by_the_next_and_its_program_is_free(state: Path, site: Path) -> None:
    begun = site / "begun"
    program = ("sh", "-c", f"echo $$ >{begun}; exec sleep 60")
    command = [str(SOJOURN), "confine", "--memory-limit", LIMIT, "--site", str(site), "--", *program]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as confiner:
        deadline = time.monotonic() + WAIT_LIMIT_SECONDS
        while not begun.exists() or not begun.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        confiner.kill()
    pid = int(begun.read_text())
    try:
        (left,) = groups(state)
        assert left.name in Path(f"/proc/{pid}/cgroup").read_text()
        assert run("confine", "--restore").returncode == 0
        assert not left.exists()
        assert list(state.iterdir()) == []
        assert left.name not in Path(f"/proc/{pid}/cgroup").read_text()
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_server_of_a_study_is_confined_and_stopped(state: Path, site: Path, tmp_path: Path) -> None:
    confinement = Confinement(site, memory_bytes=LIMIT_BYTES)
    launch = Launch(root=site, work=tmp_path, core=None, architecture="amped", confinement=confinement)
    with SYSTEMS["sojourn"].start(launch) as server:
        (group,) = groups(state)
        for number in range(FILES):
            with urllib.request.urlopen(f"{server.url}/{number}.bin", timeout=WAIT_LIMIT_SECONDS) as response:
                assert len(response.read()) == FILE_BYTES
        assert group.joinpath("cgroup.procs").read_text().strip()
    assert not group.exists()


def test_a_program_gets_its_share_of_a_processor(state: Path) -> None:
    seconds = 2.0
    busy = (
        f"import time; e = time.monotonic() + {seconds}\nwhile time.monotonic() < e: pass\nprint(time.process_time())"
    )
    done = run("confine", "--cpu-limit", "0.25", "--", sys.executable, "-c", busy)
    assert done.returncode == 0, done.stderr
    assert 0.1 * seconds < float(done.stdout) < 0.3 * seconds
    assert list(state.iterdir()) == []


def test_a_program_reads_no_more_often_than_its_disk_may(state: Path, site: Path) -> None:
    # Each file is read with a request of its own, at least.
    limit, least = 30, (FILES - 1) / 30
    begun = time.monotonic()
    words = ("--site", str(site), "--disk-iops-limit", str(limit), "--disk-read-limit", "10GB/s")
    done = run("confine", *words, "--", "sh", "-c", f"for each in {site}/*.bin; do head -c 4096 $each; done >/dev/null")
    if "is on device" in done.stderr:
        pytest.skip(f"the test's folder is not on a disk: {done.stderr}")
    assert done.returncode == 0, done.stderr
    # The kernel lets a part of a second's reads pass at once.
    assert time.monotonic() - begun > 0.5 * least
    assert list(state.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "option", "share"),
    [(["serve", "."], "body-cache", 8), (["proxy", "--upstream", "http://127.0.0.1:1"], "cache-memory", 4)],
)
def test_caches_fit_into_what_memory_there_is(state: Path, command: list[str], option: str, share: int) -> None:
    shown = run(
        "confine", "--memory-limit", LIMIT, "--", SOJOURN.with_name("sojourn-engine"), *command, "--print-config"
    )
    assert shown.returncode == 0, shown.stderr
    assert tomllib.loads(shown.stdout)[option] == LIMIT_BYTES // share


def test_limits_of_a_disk_are_bytes_operations_or_both() -> None:
    assert disk_limits("20MiB/s") == (20 << 20, None)
    assert disk_limits("100 reads/s") == (None, 100)
    assert disk_limits("17.7MB/s and 120 reads/s") == disk_limits("120 reads/s and 17.7MB/s") == (17_700_000, 120)
    for text in ("100", "20MiB", "0 reads/s", "1MB/s and 2MB/s", "1 reads/s and 2 reads/s", ""):
        with pytest.raises(CouldNotRun):
            disk_limits(text)


def test_what_cannot_be_confined_is_said(tmp_path: Path) -> None:
    for arguments, said in (
        (("probe", "--memory-limit", LIMIT, "--pid", "1"), "only to a command that the probe starts"),
        (("confine", "--disk-read-limit", "1MiB/s", "--", "true"), "--site"),
        (("confine", "--disk-read-limit", "1MiB", "--site", tmp_path, "--", "true"), "20MiB/s"),
        (("confine", "--disk-iops-limit", "10", "--", "true"), "--site"),
        (("confine", "--disk-iops-limit", "0", "--site", tmp_path, "--", "true"), "0"),
        (("confine", "--cpu-limit", "0.01", "--", "true"), "at least 0.02"),
        (("confine", "--cpu-limit", "0", "--", "true"), "0.25"),
        (("confine",), "COMMAND"),
    ):
        done = run(*arguments)
        assert done.returncode == 2, (arguments, done.stdout)
        assert said in done.stderr, (arguments, done.stderr)


def test_a_site_may_have_more_files_than_may_be_open(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.bin").write_bytes(b"x")
    confine = [str(SOJOURN), "confine", "--site", str(tmp_path), "--", "true"]
    command = ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', *confine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_LIMIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
