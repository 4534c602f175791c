"""What the tests share: the installed program, a small log, real logs where there are any."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).parent.parent
# The same draws on every machine; other draws: pytest --hypothesis-profile=random. How long one takes says nothing on a
# machine with other work.
for name, same in (("random", False), ("same", True)):
    settings.register_profile(name, derandomize=same, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")

SOJOURN = Path(sys.executable).parent / "sojourn"
REAL_LOGS = Path(os.environ.get("SOJOURN_TRACES", REPOSITORY / ".." / "shared" / "traces"))
"""The folder of real logs, which are not the project's to ship; it may be missing."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def run(*arguments: str | Path, timeout: float = 240, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs the installed `sojourn` to its end."""
    command = [str(SOJOURN), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)  # type: ignore[call-overload]


def run_on_a_terminal(*arguments: str | Path) -> tuple[int, str, str]:
    """Runs the installed `sojourn` with standard error on a terminal: exit code, standard output, what was drawn."""
    main, terminal = pty.openpty()
    command = [str(SOJOURN), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, text=True) as process:
        os.close(terminal)
        drawn = b""
        while True:
            try:
                drawn += os.read(main, 65536)
            except OSError:
                break
        output = process.stdout.read() if process.stdout else ""
    os.close(main)
    return process.returncode, output, drawn.decode()


def wait_until_begun(process: subprocess.Popen[str]) -> None:
    """Waits until the installed `sojourn` has taken its signals over: before, Ctrl-C only ends an interpreter."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.05)


def wait_for_steps(process: subprocess.Popen[str], output: Path, steps: int) -> None:
    """Waits until the assessment of an application has measured this many steps.

    Its scenario is written for each, and before them for trying the requests out.
    """
    scenario, until = output / "targets" / "scenario.json", time.monotonic() + 120
    begun: set[int] = set()
    while len(begun) < steps + 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, begun
        if scenario.exists():
            begun.add(scenario.stat().st_mtime_ns)
        time.sleep(0.05)


@pytest.fixture(scope="session")
def example_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example log of `make demo`."""
    path = tmp_path_factory.mktemp("log") / "example.log"
    done = run("example-log", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="session")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty clients that each ask for a page and its two images, ten minutes long."""
    path = tmp_path_factory.mktemp("log") / "small.log"
    lines = []
    for client in range(200):
        for offset, (name, size) in enumerate([("/", 4_000), ("/a.gif", 900), (f"/{client % 20}.html", 12_000)]):
            second = client * 3 + offset
            stamp = f"21/Nov/2026:10:{second // 60:02d}:{second % 60:02d} +0000"
            lines.append(f'10.0.0.{client % 40} - - [{stamp}] "GET {name} HTTP/1.1" 200 {size}\n')
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def real_logs() -> Path:
    """The folder of real logs."""
    if not REAL_LOGS.is_dir():
        pytest.skip(f"no real logs: {REAL_LOGS} is not a folder (set SOJOURN_TRACES)")
    return REAL_LOGS


@pytest.fixture
def entered_path(tmp_path: Path) -> Path:
    """`tmp_path` for servers that work as another user: pytest's folders are the owner's alone."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    return tmp_path
