"""What the tests of the server's and the proxy's benchmark share: running one, and a run and competitors made up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.server.competitors import Competitor, Kind
from conftest import REPOSITORY
from sojourn.systems import Running

# The network namespace of its own needs root, and may not have every congestion control of the machine's.
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
NETWORK = ["--congestion-control", "reno" if os.geteuid() == 0 and "reno" in ALLOWED.read_text().split() else "system"]

RUN: dict[str, Any] = {
    "revision": "abc",
    "date": "2026-11-22",
    "command": "bench",
    "seed": 1,
    "repetitions": 3,
    "duration_seconds": 2.0,
    "warm_up_seconds": 0.5,
    "congestion_control": "cubic",
    "cores": {"server": 0, "generator": 1},
    "engine_modified": 7,
    "busy_fraction": 0.01,
    "own_network": True,
    "environment": {"processor": "one | two"},
    "complete": True,
    "seconds": 61.0,
    "versions": {"nginx": "1.2"},
}


def bench(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(REPOSITORY / "benchmarks" / name / "bench"), *NETWORK, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def says_what_it_cannot_run(name: str, competitors: str) -> None:
    for arguments, what in (
        (("--only", "nothing"), "no condition is named nothing"),
        ((competitors, "nobody"), "no server is named nobody"),
    ):
        done = bench(name, *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {what}\nhint: one or more of ")


def competitor(name: str, kind: Kind) -> Competitor:
    def start(*_: object) -> Running:
        raise AssertionError("nobody is started here")

    return Competitor(name, kind, start, lambda condition: True)
