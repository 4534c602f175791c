"""What is said of two plans of a study that differ."""

from __future__ import annotations

import copy

import pytest
from scripted_study import TEXT, study

from sojourn.study.differences import differences

PLAN = study().plan()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("duration_seconds = 2", "duration_seconds = 3", "duration_seconds was 2.0 and is 3.0"),
        ('"10KiB", "100KiB"]', '"10KiB", "1MiB"]', "factors.size has 1MiB in addition; factors.size has lost 100KiB"),
        ('["1KiB", "10KiB", "100KiB"]', '["10KiB", "1KiB", "100KiB"]', "factors.size has a different order"),
        (
            '{ name = "slow" }',
            '{ name = "slow", architecture = "mt" }',
            "systems.slow.architecture was amped and is mt",
        ),
        (', { name = "slow" }', "", "systems.slow is no more"),
        ('"--clients", "2"', '"--clients", "3"', "workload.load has 3 in addition; workload.load has lost 2"),
    ],
)
def test_each_difference_is_named(before: str, after: str, said: str) -> None:
    assert before in TEXT
    assert "; ".join(differences(PLAN, study(TEXT.replace(before, after, 1)).plan())) == said


def test_what_an_earlier_version_had_not_is_no_difference() -> None:
    earlier = copy.deepcopy(PLAN)
    for system in earlier["systems"]:
        del system["only"]
    assert differences(earlier, PLAN) == []
    assert study().planned(earlier).plan() == PLAN
