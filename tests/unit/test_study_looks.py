"""Repeating what is open: when it is looked at, that looks share the error, what is measured next, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from scripted_study import TEXT, folder, record, study

from load_runs import simulated_run
from sojourn.engine.results import Unavailable
from sojourn.failure import CouldNotRun
from sojourn.report.study.page import write
from sojourn.study.cells import Cells
from sojourn.study.decisions import ERROR
from sojourn.study.findings import find
from sojourn.study.folder import Record, StudyFolder
from sojourn.study.load_record import is_disturbed
from sojourn.study.points import Point, Settings, shuffled
from sojourn.study.runner import Progress, SystemMissing, run
from sojourn.study.sequential_testing import LOOKS_MAX, Looks, schedule

SEQUENTIAL = TEXT.replace("repetitions = 4", "repetitions = 4\nuntil_decided = true")
FITTED = SEQUENTIAL.replace(
    "workload =",
    'model = { system = "application-workers", arrivals = "visitors", '
    'fitted = { parameter = "station.workers.demand", at = { size = "1KiB" } } }\nworkload =',
).replace('{ name = "slow" }]', '{ name = "slow", solver = "simulation", of = "fast" }]')
Rate = Callable[[Settings, int], float]


def test_looks_are_farther_and_farther_apart_and_spend_the_error_once() -> None:
    looks = schedule(5)
    assert [count for count, _ in looks] == [5, 8, 12, 18, 27, 41, 62, 93]
    assert looks[0][1] == pytest.approx(ERROR / 2)
    assert sum(error for _, error in schedule(5, 50)) <= ERROR
    assert [count for count, _ in schedule(1, 4)] == [1, 2, 3, 5]


def rate(ratio: float, spread: float, seed: int = 1) -> Rate:
    """Fast over slow, with chance; the sizes alike."""

    def figure(settings: Settings, repetition: int) -> float:
        draw = Random(f"{seed} {settings} {repetition}")
        return (ratio if settings["system"] == "fast" else 1.0) * math.exp(draw.gauss(0, spread))

    return figure


def points_of(figure: Rate) -> Callable[[Point], Record]:
    return lambda point: record(figure(point.settings, point.repetition))


def decided(
    path: Path, measure: Callable[[Point], Record], text: str = SEQUENTIAL, seconds: float | None = None
) -> tuple[StudyFolder, Progress]:
    begun = folder(path, text)
    now = 0.0

    def timed(point: Point) -> Record:
        nonlocal now
        now += 1.0
        return measure(point)

    def more(left: float | None) -> list[Point]:
        return find(begun).open_points(left)

    return begun, run(begun, timed, budget_seconds=seconds, more=more, clock=lambda: now)


def test_what_is_open_is_repeated_until_it_is_decided(tmp_path: Path) -> None:
    begun, progress = decided(tmp_path, points_of(rate(1.2, 0.1)))
    found = find(begun)
    (verdict,) = found.verdicts
    assert verdict.finding == "holds"
    assert verdict.repetitions > 4
    assert progress.repeated == found.repeated == 6 * (verdict.repetitions - 4)
    assert (found.points, found.planned, found.is_whole) == (24, 24, True)
    assert f"{found.repeated} points were measured beyond the planned repetitions" in write(begun, found).read_text()
    again, nothing = decided(tmp_path, points_of(rate(0.5, 0.1)))
    assert (nothing.measured, nothing.before) == (0, 24), "what is decided is not measured again"
    assert find(again).verdicts == found.verdicts


def test_what_is_decided_at_once_is_not_repeated(tmp_path: Path) -> None:
    begun, progress = decided(tmp_path, points_of(rate(5, 0.01)))
    assert (progress.measured, progress.repeated) == (24, 0)
    assert find(begun).verdicts[0].repetitions == 4


def test_only_the_cells_of_open_findings_are_repeated(tmp_path: Path) -> None:
    text = SEQUENTIAL + 'over = { size = "10KiB" }\n'
    begun, progress = decided(tmp_path, points_of(rate(1.1, 0.1, seed=2)), text)
    (verdict,) = find(begun).verdicts
    assert progress.repeated == 2 * (verdict.repetitions - 4) > 0


def test_the_load_that_a_model_is_fitted_to_is_repeated_with_it(tmp_path: Path) -> None:
    text = FITTED + 'over = { size = "10KiB" }\n'
    begun, progress = decided(tmp_path, points_of(rate(1.1, 0.1, seed=2)), text)
    (verdict,) = find(begun).verdicts
    assert progress.repeated == 3 * (verdict.repetitions - 4) > 0


def test_it_ends_with_the_time_or_where_no_decision_fits_into_it(tmp_path: Path) -> None:
    begun, progress = decided(tmp_path / "hopeless", points_of(rate(1.0001, 0.2)), seconds=1000)
    assert (progress.ending, progress.repeated) == ("complete", 0), "what would take longer than there is is not begun"
    (verdict,) = find(begun).verdicts
    assert verdict.finding == "not decided"
    assert verdict.seconds_to_decide is None or verdict.seconds_to_decide > 1000
    begun, progress = decided(tmp_path / "short", points_of(rate(1.2, 0.1)), seconds=24)
    assert (progress.ending, progress.measured) == ("complete", 24)
    (verdict,) = find(begun).verdicts
    assert verdict.seconds_to_decide is not None
    assert "would decide it" in str(verdict.to_decide)
    assert str(verdict.to_decide).removeprefix("about") in write(begun, find(begun)).read_text()


def test_a_look_needs_all_its_points(tmp_path: Path) -> None:
    begun, progress = decided(tmp_path, points_of(rate(5, 0.01)), seconds=20)
    assert progress.ending == "out of time"
    (verdict,) = find(begun).verdicts
    assert verdict.finding == "not enough points"
    assert "not all of the first 4 repetitions are there" in verdict.why


def test_what_repetitions_do_not_cure_is_not_repeated(tmp_path: Path) -> None:
    def limited(point: Point) -> Record:
        because = "it was late" if point.settings["system"] == "slow" else None
        return {**record(rate(1.2, 0.1)(point.settings, point.repetition)), "generator_limited": because}

    begun, progress = decided(tmp_path, limited)
    assert (progress.measured, progress.repeated) == (24, 0)
    assert find(begun).verdicts[0].to_decide is None


def test_a_lower_bound_that_suffices_does_not_keep_other_places_from_being_repeated(tmp_path: Path) -> None:
    def limited(point: Point) -> Record:
        if point.settings["system"] == "slow":
            return record(1.0)
        if point.settings["size"] == "1KiB":
            return record(3.0, generator_limited="it was late")
        return record(1.3 if point.repetition % 2 else 0.9)

    begun = folder(tmp_path)
    run(begun, limited, clock=iter(range(10_000)).__next__)
    (verdict,) = find(begun).verdicts
    assert (verdict.finding, verdict.points_to_repeat) == ("not decided", 0)
    assert verdict.repetitions_to_decide is not None


def disturbed(*at: tuple[str, int], times: int, cure: bool = True) -> Callable[[Point], Record]:
    """Others take the generator's core at points of a system and a repetition, for so many tries."""
    tries: dict[str, int] = {}

    def measure(point: Point) -> Record:
        tries[point.name] = tries.get(point.name, 0) + 1
        found = record(rate(5, 0.01)(point.settings, point.repetition))
        if (point.settings["system"], point.repetition) in at and tries[point.name] <= times:
            return {**found, "generator_limited": "it was late", "disturbed": cure}
        return found

    return measure


