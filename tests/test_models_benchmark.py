"""The benchmark of the models runs: its structure, not its times, which a shared machine spoils."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.models.cases import UTILISATION, cases
from benchmarks.models.record import Cell, Run
from conftest import REPOSITORY

BENCH = REPOSITORY / "benchmarks" / "models" / "bench"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BENCH), *arguments], capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_quick_run_measures_ours_and_the_c_loop_and_writes_the_page(tmp_path: Path) -> None:
    done = bench("--quick", "--output", str(tmp_path / "run"), "--docs", str(tmp_path / "docs"))
    assert done.returncode == 0, done.stderr
    about, *runs = map(json.loads, (tmp_path / "run" / "runs.jsonl").read_text().splitlines())
    assert about["environment"]["processor"]
    assert {(run["case"], run["competitor"]) for run in runs} == {
        *((name, "sojourn") for name in ("mm1", "lps-H2-4", "thesis-4", "closed-thesis")),
        ("thesis-4", "c"),
    }
    for run in runs:
        assert run["visits"] >= run["jobs"] * 0.9 > 0
        assert run["cpu_seconds"] > 0
    # The C loop and ours say the same of the thesis's server.
    means = {run["competitor"]: run["mean_response_time_seconds"] for run in runs if run["case"] == "thesis-4"}
    assert means["c"] == pytest.approx(means["sojourn"], rel=0.15)
    text = (tmp_path / "docs" / "models-benchmark.md").read_text()
    assert text == (tmp_path / "run" / "models-benchmark.md").read_text()
    assert "| M/H2/1/LPS, r = 4 | 350 ms (matrix-analytic) |" in text
    assert "$" not in text
    assert ElementTree.parse(tmp_path / "docs" / "models-benchmark-speed.svg").getroot().tag.endswith("svg")
    assert "import sojourn.queueing" in done.stdout


def test_unknown_names_leave_nothing_to_measure(tmp_path: Path) -> None:
    done = bench("--quick", "--only", "nothing", "--output", str(tmp_path))
    assert done.returncode == 2
    assert "nothing to measure" in done.stderr


def test_exact_values_are_those_of_the_literature() -> None:
    exact = {case.name: case.exact_seconds for case in cases()}
    mean = 0.025675
    assert exact["mm1"] == pytest.approx(mean / (1 - UTILISATION))
    # Pollaczek-Khinchine: half of the wait for D, five and a half times it for C2 = 10.
    assert exact["lps-D-1"] == pytest.approx(mean * (1 + 2))
    assert exact["lps-H2-1"] == pytest.approx(mean * (1 + 22))
    assert exact["lps-H2-4"] == pytest.approx(0.34965, rel=1e-3)
    assert exact["ps-H2"] == pytest.approx(mean / (1 - UTILISATION))
    for r in (1, 4, 16):
        assert exact[f"lps-M-{r}"] == pytest.approx(mean / (1 - UTILISATION))


def cell(*means: float) -> Cell:
    return Cell(tuple(Run("case", "tool", index, 100, 100, 1.0, mean) for index, mean in enumerate(means)))


def test_only_an_error_that_chance_does_not_explain_is_wrong() -> None:
    assert cell(1.30, 1.31, 1.29).is_wrong(1.0)
    assert not cell(0.9, 1.3, 1.1).is_wrong(1.0), "its interval holds the truth"
    assert not cell(1.05, 1.05, 1.05).is_wrong(1.0), "less than what counts"
    assert not cell(1.3).is_wrong(1.0), "one seed says nothing of the others"
    # 1.96 would be for known variance: three seeds have Student's 4.30.
    assert cell(0.9, 1.0, 1.1).half_width == pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-3)
