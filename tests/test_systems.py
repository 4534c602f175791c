"""Every system under test starts, serves the bytes it was given, logs when told to, and is gone afterwards."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sojourn.failure import CouldNotRun
from sojourn.systems import PROXIES, SYSTEMS, Launch, running
from sojourn.systems.configured import Configured
from sojourn.systems.ours import architectures

BODY = bytes(range(256)) * 500
LOG_FLUSH_LIMIT_SECONDS = 10.0


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


def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    said = tmp_path / "said"
    process = running.start_process(["sh", "-c", "echo 'error: no luck'; exit 3"], said)
    with pytest.raises(CouldNotRun, match="it ended at once: no luck"):
        running.wait_until(lambda: False, process, "it", said)


def test_the_architectures_are_those_that_serve_takes() -> None:
    ours = architectures()
    assert {"sped", "amped"} <= set(ours.names)
    assert ours.default == "amped"
    refused = subprocess.run(
        [str(Path(sys.executable).parent / "sojourn-engine"), "serve", "--architecture", "none-such", "."],
        capture_output=True,
        text=True,
        check=False,
    )
    for name in ours.names:
        assert name in refused.stderr