def test_points_at_which_others_took_the_generators_core_are_measured_again(tmp_path: Path) -> None:
    begun, progress = decided(tmp_path / "once", disturbed(("slow", 2), times=1))
    assert (progress.measured, progress.repeated) == (24 + 3, 0)
    assert find(begun).verdicts[0].finding == "holds"
    begun, progress = decided(tmp_path / "always", disturbed(("slow", 2), times=9))
    assert progress.measured == 24 + 2 * 3, "three tries, and no more"
    assert find(begun).verdicts[0].finding == "not decided"
    _, progress = decided(tmp_path / "again", disturbed(("slow", 2), times=1, cure=False))
    assert progress.measured == 24, "what its own work limits is as late the next time"


def test_what_would_have_to_be_measured_again_is_said(tmp_path: Path) -> None:
    begun = folder(tmp_path)
    run(begun, disturbed(("slow", 2), ("slow", 3), times=1), clock=iter(range(10_000)).__next__)
    (verdict,) = find(begun).verdicts
    assert (verdict.points_to_repeat, verdict.repetitions_to_decide) == (6, None)
    assert "6 points would have to be measured again" in str(verdict.to_decide)


def test_what_is_said_of_a_system_by_name_does_not_hold_without_it(tmp_path: Path) -> None:
    text = TEXT.replace('{ name = "slow" }', '{ name = "slow" }, { name = "gone" }')
    text = text.replace('right = { system = "slow" }', 'right = { system = ["slow", "gone"] }')

    def measure(point: Point) -> Record:
        if point.settings["system"] == "gone":
            raise SystemMissing(CouldNotRun("it is not installed", "install it"))
        return points_of(rate(5, 0.01))(point)

    begun = folder(tmp_path, text)
    run(begun, measure)
    (verdict,) = find(begun).verdicts
    assert verdict.finding == "not enough points"
    assert verdict.why.startswith("without gone: fast over slow or gone is ")
    faster = folder(tmp_path / "not", text.replace("least = 1", "most = 1"))
    run(faster, measure)
    assert find(faster).verdicts[0].finding == "does not hold", "one that is there is enough for that"


