"""`sojourn example-log --like`: logs with published figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import run
from sojourn.commands.example_log import Figure, compare


def test_a_log_has_the_figures_of_the_one_that_it_is_like(tmp_path: Path) -> None:
    log = tmp_path / "log"
    changes = ("--share", "0.005", "--figure", "files_total_bytes=200MB")
    done = run("example-log", log, "--like", "nyse", *changes)
    assert done.returncode == 0, done.stderr
    found = json.loads(run("trace", log, "--format", "json").stdout)["characteristics"]["table1"]
    assert (found["files"], found["requests"]) == (84, 6_804)
    assert found["files_total_bytes"] == pytest.approx(1e6, rel=0.001)
    assert found["data_97_percent_bytes"] == pytest.approx(18_700, rel=0.001)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--share", "0.5"], "need --like"),
        (["--like", "nasa"], "choose one of ircache, nyse, olympics98"),
        (["--like", "nyse", "--figure", "size=1"], "no figure of a log"),
        (["--like", "nyse", "--figure", "files=many"], "no number"),
        (
            ["--like", "nyse", "--share", "0.01", "--figure", "responses_total_bytes=900TB"],
            "no log that can be made has these figures",
        ),
    ],
)
def test_figures_that_are_refused(words: list[str], expected: str, tmp_path: Path) -> None:
    done = run("example-log", tmp_path / "log", *words)
    assert done.returncode == 2
    assert expected in done.stderr


def test_a_figure_that_is_not_met_shows() -> None:
    table1 = {"peak_requests_per_second": 3.0, "average_requests_per_second": 2.0, "files": 97}
    wanted = {"files": 100, "peak_over_average": 1.5, "popularity_slope": 1}
    found = compare(wanted, table1)
    assert found == [Figure("files", 100, 97), Figure("peak_over_average", 1.5, 1.5)]
    assert [figure.is_met() for figure in found] == [False, True]
