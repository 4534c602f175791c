"""The bill of materials: every crate and package that is installed is in it, pinned, and under a licence agreed to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "sbom"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_all_that_is_installed_is_listed_with_its_checksum() -> None:
    bill = json.loads(run().stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    named = {component["name"]: component for component in bill["components"]}
    assert {"httparse", "rustls", "pyo3", "numpy", "typer"} <= named.keys()
    assert all(component["hashes"] for component in bill["components"])
    # What only tests use is not installed.
    assert "proptest" not in named


def test_licences_sources_and_known_weaknesses_are_checked() -> None:
    done = run("--check")
    assert done.returncode == 0, done.stderr