def test_what_a_decision_would_take_is_said_of_a_study_that_is_not_repeated(tmp_path: Path) -> None:
    begun = folder(tmp_path)
    run(begun, points_of(rate(1.1, 0.1)), clock=iter(range(10_000)).__next__)
    (verdict,) = find(begun).verdicts
    assert verdict.finding == "not decided"
    assert verdict.repetitions_to_decide is not None
    assert verdict.seconds_to_decide == pytest.approx(6 * (verdict.repetitions_to_decide - 4), rel=0.01)
    assert find(begun).as_json()["verdicts"][0]["to_decide"] == verdict.to_decide


def test_a_first_look_of_a_fixed_study_is_not_one_of_many(tmp_path: Path) -> None:
    """Its folder is refused to a run that would look again, whose first look has less of the error."""
    run(folder(tmp_path), points_of(rate(1.1, 0.1)))
    with pytest.raises(Exception, match="until_decided"):
        folder(tmp_path, SEQUENTIAL)


CHANCES = 150


def test_looking_often_errs_as_seldom_as_looking_once() -> None:
    """Of studies about nothing one in twenty is decided at last, though each is looked at eight times."""
    declared = study(SEQUENTIAL.replace("least = 1", 'least = 1\nover = { size = "1KiB" }'))
    wrong = naive = 0
    for seed in range(CHANCES):
        figure = rate(1.0, 0.1, seed)
        records = [
            {"settings": point.settings, "repetition": point.repetition, **record(figure(point.settings, repetition))}
            for repetition in range(1, schedule(4)[LOOKS_MAX - 1][0] + 1)
            for point in shuffled(declared, repetition)
            if point.settings["size"] == "1KiB"
        ]
        cells = Cells.of(records)
        looks = Looks(declared, cells)
        wrong += looks.verdict(declared.checks[0]).finding in ("holds", "does not hold")
        fixed = declared.model_copy(update={"until_decided": False})
        naive += any(
            Looks(fixed, cells.until(count)).verdict(fixed.checks[0]).finding in ("holds", "does not hold")
            for count, _ in schedule(4)
        )
    assert wrong / CHANCES <= ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / CHANCES)
    assert naive / CHANCES > 2 * ERROR, "what looking with 95 % each time would do"


@pytest.mark.parametrize(
    ("limited", "waited", "stolen", "expected"),
    [
        (True, 0.24, Unavailable(unavailable="no such file"), True),
        (True, Unavailable(unavailable="no such file"), 0.14, True),
        (True, 0.01, 0.0, False),
        (False, 0.24, 0.14, False),
    ],
)
def test_a_point_is_disturbed_if_others_took_the_core_of_a_late_generator(
    limited: bool, waited: float | Unavailable, stolen: float | Unavailable, expected: bool
) -> None:
    result = simulated_run(1, seconds=1, limited=limited)
    taken = {"core_wait_fraction": waited, "core_steal_fraction": stolen}
    generator = result.record.generator.model_copy(update=taken)
    record = result.of_requests.model_copy(update={"generator": generator})
    assert is_disturbed(replace(result, record=record)) == expected
