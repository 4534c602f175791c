"""Measures the CPU time of exact answers, which need no simulation, and of the import, which every user pays."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.models.competitors import HERE, call, ours, python_of_peers


@dataclass(frozen=True)
class Answer:
    """A figure in CPU seconds, and its target."""

    name: str
    seconds: float
    low: float
    high: float
    target: float | None


def measure(repetitions: int, with_peers: bool) -> list[Answer]:
    """Measures all figures, each as the median over several processes."""
    asked: list[tuple[str, Callable[[], float], float | None]] = [
        ("response-time law of M/H2/1/LPS, r = 4", lambda: _said(ours("lps", "4")), 0.5),
        ("response-time law of M/H2/1/LPS, r = 16", lambda: _said(ours("lps", "16")), 2.0),
        ("MVA of four stations, 1,000 users: Sojourn, all solvers", lambda: _said(ours("mva", "1000")), 1e-3),
        ("import sojourn.queueing", lambda: _import(sys.executable, "sojourn.queueing"), 0.3),
    ]
    if with_peers:
        peers, script = python_of_peers(), str(HERE / "peers" / "run_line_mva.py")
        asked += [
            ("MVA of four stations, 1,000 users: LINE, exact", lambda: _said([peers, script, "1000"]), None),
            ("import line_solver", lambda: _import(peers, "line_solver"), None),
            ("import ciw", lambda: _import(peers, "ciw"), None),
            ("import simpy", lambda: _import(peers, "simpy"), None),
        ]
    times: dict[str, list[float]] = {name: [] for name, _, _ in asked}
    for _ in range(repetitions):
        for name, run, _ in asked:
            times[name].append(run())
    return [Answer(name, median(times[name]), min(times[name]), max(times[name]), target) for name, _, target in asked]


def _said(command: list[str]) -> float:
    return float(json.loads(call(command).stdout.strip().splitlines()[-1])["cpu_seconds"])


def _import(python: str, module: str) -> float:
    # The CPU time of the whole process minus that of an empty one.
    def seconds(program: str) -> float:
        begun = _of_children()
        call([python, "-c", program])
        return _of_children() - begun

    return max(0.0, seconds(f"import {module}") - seconds("pass"))


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
