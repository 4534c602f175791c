"""Two runs of a study beside each other: verdicts, ratios over the cells that both have, what differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_study import TEXT, folder, scripted, study

from sojourn.failure import CouldNotRun
from sojourn.study.comparison import compare, is_of_studies
from sojourn.study.folder import Record, StudyFolder
from sojourn.study.points import Point
from sojourn.study.runner import run


def twice_as_fast(point: Point) -> Record:
    found = scripted(point)
    return {**found, "metrics": {"rps": 2 * found["metrics"]["rps"]}}


def test_verdicts_stand_beside_each_other_and_figures_over_figures(tmp_path: Path) -> None:
    first = folder(tmp_path / "first")
    first.add_environment({"processor": "old", "kernel": "6"})
    run(first, scripted)
    second = StudyFolder.begin(tmp_path / "second" / "run", study().shortened(), TEXT)
    second.add_environment({"processor": "new", "kernel": "6"})
    run(second, twice_as_fast)
    second.close()
    assert is_of_studies(tmp_path / "first")
    # The run of another command has a plan, too.
    (tmp_path / "first" / "plan-shop").mkdir()
    (tmp_path / "first" / "plan-shop" / "plan.json").write_text("{}")
    assert not is_of_studies(tmp_path / "first" / "plan-shop")
    assert not is_of_studies(tmp_path / "neither")
    (found,) = compare(tmp_path / "first", tmp_path / "second")
    assert found.study == "test/scripted"
    assert [(each.first, each.second) for each in found.verdicts] == [("holds", "not enough points")]
    (rps,) = found.figures
    assert rps.cells == 2, "the shorter study has one size of two systems"
    assert rps.ratio == pytest.approx(2, rel=0.2), "repetitions differ"
    assert found.differs["processor"] == ("old", "new")
    assert found.differs["repetitions"] == (4, 2)
    assert "kernel" not in found.differs


def test_runs_in_folders_of_other_names_are_those_with_most_points(tmp_path: Path) -> None:
    run(folder(tmp_path / "first"), scripted)
    full = StudyFolder.begin(tmp_path / "second" / "run-25m", study(), TEXT)
    run(full, twice_as_fast)
    full.close()
    StudyFolder.begin(tmp_path / "second" / "run-quick", study(), TEXT).close()
    (found,) = compare(tmp_path / "first", tmp_path / "second")
    assert [each.cells for each in found.figures] == [6]


def test_what_has_no_study_in_common_is_refused(tmp_path: Path) -> None:
    folder(tmp_path / "first")
    named = TEXT.replace("test/scripted", "test/else")
    StudyFolder.begin(tmp_path / "else", study(named), named).close()
    with pytest.raises(CouldNotRun, match="no study in common"):
        compare(tmp_path / "first", tmp_path / "else")
    with pytest.raises(CouldNotRun, match="is a run of test/scripted"):
        compare(tmp_path / "first" / "run", tmp_path / "else")
