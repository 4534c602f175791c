"""Every system under test starts, serves the bytes it was given, logs when told to, and is gone afterwards."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sojourn.engine.description import architectures, default_architecture
from sojourn.failure import CouldNotRun
from sojourn.systems import PROXIES, SYSTEMS, Launch, Running, running
from sojourn.systems.configured import Configured
from sojourn.systems.origins import REMOTE, Origin
from sojourn.tiers.processes import listeners

BODY = bytes(range(256)) * 500
LOG_FLUSH_LIMIT_SECONDS = 10.0
HANGING_SECONDS = 1.5
"""Less than any server waits for its origin, and than attributes are trusted."""


@pytest.fixture
def launch(entered_path: Path) -> Launch:
    root, work = entered_path / "root", entered_path / "work"
    root.mkdir()
    work.mkdir()
    (root / "file").write_bytes(BODY)
    return Launch(root, work, None, "amped")


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("access_log", [False, True], ids=["quiet", "logging"])
def test_a_system_serves_and_stops(name: str, access_log: bool, launch: Launch) -> None:
    launch = Launch(launch.root, launch.work, None, "amped", access_log)
    try:
        server = SYSTEMS[name].start(launch)
    except CouldNotRun as error:
        if "is not installed" in error.what or "no access log" in error.what:
            pytest.skip(error.what)
        raise
    with server:
        with urllib.request.urlopen(server.url + "/file", timeout=10) as response:
            assert response.status == 200
            assert response.read() == BODY
        assert server.version != "unknown"
        assert not server.has_died
    assert server.has_died
    log = launch.work / "access.log"
    if access_log:
        deadline = time.monotonic() + LOG_FLUSH_LIMIT_SECONDS
        while "GET /file" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "GET /file" in log.read_text()
    else:
        assert not log.exists()


@pytest.mark.parametrize("name", ["sojourn-proxy", *(each.name for each in PROXIES)])
def test_a_proxy_keeps_what_its_origin_allows(name: str, launch: Launch) -> None:
    (launch.root / "file.uncached").write_bytes(BODY)
    try:
        proxy = SYSTEMS[name].start(launch)
    except CouldNotRun as error:
        if "is not installed" in error.what:
            pytest.skip(error.what)
        raise
    with proxy:
        assert get(proxy.url + "/file") == get(proxy.url + "/file.uncached") == BODY
        assert proxy.behind is not None
        assert set(proxy.pids).isdisjoint(proxy.behind.pids)
        proxy.behind.stop()
        assert get(proxy.url + "/file") == BODY
        with pytest.raises(urllib.error.HTTPError, match=r"50[234]"):
            get(proxy.url + "/file.uncached")
    assert proxy.has_died
    assert proxy.behind.has_died


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        body: bytes = response.read()
        return body


def test_a_server_that_is_not_there_says_which_package_has_it(launch: Launch) -> None:
    absent = Configured("no-such-server", "its-package", (), "-v", "", "")
    with pytest.raises(CouldNotRun, match="no-such-server is not installed") as raised:
        absent.start(launch)
    assert raised.value.hint is not None
    assert "its-package" in raised.value.hint


def test_an_interrupted_start_leaves_no_process(tmp_path: Path) -> None:
    process = running.start_process(["sleep", "60"], tmp_path / "said")

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.wait_until(interrupted, process, "sleep", tmp_path / "said")
    assert process.poll() is not None


DIES = """
import os, signal, sys, time
from pathlib import Path
from sojourn.systems import running
running.start_process(["sh", "-c", sys.argv[1]], Path(sys.argv[2]), forwards_signals=False)
while not (Path(sys.argv[3]).exists() and Path(sys.argv[3]).read_text().endswith("\\n")):
    time.sleep(0.02)
