"""Which answers of an earlier run a benchmark of assessments takes: whole ones that were asked for the same."""

from __future__ import annotations

from pathlib import Path

from benchmarks.applications import __main__ as applications
from benchmarks.kept_answers import asked_for, is_answer_to, mark
from sojourn.applications.summary import SUMMARY, ApplicationSummary


def write(folder: Path, *, complete: bool) -> None:
    summary = ApplicationSummary(
        sojourn_version="0", started_at="2026-11-25T10:00:00", complete=complete, log_name="a.log",
        target="http://127.0.0.1:8000", log_requests=10, covered_fraction=1.0, peak_requests_per_second=5.0,
        required_requests_per_second=5.0, endpoints=[], left_out=[], tiers=[],
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / SUMMARY).write_text(summary.model_dump_json())


def test_an_answer_of_another_effort_or_revision_is_not_taken(tmp_path: Path) -> None:
    quick, normal = asked_for("quick"), asked_for("normal")
    folder = tmp_path / "lock"
    mark(folder, quick)
    assert not folder.exists(), "what did not run has no answer"
    write(folder, complete=True)
    assert not is_answer_to(quick, folder)
    mark(folder, quick)
    assert is_answer_to(quick, folder)
    assert not is_answer_to(normal, folder)
    assert not is_answer_to({**quick, "revision": "another"}, folder)


def test_an_assessment_that_ended_early_is_no_answer(tmp_path: Path) -> None:
    quick = asked_for("quick")
    folder = tmp_path / "lock"
    assert applications._kept(folder, quick) is None
    write(folder, complete=True)
    assert applications._kept(folder, quick) is None, "nobody knows what it was asked for"
    mark(folder, quick)
    assert applications._kept(folder, quick) is not None
    assert applications._kept(folder, asked_for("normal")) is None
    write(folder, complete=False)
    assert applications._kept(folder, quick) is None
