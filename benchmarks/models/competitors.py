"""The programs that solve the cases: a row each, with its cases and the number of jobs for about a second."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT
from benchmarks.models.cases import UTILISATION, Case
from sojourn.failure import CouldNotRun

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "model-benchmark"
PEERS = BUILD / "peers"
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Competitor:
    """A program; `jobs` is for a case of one station, a network gets a third of them."""

    name: str
    title: str
    jobs: int
    command: Callable[[Case, int, int], list[str]]
    takes: Callable[[Case], bool]
    is_peer: bool = False

    def run(self, case: Case, jobs: int, seed: int) -> dict[str, float]:
        """One run: `jobs`, `visits`, `cpu_seconds`, `mean_response_time_seconds`."""
        given = {"text": case.text, "jobs": jobs, "seed": seed, "one_station": case.group != "network"}
        done = call(self.command(case, jobs, seed), json.dumps(given))
        if self.name == "c":
            count, seconds = done.stdout.split()
            mean = float(done.stderr.split()[-2]) / 1e3
            return {
                "jobs": int(count),
                "visits": int(count),
                "cpu_seconds": float(seconds),
                "mean_response_time_seconds": mean,
            }
        # LINE also prints messages on standard output; the figures are on the last line.
        found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
        return found


def call(command: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a program to its end.

    Raises:
        CouldNotRun: with the program's last line.
    """
    try:
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True, cwd=ROOT
        )
    except FileNotFoundError as error:
        raise CouldNotRun(f"there is no {command[0]}", "install it, or leave this out with --only") from error
    except subprocess.TimeoutExpired as error:
        raise CouldNotRun(f"{' '.join(command)} took longer than {TIMEOUT_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["nothing"])[-1]
        raise CouldNotRun(f"{' '.join(command)} ended with {error.returncode}: {said}") from error


def ours(*arguments: str) -> list[str]:
    """Runs our side in a process of its own."""
    return [sys.executable, "-m", "benchmarks.models.our_answers", *arguments]


def build_c() -> Path:
    """Compiles the C loop."""
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / "lps"
    # For any machine of this architecture, as our module is built.
    call(["cc", "-O3", "-o", str(program), str(HERE / "lps.c"), "-lm"])
    return program


def install_peers() -> None:
    """Makes the peers' environment, unless it is newer than the lock file."""
    done = call([str(HERE / "peers" / "install"), sys.executable, str(PEERS)])
    print(done.stdout, end="", file=sys.stderr)


def competitors(quick: bool) -> list[Competitor]:
    """Returns all competitors; with `quick` only ours and the C loop, with few jobs."""
    program = build_c()
    everybody = [
        Competitor("sojourn", "Sojourn", 200_000 if quick else 6_000_000, lambda *_: ours("simulate"), lambda _: True),
        Competitor(
            "c",
            "C loop",
            200_000 if quick else 10_000_000,
            lambda case, jobs, seed: [str(program), str(UTILISATION), str(case.r), str(jobs), str(seed)],
            lambda case: case.group == "thesis",
        ),
    ]
    if not quick:
        everybody += [
            _peer("simpy", "SimPy 4.1.2", 60_000, "run_simpy.py", lambda _: True),
            _peer("ciw", "Ciw 3.2.7", 20_000, "run_ciw.py", lambda case: case.group == "single"),
            _peer("line", "LINE 3.0.8.0, LDES", 500_000, "run_line.py ldes", lambda case: case.group == "single"),
            _peer("line-mva", "LINE 3.0.8.0, MVA", 0, "run_line.py default", _is_product_form),
        ]
    return everybody


def python_of_peers() -> str:
    """Returns the Python interpreter of the peers' environment."""
    return str(PEERS / "bin" / "python")


def versions() -> dict[str, str]:
    """Returns name and version of each installed peer."""
    listed: list[dict[str, Any]] = json.loads(
        call([python_of_peers(), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]).stdout
    )
    return {each["name"]: each["version"] for each in listed if each["name"].lower() in ("ciw", "simpy", "line-solver")}


def _peer(name: str, title: str, jobs: int, script: str, takes: Callable[[Case], bool]) -> Competitor:
    program, *arguments = script.split()
    command = [python_of_peers(), str(HERE / "peers" / program), *arguments]
    return Competitor(name, title, jobs, lambda *_: command, takes, is_peer=True)


def _is_product_form(case: Case) -> bool:
    return case.name in ("mm1", "ps-H2")
