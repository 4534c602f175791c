"""What decides an assessment's exit code: objectives, abandoned requests, a baseline; JUnit's file and Markdown."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from sojourn.applications import baseline, verdicts
from sojourn.applications.summary import ApplicationSummary, Knee, ObjectiveAnswer, StepFigures, TierDescription
from sojourn.failure import CouldNotRun
from sojourn.report.application.junit import junit
from sojourn.report.application.markdown import markdown
from sojourn.report.application.page import page, write_report
from sojourn.results.records import Interval
from sojourn.results.run_folder import RunFolder
from sojourn.tiers.watch import TierUse


def summary(low: float, estimate: float, high: float, *, is_lower_bound: bool = False) -> ApplicationSummary:
    return ApplicationSummary(
        sojourn_version="0", started_at="2026-11-25T10:00:00", complete=True, log_name="a.log",
        target="http://127.0.0.1:8000", log_requests=10, covered_fraction=1.0, peak_requests_per_second=5.0,
        required_requests_per_second=5.0, endpoints=[], left_out=[], tiers=[], abandoned_fraction=0.0,
        knee=Knee(
            requests_per_second=Interval(estimate=estimate, low=low, high=high),
            is_lower_bound=is_lower_bound,
            stopped_because="",
        ),
    )  # fmt: skip


def fell(now: ApplicationSummary, before: ApplicationSummary, allowed: float = 0.0) -> bool | None:
    (change,) = baseline.compare(now, before, "old", allowed).changes
    return change.fell


def test_a_capacity_fell_where_no_pair_of_values_within_the_intervals_denies_it() -> None:
    before = summary(95, 100, 105)
    assert fell(summary(80, 85, 90), before)
    assert not fell(summary(80, 85, 96), before)
    assert not fell(summary(110, 115, 120), before)
    assert not fell(summary(80, 85, 90), before, allowed=0.1)
    (change,) = baseline.compare(summary(80, 85, 90), before, "old", 0.0).changes
    assert change.change == pytest.approx(-0.15)
    assert change.change_low == pytest.approx(80 / 105 - 1)
    assert change.change_high == pytest.approx(90 / 95 - 1)
    assert "it fell" in baseline.in_words(change)


def test_a_load_that_did_not_reach_its_end_says_what_it_can() -> None:
    bound = summary(100, 100, 100, is_lower_bound=True)
    assert fell(summary(80, 85, 90), bound), "it took 100 then, and at most 90 now"
    assert fell(bound, summary(95, 98, 99)) is False, "it takes at least as much"
    assert fell(bound, summary(150, 155, 160)) is None
    assert fell(bound, bound) is None
    (change,) = baseline.compare(bound, bound, "old", 0.0).changes
    assert "says nothing" in baseline.in_words(change)


def test_a_baseline_is_a_folder_or_its_file(tmp_path: Path) -> None:
    made = summary(95, 100, 105)
    (tmp_path / "application.json").write_text(made.model_dump_json())
    assert baseline.read(tmp_path) == made
    assert baseline.read(tmp_path / "application.json") == made
    for bad in (tmp_path / "none", tmp_path / "bad.json"):
        (tmp_path / "bad.json").write_text("{}")
        with pytest.raises(CouldNotRun, match="--baseline"):
            baseline.read(bad)


def test_verdicts_become_an_exit_code_junit_and_markdown() -> None:
    found = summary(80, 85, 90)
    held = Interval(estimate=60, low=55, high=65)
    found.objectives = [
        ObjectiveAnswer(objective="p95 < 1s", capacity=held, is_lower_bound=False, holds=True),
        ObjectiveAnswer(objective="GET /a|b: p95 < 1ms", capacity=None, is_lower_bound=False, holds=False),
    ]
    found.abandoned_fraction = 0.02
    found.comparison = baseline.compare(found, summary(95, 100, 105, is_lower_bound=True), "old", 0.0)
    found.verdicts = verdicts.of(found, 0.01)
    assert found.has_failed
    assert [each.passed for each in found.verdicts] == [True, True, False, False, False]
    suite = ElementTree.fromstring(junit(found))[0]
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) == ("5", "3", "0")
    assert len(suite.findall("testcase/failure")) == 3
    text = markdown(found)
    assert text.startswith("### ❌")
    assert "GET /a\\|b" in text
    assert text.count("❌") == 4
    found.objectives, found.abandoned_fraction, found.comparison = [], None, None
    found.verdicts = verdicts.of(found, 0.01)
    assert not found.has_failed
    assert markdown(found).startswith("### ✅")


def test_an_objective_that_is_not_decided_is_skipped_in_junit_and_the_exit_code_is_1() -> None:
    found = summary(80, 85, 90)
    held = Interval(estimate=60, low=55, high=65)
    found.objectives = [ObjectiveAnswer(objective="p95 < 1s", capacity=held, is_lower_bound=True, holds=None)]
    found.verdicts = verdicts.of(found, 0.01)
    assert found.verdicts[1].because.startswith("not decided")
    assert found.has_failed
    suite = ElementTree.fromstring(junit(found))[0]
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")
    text = markdown(found)
    assert text.startswith("### ❌")
    assert "❔" in text
    unknown = ObjectiveAnswer(objective="p95 < 1s", capacity=None, is_lower_bound=False, holds=None)
    assert "at no load that was measured" in verdicts.objective_in_words(unknown, found)


def step(kind: str, rate: float, failed_because: str | None = None) -> StepFigures:
    return StepFigures(
        kind=kind, offered_requests_per_second=rate, requests_per_second=rate, failed_fraction=0.0,
        response_time_mean_seconds=0.01, response_time_p95_seconds=0.02, in_system=1.0, endpoints=[],
        tiers={"app": TierUse(cpu_cores=0.5)}, failed_because=failed_because,
    )  # fmt: skip


def test_a_low_load_after_a_collapse_is_no_step_of_the_rising_load() -> None:
    found = summary(95, 100, 105)
    found.required_requests_per_second = 30.0
    found.tiers = [TierDescription(name="app", declared="port:8000")]
    found.steps = [step("climb", 80.0), step("recovery", 31.0, "still beyond"), step("recovery", 30.0)]
    drawn = page(found)
    assert "80.0" in drawn
    assert "at 30.0/s" not in drawn
    assert "still beyond" not in drawn
    assert "At 80 requests/s" in markdown(found)


def test_a_summary_of_another_version_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "application.json").write_text('{"from": "later"}')
    with pytest.raises(CouldNotRun, match="does not fit this version"):
        write_report(RunFolder(tmp_path))


def test_what_xml_cannot_hold_does_not_break_it() -> None:
    found = summary(80, 85, 90)
    found.complete, found.incomplete_because = False, "a \x00 <byte> & \x1b"
    found.verdicts = verdicts.of(found, 0.01)
    assert ElementTree.fromstring(junit(found)) is not None
