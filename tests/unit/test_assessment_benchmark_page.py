"""The assessment benchmark: what counts as absurd, and when two answers agree."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.assessment.page import Run, agrees, is_absurd, judge, page

QUIET = Run(
    subject="example log",
    kind="quiet",
    repetition=0,
    rate=1000.0,
    low=950.0,
    high=1050.0,
    is_lower_bound=False,
    bottleneck="server CPU",
    because="",
    highest_measured=1040.0,
    held_out_throughput=0.01,
    held_out_mean=0.1,
    held_out_p95=0.3,
    held_out_known_to=[0.0, 0.02, 0.02],
    withheld=[],
)
ABOUT = {
    "date": "2026-11-22",
    "command": "bench",
    "revision": "abc",
    "repetitions": 2,
    "quiet_repetitions": 1,
    "seed": 1,
    "efforts": {"quiet": "normal", "disk": "quick"},
    "busy_fraction": 0.0,
    "environment": {"processor": "one"},
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, False), ({"rate": 1e24}, True), ({"rate": 900.0}, True), ({"rate": None}, False)],
)
def test_what_contradicts_its_own_measurements_is_absurd(changes: dict[str, float | None], expected: bool) -> None:
    assert is_absurd(replace(QUIET, **changes)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (replace(QUIET, rate=1090.0, low=1085.0, high=1095.0), True),
        (replace(QUIET, rate=1300.0, low=1045.0, high=1400.0), True),
        (replace(QUIET, rate=1300.0, low=1250.0, high=1400.0), False),
        (replace(QUIET, rate=960.0, low=700.0, high=None, is_lower_bound=True), True),
        (replace(QUIET, rate=500.0, low=500.0, high=None, is_lower_bound=True), False),
        (replace(QUIET, rate=None), False),
    ],
)
def test_answers_agree_if_they_are_near_or_their_intervals_overlap(other: Run, expected: bool) -> None:
    assert agrees(QUIET, other) == agrees(other, QUIET) == expected


def test_a_definite_answer_far_from_the_quiet_one_fails_its_target_and_a_bound_below_does_not() -> None:
    far = replace(QUIET, kind="bursts", rate=700.0, low=700.0, high=700.0)
    words = {each.what.split(":")[0]: each.word for each in judge([QUIET, far])}
    assert words["beside bursts"] == "not met"
    for high, word in ((None, "met"), (1200.0, "met"), (700.0, "not met")):
        bound = replace(far, is_lower_bound=True, high=high)
        words = {each.what.split(":")[0]: each.word for each in judge([QUIET, bound])}
        assert (words["beside bursts"], words["beside disk"]) == (word, "not measured")


def test_two_runs_in_a_row_are_a_pair() -> None:
    beside = replace(QUIET, kind="30 % of both cores")
    others = [replace(beside, repetition=1), replace(beside, repetition=2), replace(beside, repetition=3, rate=None)]
    found = {each.what: each.found for each in judge([beside, *others])}
    assert "1 of 2" in [said for what, said in found.items() if what.startswith("two runs in a row")]


def test_an_error_beyond_its_aim_that_is_known_badly_decides_nothing() -> None:
    def word(mean: float, known_to: float) -> str:
        run = replace(QUIET, held_out_mean=mean, held_out_known_to=[0.0, known_to, 0.0])
        found = [each for each in judge([run]) if each.what.startswith("example log: held-out error of the mean")]
        return found[0].word

    assert word(0.14, 0.14) == "met"
    assert word(0.14, 0.5) == "not decided: known to ±50 %"
    assert word(0.2, 0.04) == "not met"
    assert word(0.2, 0.06) == "not decided: known to ±6 %"


def test_the_page_has_every_answer() -> None:
    text = page(ABOUT, [QUIET, replace(QUIET, repetition=1, bottleneck=None, because="it was idle")], complete=True)
    assert "| example log | quiet | 1,000 | 950 – 1,050 | server CPU | 1 %, 10 %, 30 % |" in text
    assert "unknown: it was idle" in text
    assert "30 %, worst 30 % | not met |" in text
    assert "| example log | 2 | 1 %, worst 1 % | 10 %, worst 10 % | 30 %, worst 30 % |" in text
    assert "| nginx | 0 | – | – | – |" in text


def test_a_budget_that_is_used_up_ends_the_run_with_a_page(tmp_path: Path) -> None:
    bench = [machine.ROOT / "benchmarks/assessment/bench", "--output", tmp_path, "--subjects", "example log"]
    options = ["--kinds", "quiet", "--repetitions", "2", "--minutes", "0"]
    done = subprocess.run([*bench, *options], capture_output=True, text=True, check=False)
    assert "the time is used up" in done.stderr
    assert (tmp_path / "assessment-benchmark.md").exists()


@pytest.mark.parametrize("kind", ["both cores", "bursts", "memory", "disk"])
def test_a_burner_burns_and_ends_with_its_parent(kind: str, tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    arguments = ["-m", "benchmarks.assessment.burner", kind, str(core), str(tmp_path)]
    # The parent starts it and says its number; then it ends.
    parent = (
        "import os, subprocess, sys, time\n"
        "print(subprocess.Popen([sys.executable, *sys.argv[1:], str(os.getpid())]).pid, flush=True)\n"
        "time.sleep(1.5)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent, *arguments], stdout=subprocess.PIPE, text=True, cwd=machine.ROOT
    ) as started:
        assert started.stdout is not None
        process = Path("/proc") / started.stdout.readline().strip()
    deadline = time.monotonic() + 30
    while process.exists() and "benchmarks.assessment.burner" in (process / "cmdline").read_text():
        assert time.monotonic() < deadline, "it goes on without its parent"
        time.sleep(0.1)
