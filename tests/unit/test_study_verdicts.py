"""What checks say of measured cells: intervals, ratios within repetitions, verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest
from scripted_study import BLOCK, FACTOR, SIZE, TEXT, record, study

from sojourn.study.cells import Cells
from sojourn.study.checks import judge
from sojourn.study.declarations import Check, Crossing, FixedPart, Monotone, Ratio, Value, Within
from sojourn.study.places import position
from sojourn.study.points import Settings, cells, in_order, matches

Rate = Callable[[Settings, int], float | None]


def measured(rate: Rate, text: str = TEXT) -> Cells:
    points = in_order(study(text))
    return Cells.of(
        {"settings": point.settings, "repetition": point.repetition, **record(rate(point.settings, point.repetition))}
        for point in points
    )


def steady(settings: Settings, repetition: int) -> float:
    return FACTOR[str(settings["system"])] * SIZE[str(settings["size"])] * BLOCK[repetition - 1]


def noisy(settings: Settings, repetition: int) -> float:
    return 100 * (1 + (0.4 if (repetition % 2 == 0) == (settings["system"] == "fast") else 0.0))


def ratio(least: float | None, most: float | None = None, **changes: object) -> Ratio:
    sides = {"left": {"system": "fast"}, "right": {"system": "slow"}}
    return Ratio.model_validate({"says": "", "metric": "rps", **sides, "least": least, "most": most, **changes})


def monotone(direction: str, **over: Value) -> Monotone:
    values = {"kind": "monotone", "says": "", "metric": "rps", "along": "size", "direction": direction, "over": over}
    return Monotone.model_validate(values)


def crossing(**changes: object) -> Crossing:
    sides = {"left": {"system": "fast"}, "right": {"system": "slow"}, "along": "size"}
    return Crossing.model_validate({"kind": "crossing", "says": "", "metric": "rps", **sides, **changes})


def crosses(settings: Settings, repetition: int) -> float:
    by_size = {"1KiB": 0.5, "10KiB": 1.5, "100KiB": 3.0}
    noise = 1 + 0.01 * math.sin(repetition)
    return noise * (by_size[str(settings["size"])] if settings["system"] == "fast" else 1.0)


@pytest.mark.parametrize(
    ("check", "rate", "finding", "why"),
    [
        (ratio(1), steady, "holds", "fast over slow is as expected at each of 3 places, from 2 (2 to 2) at size"),
        (ratio(1, places="together"), steady, "holds", "fast over slow is 2 (2 to 2); expected more than 1"),
        (ratio(None, 1), steady, "does not hold", "expected less than 1"),
        (ratio(1.9, 2.1), steady, "holds", "1.9 to 2.1"),
        (ratio(2.5, 3), steady, "does not hold", "2.5 to 3"),
        (ratio(1, over={"size": "<= 10KiB"}), steady, "holds", "each of 2 places"),
        (ratio(1), noisy, "not decided", "1 ("),
        (ratio(1, left={"size": "100KiB"}, right={"size": "1KiB"}), steady, "does not hold", "0.2"),
        (monotone("falls"), steady, "holds", "the change is as expected at each of 6 steps"),
        (monotone("rises"), steady, "does not hold", "at size 1KiB→10KiB"),
        (monotone("falls", system="slow"), steady, "holds", "0.2"),
        (crossing(), crosses, "holds", "expected less than 1 up to 1KiB and more from 100KiB on"),
        (crossing(before="10KiB"), crosses, "holds", "as expected at each of 3 places"),
        (crossing(after="10KiB"), crosses, "does not hold", "1.5 ("),
        (crossing(), steady, "does not hold", "at size 1KiB"),
    ],
)
def test_verdicts(check: Check, rate: Rate, finding: str, why: str) -> None:
    verdict = judge(check, measured(rate))
    assert verdict.finding == finding, verdict.why
    assert why in verdict.why


def test_one_repetition_decides_nothing() -> None:
    verdict = judge(ratio(1), measured(steady, TEXT.replace("repetitions = 4", "repetitions = 1")))
    assert (verdict.finding, "no interval" in verdict.why) == ("not enough points", True)


def untrusted_because(where: str, **changes: str) -> Cells:
    """With something amiss in all points of a system."""
    points = in_order(study())
    return Cells.of(
        {
            "settings": each.settings,
            "repetition": each.repetition,
            **record(steady(each.settings, each.repetition)),
            **(changes if each.settings["system"] == where else {}),
        }
        for each in points
    )


def test_a_failed_point_decides_nothing() -> None:
    verdict = judge(ratio(1), untrusted_because("slow", failed="the server ended by itself"))
    assert verdict.finding == "not decided"
    assert "4 of 4 points failed: the server ended by itself" in verdict.why


def test_a_doubtful_point_decides_nothing() -> None:
    verdict = judge(ratio(1), untrusted_because("slow", doubtful="other work"))
    assert verdict.finding == "not decided"
    assert "4 of 4 points are doubtful: other work" in verdict.why


@pytest.mark.parametrize(
    ("limited", "check", "finding", "why"),
    [
        ("fast", ratio(1), "holds", "and more without a generator as the limit"),
        ("fast", ratio(None, 1), "does not hold", "and more without"),
        ("fast", ratio(None, 3), "not decided", "the generator was the limit in 4 of 4 points: it was late"),
        ("slow", ratio(None, 3), "holds", "and less without a generator as the limit"),
        ("slow", ratio(3), "does not hold", "and less without"),
        ("slow", ratio(1), "not decided", "the generator was the limit in 4 of 4 points: it was late"),
        ("fast", ratio(1, 3), "not decided", "the generator was the limit"),
    ],
)
def test_where_the_generator_was_the_limit_a_rate_is_at_least_what_was_measured(
    limited: str, check: Check, finding: str, why: str
) -> None:
    verdict = judge(check, untrusted_because(limited, generator_limited="it was late"))
    assert verdict.finding == finding, verdict.why
    assert why in verdict.why


def test_an_interval_is_students_on_logarithms() -> None:
    cells = measured(steady)
    found = cells.where({"system": "fast", "size": "1KiB"})[0].estimate("rps")
    assert found is not None
    logs = [math.log(1000 * block) for block in BLOCK]
    mean = sum(logs) / 4
    half = 3.18245 * math.sqrt(sum((each - mean) ** 2 for each in logs) / 3 / 4)
    assert found.value == pytest.approx(math.exp(mean))
    assert (found.low, found.high) == pytest.approx((math.exp(mean - half), math.exp(mean + half)), rel=1e-4)


LISTED = TEXT.replace("factors = {", "listed = [{ load = 0.2, rate = 8 }, { load = 0.9, rate = 35 }]\nfactors = {", 1)


def test_listed_factors_go_together() -> None:
    found = cells(study(LISTED))
    assert len(found) == 2 * 2 * 3, "rows are crossed with systems and factors, not with each other"
    assert {(each["load"], each["rate"]) for each in found} == {(0.2, 8), (0.9, 35)}
    assert list(found[0]) == ["system", "load", "rate", "size"]
    records = [
        {
            "settings": point.settings,
            "repetition": point.repetition,
            **record(float(point.settings["rate"]) * (1 + 0.001 * point.repetition)),
        }
        for point in in_order(study(LISTED))
    ]
    heavier = ratio(4, 5, left={"load": 0.9}, right={"load": 0.2})
    verdict = judge(heavier, Cells.of(records, study(LISTED).linked))
    assert verdict.finding == "holds", verdict.why
    assert "each of 6 places" in verdict.why, "who names the load has named the rate; systems and sizes are matched"


def within(least: float | None, most: float | None = None, **over: Value) -> Within:
    values = {"kind": "within", "says": "", "metric": "rps", "over": over, "least": least, "most": most}
    return Within.model_validate(values)


@pytest.mark.parametrize(
    ("check", "finding"),
    [
        (within(100, None, system="slow", size="1KiB"), "holds"),
        (within(None, 100, system="slow", size="1KiB"), "does not hold"),
        (within(500, 600, system="slow", size="1KiB"), "not decided"),
        (within(50), "holds"),
        (within(250), "does not hold"),
        (within(150), "not decided"),
        (within(100, None, size="5KiB"), "not enough points"),
    ],
)
def test_a_figure_itself_may_be_bounded(check: Check, finding: str) -> None:
    verdict = judge(check, measured(steady), study().figure)
    assert verdict.finding == finding, verdict.why


def test_two_metrics_of_the_same_cells_may_be_compared() -> None:
    records = [
        {"settings": point.settings, "repetition": point.repetition, **record(100.0)} for point in in_order(study())
    ]
    for each in records:
        each["metrics"] = {"rps": 100.0, "p95": 50.0 + each["repetition"] / 100}
    compared = Ratio(says="", metric="rps", right_metric="p95", least=1.9, most=2.1)
    verdict = judge(compared, Cells.of(records))
    assert verdict.finding == "holds", verdict.why
    assert "rps over p95 is as expected at each of 6 places, from 2 (" in verdict.why


def test_what_does_not_hold_is_explained_by_checks_of_its_own() -> None:
    so = {"kind": "within", "says": "slow is slow", "metric": "rps", "over": {"system": "slow"}, "most": 1000}
    not_so = {**so, "says": "slow has stopped", "most": 1}
    explained = ratio(None, 1, because=[so, not_so])
    verdict = judge(explained, measured(steady), study().figure)
    assert verdict.finding == "does not hold"
    first, second = verdict.because
    assert first.startswith("why: slow is slow: rps: it is "), first
    assert second.startswith("not so: slow has stopped: rps: it is "), second
    assert verdict.as_json()["because"] == verdict.because
    assert judge(ratio(1, because=[so]), measured(steady)).because == [], "what holds needs no explanation"
    assert judge(explained, measured(steady), tried="tried").because == [], "and what was tried only has none yet"


def test_the_metrics_and_factors_of_explanations_are_the_studys() -> None:
    because = 'because = [{ says = "", metric = "p95", left = { size = "1KiB" }, right = { size = "10KiB" } }]'
    assert "p95" in study(f"{TEXT}{because}\n").metrics()
    with pytest.raises(ValueError, match="there is no factor colour"):
        study(TEXT + because.replace("right = { size", "right = { colour") + "\n")


def fixed_part(**bounds: Value) -> FixedPart:
    return FixedPart.model_validate({"kind": "fixed part", "says": "", "metric": "rps", "along": "size", **bounds})


@pytest.mark.parametrize(
    ("bounds", "finding"),
    [
        ({"least": "15KiB"}, "holds"),
        ({"least": "15KiB", "most": "25KiB"}, "holds"),
        ({"most": "15KiB"}, "does not hold"),
        ({"least": 20480}, "not decided"),
    ],
)
def test_the_fixed_part_of_a_line_is_worth_so_much_of_the_factor(bounds: dict[str, Value], finding: str) -> None:
    def line(settings: Settings, repetition: int) -> float:
        kibibytes = float(str(settings["size"]).removesuffix("KiB"))
        return BLOCK[repetition - 1] * (2.0 + 0.1 * kibibytes) + 1e-3 * math.sin(repetition)

    verdict = judge(fixed_part(**bounds), measured(line), study().figure)
    assert verdict.finding == finding, verdict.why
    assert "the size that costs as much is 20 KiB (" in verdict.why
    flat = judge(fixed_part(**bounds), measured(lambda settings, repetition: 1.0), study().figure)
    assert flat.finding == "not enough points"
    once = judge(fixed_part(**bounds), measured(lambda *at: 1.0 if at[1] == 1 else line(*at)), study().figure)
    assert once.finding == "not enough points", "a repetition that disagrees is not left out"


def test_a_system_may_be_measured_in_some_cells_only() -> None:
    text = TEXT.replace('{ name = "slow" }', '{ name = "slow", only = { size = "<= 10KiB" } }')
    found = cells(study(text))
    assert [each["size"] for each in found if each["system"] == "fast"] == ["1KiB", "10KiB", "100KiB"]
    assert [each["size"] for each in found if each["system"] == "slow"] == ["1KiB", "10KiB"]
    verdict = judge(ratio(1), measured(steady, text))
    assert "each of 2 places" in verdict.why
    with pytest.raises(ValueError, match="there is no factor colour"):
        study(TEXT.replace('{ name = "slow" }', '{ name = "slow", only = { colour = "red" } }'))


def test_a_figure_of_nought_has_no_ratio_but_may_be_bounded() -> None:
    cells = measured(lambda settings, repetition: 0.0)
    verdict = judge(ratio(1), cells)
    assert verdict.finding == "not decided"
    assert "is 0, which has no ratio" in verdict.why
    assert judge(within(None, 1), cells).finding == "holds"


def test_bounds_are_compared_as_quantities() -> None:
    assert matches({"size": "1KiB"}, {"size": "<= 1024B"})
    assert not matches({"size": "10KiB"}, {"size": "<2KiB"})
    assert matches({"clients": 50}, {"clients": ["10", 50]})
    assert matches({"clients": 50}, {"clients": ">= 50"})


def one_off(settings: Settings, repetition: int) -> float:
    """Everywhere twice as fast, but for one size, at which it is slower."""
    value = 100.0 * (1 + 0.01 * math.sin(3 * repetition + len(str(settings["size"]))))
    if settings["system"] == "slow":
        return value
    return value * (0.8 if settings["size"] == "10KiB" else 4.0)


@pytest.mark.parametrize(
    ("check", "finding", "why"),
    [
        (ratio(1), "does not hold", "at size 10KiB, one of 3 places"),
        (ratio(1, places="together"), "holds", "2.34 ("),
        (ratio(1, over={"size": ["1KiB", "100KiB"]}), "holds", "each of 2 places"),
        (within(90), "does not hold", "at system fast, size 10KiB, one of 6 places"),
        (within(90).model_copy(update={"places": "together"}), "holds", "expected more than 90"),
    ],
)
def test_what_is_said_of_each_place_is_not_said_of_their_mean(check: Check, finding: str, why: str) -> None:
    verdict = judge(check, measured(one_off), study().figure)
    assert verdict.finding == finding, verdict.why
    assert why in verdict.why


def test_each_of_several_cells_of_a_side_is_compared() -> None:
    sizes = ratio(None, 0.5, left={"size": "> 1KiB"}, right={"size": "1KiB"}, over={"system": "fast"})
    verdict = judge(sizes, measured(steady))
    assert verdict.finding == "does not hold", "a mean of 0.8 and 0.2 would be below a half"
    assert "0.8 (0.8 to 0.8 at 98.75 %) at size 10KiB, one of 2 places" in verdict.why


def test_the_mean_may_fail_what_no_place_fails_by_itself() -> None:
    def balanced(settings: Settings, repetition: int) -> float:
        # What a repetition adds at one size it takes from the others.
        turn = 2 * math.pi * list(SIZE).index(str(settings["size"])) / 3
        slower = -0.1 + 0.3 * math.cos(turn + 2 * repetition) + 0.001 * repetition
        return 100 * (math.exp(slower) if settings["system"] == "fast" else 1.0)

    verdict = judge(ratio(1), measured(balanced))
    assert verdict.finding == "does not hold"
    assert "in the mean over 3 places" in verdict.why


CHANCES = 400
ALLOWED = 0.05 + 3 * math.sqrt(0.05 * 0.95 / CHANCES)
"""Of 5 %, by three standard errors of the share."""


@pytest.mark.parametrize(
    "check",
    [
        ratio(1),
        ratio(1, places="together"),
        ratio(None, 1),
        within(100),
        monotone("rises"),
        monotone("falls", system="slow"),
        crossing(),
        monotone("rises").model_copy(update={"slack": 0.02}),
    ],
    ids=["each", "together", "below", "within", "rises", "one falls", "crossing", "slack"],
)
def test_noise_about_a_bound_decides_as_seldom_as_it_may(check: Check) -> None:
    """Figures that are all alike but for chance: one in twenty may be found to hold, and one in twenty not to."""
    found = []
    for seed in range(CHANCES):
        draw = Random(seed)
        cells = measured(lambda settings, repetition: 100 * math.exp(draw.gauss(0, 0.05)))  # noqa: B023
        found.append(judge(check, cells, study().figure).finding)
    assert found.count("holds") / CHANCES <= ALLOWED
    assert found.count("does not hold") / CHANCES <= ALLOWED


def test_repetitions_above_nought_do_not_stand_for_those_that_are_not() -> None:
    def faults(settings: Settings, repetition: int) -> float:
        return 3.0 if settings["system"] == "slow" else 5.0 * (repetition % 2)

    verdict = judge(ratio(1), measured(faults))
    assert verdict.finding == "not decided"
    assert "is 0, which has no ratio" in verdict.why


def test_repetitions_in_which_something_was_answered_do_not_stand_for_the_others() -> None:
    why = "no request was answered in the measured time"

    def answered(settings: Settings, repetition: int) -> float | None:
        return None if (settings["system"], repetition) == ("slow", 2) else steady(settings, repetition)

    points = measured(answered)
    assert judge(ratio(1), points).finding == "holds", "a program has its reasons to say nothing"
    for cell in points.where({"system": "slow"}):
        cell.records[2]["unavailable"] = {"rps": why}
    verdict = judge(ratio(1), points)
    assert verdict.finding == "not decided"
    assert f"rps could not be measured in 1 of 4 points: {why}" in verdict.why


def test_names_have_no_order_to_rise_or_cross_along() -> None:
    points = measured(steady)
    for check in (
        monotone("falls").model_copy(update={"along": "system"}),
        crossing(left={"size": "1KiB"}, right={"size": "10KiB"}, along="system"),
    ):
        verdict = judge(check, points)
        assert (verdict.finding, verdict.why) == (
            "not enough points",
            "system has values that are no numbers: fast, slow",
        )
    assert [position(each) for each in ("0ms", "0.0 s", "10ms", "none")] == [0.0, 0.0, 0.01, None]
