"""How much of a study is measured: tried, fitted to a time, and a time shared out."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_study import TEXT, scripted, study

from sojourn.report.study.page import write
from sojourn.study import catalogue, scale, shares
from sojourn.study.cells import Cells
from sojourn.study.checks import question
from sojourn.study.declarations import FixedPart
from sojourn.study.document import Study
from sojourn.study.findings import find
from sojourn.study.folder import StudyFolder, nothing
from sojourn.study.points import cells, in_order
from sojourn.study.runner import run


def test_what_was_only_tried_gets_no_verdict(tmp_path: Path) -> None:
    short = study().shortened()
    begun = StudyFolder.begin(tmp_path / "run", short, TEXT)
    run(begun, scripted)
    begun.close()
    found = find(StudyFolder.open(tmp_path / "run"))
    assert found.study.tried
    assert found.given_up == ["2 of 4 repetitions", "1 of 3 values of size"]
    (verdict,) = found.verdicts
    assert verdict.finding == "not enough points"
    assert "fast over slow is 1.98" in verdict.why


def test_a_study_fits_a_time_and_says_what_it_gives_up(tmp_path: Path) -> None:
    whole = study()
    assert scale.fitting(whole, 1000) == whole
    assert scale.given_up(whole, whole) == []
    least = scale.floor(whole)
    assert (least.repetitions, least.duration_seconds, least.factors) == (3, 2, {"size": ["1KiB"]})
    assert scale.fitting(whole, 0) == least
    takes = [scale.whole_seconds(scale.fitting(whole, seconds)) for seconds in (30, 40, 50, 60)]
    assert takes == sorted(takes)
    assert all(took <= seconds for took, seconds in zip(takes, (30, 40, 50, 60), strict=True))
    begun = StudyFolder.begin(tmp_path / "run", least, TEXT)
    run(begun, scripted)
    begun.close()
    found = find(StudyFolder.open(tmp_path / "run"))
    assert [each.finding for each in found.verdicts] == ["holds"], "it is long enough to decide"
    assert found.given_up == ["3 of 4 repetitions", "1 of 3 values of size"]
    assert "1 of 3 values of size" in write(begun, found).read_text()


def test_values_that_checks_name_are_given_up_last() -> None:
    systems = ", ".join(f'{{ name = "{name}" }}' for name in ("fast", "b", "c", "d", "slow", "f"))
    text = TEXT.replace('{ name = "fast" }, { name = "slow" }', systems)
    text = text.replace("quick = { rep", 'quick = { systems = ["fast", "f"], rep')
    text += 'over = { size = ["10KiB", "<= 20KiB"] }'
    whole = study(text)
    some = scale.fitting(whole, 0.4 * scale.whole_seconds(whole))
    names = [each.name for each in some.systems]
    assert len(names) < 6
    assert {"fast", "slow", "f"} <= set(names), "what --quick has, and what the check names"
    assert "10KiB" in some.factors["size"]


def test_rows_that_checks_name_are_given_up_last() -> None:
    rows = ", ".join(f'{{ line = "{line}", rate = {rate} }}' for rate, line in enumerate("abcde"))
    text = TEXT.replace("factors = { size", f"listed = [{rows}]\nfactors = {{ size", 1)
    text = text.replace("quick = {", 'quick = { listed = [{ line = "a", rate = 0 }],')
    whole = study(text + 'over = { line = ["b", "d"] }')
    some = scale.fitting(whole, 0.3 * scale.whole_seconds(whole))
    assert [row["line"] for row in some.listed] == ["a", "b", "d"]


def test_what_no_value_fits_into_lengthens_points() -> None:
    whole = study(TEXT.replace("seconds = 2", "seconds = 50").replace("quick = {", "quick = { duration_seconds = 1,"))
    for seconds in (60, 100, 300, 700):
        some = scale.fitting(whole, seconds)
        assert 0.9 * seconds < scale.whole_seconds(some) <= seconds


def test_values_are_dropped_evenly() -> None:
    values = [1, 2, 4, 8, 16, 32, 64]
    assert scale.evenly(values, 3, [1, 64]) == [1, 8, 64]
    assert scale.evenly(values, 5, [1, 64]) == [1, 2, 8, 16, 64]
    assert scale.evenly(values, 2, [4, 8]) == [4, 8]
    assert scale.evenly(values, 9, []) == values


def test_a_time_is_shared_out() -> None:
    """Who needs less leaves the rest to the others; where there is too little, the longest are left out."""
    small = study(TEXT.replace("repetitions = 4", "repetitions = 1"))
    studies = [small, study(), study()]
    wholes = [scale.whole_seconds(each) for each in studies]
    plenty = shares.shared_out(studies, 10 * sum(wholes))
    assert [each.seconds for each in plenty] == pytest.approx(wholes)
    assert not any(each.left_out for each in plenty)
    some = shares.shared_out(studies, sum(wholes) - 40)
    assert some[0].seconds == pytest.approx(wholes[0])
    assert some[1].seconds == some[2].seconds == pytest.approx(wholes[1] - 20)
    assert all(each.needs_seconds <= each.seconds for each in some)
    floors = [scale.whole_seconds(scale.floor(each)) for each in studies]
    little = shares.shared_out(studies, floors[0] + floors[1])
    assert [each.seconds for each in little] == pytest.approx([floors[0], floors[1], 0])
    (least, *others) = shares.shared_out(studies, 1.0)
    assert least.seconds == pytest.approx(floors[0])
    assert not any(each.seconds for each in others)


def test_what_checks_name_comes_before_more_of_the_rest() -> None:
    rises = '[[checks]]\nkind = "monotone"\nsays = ""\nmetric = "rps"\nalong = "size"\ndirection = "falls"\n'
    whole = study(TEXT + rises)
    assert not can_be_asked(scale.floor(whole)), "one size has no steps"
    named = scale.all_named(whole)
    assert named.factors == {"size": ["1KiB", "100KiB"]}, "the ends"
    assert (named.repetitions, named.duration_seconds) == (3, 2)
    asked, floor = scale.whole_seconds(named), scale.whole_seconds(scale.floor(whole))
    (share,) = shares.shared_out([whole], asked)
    assert can_be_asked(share.study)
    first, second = shares.shared_out([whole, whole], asked + floor)
    assert first.seconds == second.seconds == pytest.approx((asked + floor) / 2), "too little for both"


def can_be_asked(study: Study) -> bool:
    """Whether the study measures what all its checks are about; lines through points are another matter."""
    there = Cells.of(({"settings": each, "repetition": 1, **nothing("")} for each in cells(study)), study.linked)
    return all(question(check, there) is not None for check in study.checks if not isinstance(check, FixedPart))


@pytest.mark.parametrize("study", [pytest.param(each, id=each.name) for _, each in catalogue.studies()])
def test_all_checks_of_every_study_can_be_asked_of_what_they_name(study: Study) -> None:
    named = scale.all_named(study)
    assert can_be_asked(named)
    assert named.repetitions == min(study.repetitions, scale.REPETITIONS_MIN)
    for factor in study.names():
        assert set(study.checked_values(factor)) <= set(named.values(factor))


def test_quick_replaces_what_it_names() -> None:
    short = study().shortened()
    assert (short.repetitions, short.factors, len(short.systems)) == (2, {"size": ["1KiB"]}, 2)
    assert len(in_order(short)) == 4