os.kill(os.getpid(), signal.SIGKILL)
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_command_has_started_ends_with_it_and_with_us(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    # A shell that waits for its child hands no signal on to it.
    program = f"sleep 600 & echo $! > {noted}; wait"
    process = running.start_process(["sh", "-c", program], tmp_path / "said", forwards_signals=False)
    deadline = time.monotonic() + 60
    while not (noted.exists() and noted.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.02)
    child = int(noted.read_text())
    assert runs(child)
    running.Running("", "", [], process, [process.pid]).stop()
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(child)

    noted.unlink()
    subprocess.run([sys.executable, "-c", DIES, program, str(tmp_path / "said"), str(noted)], check=False, timeout=60)
    child = int(noted.read_text())
    deadline = time.monotonic() + 60
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(child), "we were killed, and so is what nobody would stop"


def test_a_server_may_open_more_files_than_we_may(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        process = running.start_process(["sh", "-c", "ulimit -n"], tmp_path / "said")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert process.wait(60) == 0
    assert int((tmp_path / "said").read_text()) > 256


def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    said = tmp_path / "said"
    process = running.start_process(["sh", "-c", "echo 'error: no luck'; exit 3"], said)
    with pytest.raises(CouldNotRun, match="it ended at once: no luck"):
        running.wait_until(lambda: False, process, "it", said)


FORKS = """
import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
workers = [os.fork(), os.fork()]
if all(workers):
    print(listener.getsockname()[1], flush=True)
time.sleep(600)
"""


def test_of_a_server_that_forks_workers_the_first_process_alone_is_a_listener() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as master:
        try:
            assert master.stdout is not None
            port = int(master.stdout.readline())
            workers = descendants(master.pid)[1:]
            assert len(workers) > 1
            assert listeners(port) == [master.pid]
            os.kill(master.pid, signal.SIGKILL)
            master.wait()
            assert listeners(port), "its workers still listen"
        finally:
            os.killpg(master.pid, signal.SIGKILL)


def test_the_architectures_are_those_that_serve_takes() -> None:
    ours = architectures()
    assert {"sped", "amped"} <= set(ours)
    assert default_architecture() == "amped"
    refused = subprocess.run(
        [str(Path(sys.executable).parent / "sojourn-engine"), "serve", "--architecture", "none-such", "."],
        capture_output=True,
        text=True,
        check=False,
    )
    for name in ours:
        assert name in refused.stderr


def started_elsewhere(launch: Launch, origin: str, system: str = "sojourn") -> Running:
    try:
        return Origin(origin, "--delay 1ms").start(launch, launch.root.parent, SYSTEMS[system].start)
    except CouldNotRun as error:
        if "missing" in error.what or "only root" in error.what or "is not installed" in error.what:
            pytest.skip(error.what)
        raise


@pytest.mark.parametrize("origin", REMOTE)
def test_a_server_has_its_files_on_another_machine(launch: Launch, origin: str) -> None:
    system = "sojourn" if origin != "everything" else "nginx"
    launch = replace(launch, access_log=origin == "everything")
    with started_elsewhere(launch, origin, system) as server:
        assert get(server.url + "/file") == BODY
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(server.url + "/none")
        assert server.behind is not None
        processes = [each for pid in (*server.pids, *server.behind.pids) for each in descendants(pid)]
        mounts = Path(f"/proc/{server.pids[0]}/mountinfo").read_text()
        assert (f"{launch.root.parent}/mounted/files" in mounts) == (origin in ("sshfs", "blocks", "everything"))
        assert (f" {launch.work} " in mounts) == (origin == "everything")
        # What is moved elsewhere is written there alone.
        assert not (launch.work / "access.log").exists()
        assert (launch.work / "moved" / "access.log").exists() == (origin == "everything")
    assert server.has_died
    assert server.behind.has_died
    assert_nothing_remains(processes, launch)


def test_files_elsewhere_are_refused_where_they_cannot_be_read(launch: Launch) -> None:
    for system, origin, said in (("nginx", "s3", "cannot read s3://"), ("sojourn-proxy", "s3", "cannot read s3://")):
        with pytest.raises(CouldNotRun, match=said):
            started_elsewhere(launch, origin, system)
    with pytest.raises(CouldNotRun, match="'nowhere' is no origin"):
        started_elsewhere(launch, "nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("origin", REMOTE)
def test_an_origin_that_hangs_stalls_the_other_clients_of_sped_and_not_those_of_amped(
    launch: Launch, origin: str
) -> None:
    (launch.root / "wanted").write_bytes(BODY)
    launch = replace(launch, access_log=origin == "everything")
    sped, amped = (
        others_wait_seconds(replace(launch, architecture=architecture), origin) for architecture in ("sped", "amped")
    )
    assert sped > HANGING_SECONDS / 2
    assert sped > 3 * amped


def others_wait_seconds(launch: Launch, origin: str) -> float:
    """How long ten requests for a known file take while another waits for storage that hangs."""
    with started_elsewhere(launch, origin) as server, ThreadPoolExecutor(1) as client:
        assert server.behind is not None
        storage = [each for pid in server.behind.pids for each in descendants(pid)]
        assert get(server.url + "/file") == BODY
        resumed = threading.Timer(HANGING_SECONDS, send_all, (storage, signal.SIGCONT))
        send_all(storage, signal.SIGSTOP)
        resumed.start()
        try:
            waiting = client.submit(get, server.url + "/wanted")
            # Meanwhile its request arrives.
            time.sleep(HANGING_SECONDS / 5)
            begun = time.monotonic()
            for _ in range(10):
                assert get(server.url + "/file") == BODY
            others = time.monotonic() - begun
            assert waiting.result() == BODY
        finally:
            resumed.join()
        return others


def send_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


@pytest.mark.slow
@pytest.mark.parametrize("origin", REMOTE)
def test_files_elsewhere_are_gone_after_kill_9(launch: Launch, origin: str) -> None:
    started_elsewhere(launch, origin).stop()
    program = (
        "import sys, time; from pathlib import Path; from sojourn.systems import SYSTEMS, Launch;"
        "from sojourn.systems.origins import Origin;"
        "root, work, origin = sys.argv[1:]; launch = Launch(Path(root), Path(work), None, 'amped');"
        "server = Origin(origin).start(launch, launch.root.parent, SYSTEMS['sojourn'].start);"
        "print(server.pids[0], server.behind.pids[0], flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(launch.root), str(launch.work), origin], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        processes = [each for word in starter.stdout.readline().split() for each in descendants(int(word))]
        assert len(processes) > 1
        starter.kill()
    assert_nothing_remains(processes, launch)


def descendants(pid: int) -> list[int]:
    """A process with its children and theirs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in descendants(int(child)))]


def assert_nothing_remains(processes: list[int], launch: Launch) -> None:
    deadline = time.monotonic() + 10
    while remains := [pid for pid in processes if runs(pid)] + loop_devices_of(launch.root.parent):
        assert time.monotonic() < deadline, remains
        time.sleep(0.05)
    assert f"{launch.root.parent}/mounted" not in Path("/proc/self/mountinfo").read_text()


def loop_devices_of(folder: Path) -> list[str]:
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [str(file) for file in files if str(folder) in file.read_text()]
