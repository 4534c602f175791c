"""The example application (examples/shop) for tests: started at its smallest, and ended."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

PROGRAM = REPOSITORY / "examples" / "shop" / "shop"
VENV = REPOSITORY / "build" / "shop-venv"
"""Of all tests: its libraries are installed once."""

needs_shop = pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin") is None or not list(Path("/usr/lib/postgresql").glob("*/bin")),
    reason="the example application needs Debian's nginx and postgresql (scripts/peers)",
)


def shop(command: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the example's program."""
    words = [str(PROGRAM), command, "--folder", str(folder), *options]
    return subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)


@contextmanager
def running(*options: str) -> Iterator[dict[str, Any]]:
    """A shop that runs: what `shop status` says of it, and its `folder`."""
    with tempfile.TemporaryDirectory(prefix="shop-") as name:
        folder = Path(name)
        # PostgreSQL runs as another user where the tests are root.
        folder.chmod(0o755)
        started = shop("start", folder, "--json", "--venv", str(VENV), *options)
        if "pip install" in started.stderr or "No matching distribution" in started.stderr:
            pytest.skip(f"the example's libraries cannot be installed: {started.stderr[-300:]}")
        assert started.returncode == 0, started.stderr
        try:
            yield {**json.loads(started.stdout), "folder": folder}
        finally:
            stopped = shop("stop", folder)
            assert stopped.returncode == 0, stopped.stderr
