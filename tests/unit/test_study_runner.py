"""The study runner with a scripted system: order, resuming, budgets, what a folder holds."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path

import pytest
from scripted_study import TEXT, folder, record, scripted, study

from sojourn import interrupts
from sojourn.failure import CouldNotRun
from sojourn.report.study.index import write_index
from sojourn.report.study.page import write
from sojourn.study import document, runner
from sojourn.study.cells import Cells
from sojourn.study.differences import differences
from sojourn.study.document import Study
from sojourn.study.findings import find
from sojourn.study.fits import fitted
from sojourn.study.folder import Record, StudyFolder
from sojourn.study.points import Point, in_order
from sojourn.study.runner import Progress, SystemMissing, run
from sojourn.study.sites import site


def test_every_cell_is_measured_once_per_repetition_in_an_order_of_the_seed() -> None:
    points = in_order(study())
    assert len({(point.cell, point.repetition) for point in points}) == len(points) == 24
    assert [point.repetition for point in points] == sorted(point.repetition for point in points)
    orders = [[point.cell for point in points if point.repetition == each] for each in (1, 2, 3, 4)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len({tuple(order) for order in orders}) > 1, "each repetition has an order of its own"
    assert points == in_order(study())
    other = in_order(study("seed = 2\n" + TEXT))
    assert [point.cell for point in other] != [point.cell for point in points]


class Stopped(BaseException):
    """Stands for the end of the process in the middle of a point."""


def test_what_was_measured_before_a_kill_is_not_measured_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def dies(point: Point) -> Record:
        if len(asked) == 7:
            raise Stopped
        asked.append(point.name)
        return scripted(point)

    with pytest.raises(Stopped):
        run(folder(tmp_path), dies)
    assert len(folder(tmp_path).records()) == 7

    def goes_on(point: Point) -> Record:
        asked.append(point.name)
        return scripted(point)

    progress = run(folder(tmp_path), goes_on)
    assert (progress.ending, progress.before, progress.measured) == ("complete", 7, 17)
    assert asked == [point.name for point in in_order(study())], "each point once, in the order of the first progress"


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    def interrupted(point: Point) -> Record:
        if point.repetition == 2:
            raise KeyboardInterrupt
        return scripted(point)

    progress = run(folder(tmp_path), interrupted)
    assert (progress.ending, progress.measured) == ("interrupted", 6)
    assert len(folder(tmp_path).records()) == 6


def test_ctrl_c_while_another_program_ended_keeps_the_next_point_from_starting(tmp_path: Path) -> None:
    asked: list[str] = []

    def measured(point: Point) -> Record:
        asked.append(point.name)
        with interrupts.handed_on() as handed:
            # As of a program that has printed its whole result before it heard.
            handed.hear()
            handed.not_heard()
        raise SystemMissing(CouldNotRun("nothing of it is kept"))

    progress = run(folder(tmp_path), measured)
    assert (progress.ending, len(asked)) == ("interrupted", 1)


def test_one_points_trouble_is_not_the_studys(tmp_path: Path) -> None:
    def troubled(point: Point) -> Record:
        if point.repetition == 2:
            raise CouldNotRun("ffmpeg is not installed", "install it")
        return scripted(point)

    begun = folder(tmp_path)
    progress = run(begun, troubled)
    assert (progress.ending, progress.measured, progress.failed) == ("complete", 18, 6)
    found = find(begun)
    assert found.failed == {"ffmpeg is not installed; install it": 6}
    assert [each.finding for each in found.verdicts] == ["not decided"]
    again = run(folder(tmp_path), scripted)
    assert (again.before, again.measured) == (18, 6), "what failed is tried again"
    assert [each.finding for each in find(folder(tmp_path)).verdicts] == ["holds"]


def test_a_changed_study_is_refused_and_changed_checks_are_not(tmp_path: Path) -> None:
    run(folder(tmp_path), scripted)
    with pytest.raises(CouldNotRun, match=r"another study: duration_seconds was 2\.0 and is 3\.0") as caught:
        folder(tmp_path, TEXT.replace("duration_seconds = 2", "duration_seconds = 3"))
    assert "another --output" in (caught.value.hint or "")
    changed = folder(tmp_path, TEXT.replace("fast is faster", "it is faster by far").replace("least = 1", "least = 3"))
    assert [verdict.finding for verdict in find(changed).verdicts] == ["does not hold"]


def test_the_budget_ends_before_a_point_that_would_not_fit(tmp_path: Path) -> None:
    now = 0.0
    left: list[float] = []

    def slow(point: Point) -> Record:
        nonlocal now
        now += 5.0
        return scripted(point)

    def told(progress: Progress, point: Point, seconds: float) -> None:
        left.append(seconds)

    progress = run(folder(tmp_path), slow, budget_seconds=22.0, told=told, clock=lambda: now)
    assert (progress.ending, progress.measured) == ("out of time", 4)
    assert left[0] == pytest.approx(24 * (3 + runner.OVERHEAD_SECONDS["workload"]))
    assert left[1:] == pytest.approx([5.0 * points for points in (23, 22, 21)]), "learned from what points took"


def test_a_study_may_say_how_long_its_points_take() -> None:
    said = study("point_seconds = 7\n" + TEXT.replace("quick = { rep", "quick = { point_seconds = 2, rep"))
    assert runner.estimate_seconds(said, 3) == 21
    assert runner.estimate_seconds(said.shortened(), 3) == 6
    assert "point_seconds" not in said.plan(), "it decides no measurement"


def test_a_system_that_is_missing_is_left_out_and_can_come_later(tmp_path: Path) -> None:
    def without(point: Point) -> Record:
        if point.settings["system"] == "slow":
            raise SystemMissing(CouldNotRun("slow is not installed", "install it"))
        return scripted(point)

    first = folder(tmp_path)
    progress = run(first, without)
    assert (progress.ending, progress.measured, progress.skipped) == ("complete", 12, 12)
    found = find(first, progress.missing)
    assert found.missing == {"slow": "slow is not installed; install it"}
    assert [(each.finding, each.why) for each in found.verdicts] == [
        ("not enough points", "nothing was measured on both sides")
    ]
    assert "slow is not installed" in write(first, found).read_text()
    assert run(folder(tmp_path), scripted).measured == 12


def test_a_system_that_does_not_run_at_one_point_is_not_left_out(tmp_path: Path) -> None:
    troubled = {in_order(study())[place].name for place in (0, 12)}

    def unsteady(point: Point) -> Record:
        if point.name in troubled:
            raise SystemMissing(CouldNotRun("the port is taken"))
        return scripted(point)

    begun = folder(tmp_path)
    progress = run(begun, unsteady)
    assert (progress.measured, progress.skipped, progress.failed, progress.missing) == (22, 1, 1, {})
    assert find(begun).failed == {"the port is taken": 1}, "its system had run before"
    assert run(folder(tmp_path), scripted).measured == 2


def test_the_page_and_the_summary_come_from_the_folder_alone(tmp_path: Path) -> None:
    begun = folder(tmp_path)
    begun.add_environment({"processor": "one", "sojourn_version": "0"})
    run(begun, scripted)
    opened = StudyFolder.open(tmp_path / "run")
    page = write(opened, find(opened)).read_text()
    assert "holds here" in page
    assert "(measured). rps: fast over slow is as expected at each of 3 places, from 2 (1.98 to 2.01) at size" in page
    assert "<td>42/s</td>" in page, "the printed value stands beside ours"
    summary = json.loads((tmp_path / "run" / "study.json").read_text())
    assert [each["finding"] for each in summary["verdicts"]] == ["holds"]
    assert summary["counts"]["measured"]["holds"] == 1
    assert summary["points"] == summary["points_planned"] == 24
    table = opened.run.table("points.parquet")
    assert table is not None
    assert table.height == 24
    index = write_index(tmp_path)
    assert index is not None
    assert 'href="run/report.html"' in index.read_text()


def test_a_link_leads_to_a_folder_whose_name_has_signs_of_addresses(tmp_path: Path) -> None:
    begun = folder(tmp_path)
    begun.add_environment({"processor": "one", "sojourn_version": "0"})
    run(begun, scripted)
    opened = StudyFolder.open(tmp_path / "run")
    write(opened, find(opened))
    (tmp_path / "run").rename(tmp_path / "site#2 100%")
    index = write_index(tmp_path)
    assert index is not None
    assert 'href="site%232%20100%25/report.html"' in index.read_text()


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    first = StudyFolder.begin(tmp_path / "run", study(), TEXT)
    with pytest.raises(CouldNotRun, match="is measuring into"):
        StudyFolder.begin(tmp_path / "run", study(), TEXT)
    first.close()
    StudyFolder.begin(tmp_path / "run", study(), TEXT).close()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('x = "size"', 'x = "sizes"'), "there is no factor sizes"),
        (('metric = "rps"', 'metric = "speed"'), "'speed' is not a metric"),
        (("repetitions = 4", "repetitions = 0"), "repetitions"),
        (('question = "does it work?"', 'question = "?"\nrepeat = 3'), "repeat"),
        (('{ name = "slow" }', '{ name = "fast" }'), "distinct names"),
        (('{ name = "slow" }', '{ name = "slow", solver = "open" }'), "others none"),
        (("\nfactors", '\nmodel = { system = "public-site" }\nfactors'), "others none"),
        (("\nfactors", "\nprogram = { metrics = {} }\nfactors"), "a workload beside a program needs systems"),
        (("\nfactors", "\nlisted = [{ a = 1 }, { b = 1 }]\nfactors"), "the same factors"),
        (("\nfactors", "\nlisted = [{ size = 1 }]\nfactors"), "the factor size is there already"),
        (('load = ["--clients", "2"]', 'replay = ["--scale", "2"]'), "or `replay`"),
    ],
)
def test_a_mistake_in_a_study_is_said_where_it_is(change: tuple[str, str], complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    assert change[0] in TEXT
    path.write_text(TEXT.replace(*change))
    with pytest.raises(CouldNotRun) as caught:
        document.read(path)
    assert complaint in caught.value.what


def test_a_file_may_have_the_weight_that_another_leaves(tmp_path: Path) -> None:
    files = (
        '[{ path = "/a", size = "1KiB", weight = "{share}" }, { path = "/b", size = "2KiB", weight = "10 - {share}" }]'
    )
    text = TEXT.replace('[{ path = "/file", size = "{size}" }]', files).replace(
        "factors = {", "factors = { share = [3, 12],", 1
    )
    wanted = study(text).workload
    assert wanted is not None
    assert wanted.files is not None
    root = site(wanted.files, {"system": "fast", "share": 3, "size": "1KiB"}, tmp_path)
    assert (root / "filelist").read_text() == "/a 3 #1024\n/b 7 #2048\n"
    with pytest.raises(CouldNotRun, match="below 0"):
        site(wanted.files, {"system": "fast", "share": 12, "size": "1KiB"}, tmp_path)


@pytest.mark.parametrize(
    ("name", "files", "mean_bytes"),
    [
        ("webstone", 5, 19_773),
        ("webstone at 9.5kB", 5, 9_500),
        ("log-normal at 9.5kB", 100, 9_500),
        ("3 files of 50kB", 3, 50_000),
        ("18 files of class 3", 18, 512_000),
    ],
)
def test_a_set_of_files_has_the_mean_that_its_name_says(name: str, files: int, mean_bytes: int, tmp_path: Path) -> None:
    root = site("{mix}", {"system": "any", "mix": name}, tmp_path)
    rows = [line.split() for line in (root / "filelist").read_text().splitlines()]
    assert len(rows) == files
    weights = [float(weight) for _, weight, _ in rows]
    mean = sum(weight * int(size[1:]) for weight, (_, _, size) in zip(weights, rows, strict=True)) / sum(weights)
    assert mean == pytest.approx(mean_bytes, rel=1e-3)
    for path, _, size in rows:
        assert (root / path.lstrip("/")).stat().st_size == int(size[1:])


def test_a_set_of_files_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match="'everything' is not a file set"):
        site("everything", {"system": "any"}, tmp_path)


def test_a_point_of_which_nothing_was_measured_is_tried_again(tmp_path: Path) -> None:
    def fails_once(point: Point) -> Record:
        return (
            {**record(None, failed="it did not begin"), "metrics": {}} if point.name == "001-0000" else scripted(point)
        )

    assert run(folder(tmp_path), fails_once).measured == 23
    found = find(folder(tmp_path))
    assert "failed: it did not begin" in found.verdicts[0].why
    assert found.failed == {"it did not begin": 1}
    progress = run(folder(tmp_path), scripted)
    assert (progress.before, progress.measured) == (23, 1)
    assert find(folder(tmp_path)).verdicts[0].finding == "holds"


LINES = """
[[fits]]
says = "a coefficient"
metric = "rps"
along = "hits"
reference = 100
over = { size = "1KiB" }
printed = { intercept = 0.125, slope = 0.00875 }
"""


def test_a_line_is_fitted_in_each_repetition() -> None:
    text = TEXT.replace('"100KiB"] }', '"100KiB"], hits = [20, 60, 100] }', 1) + LINES
    study = Study.model_validate(tomllib.loads(text))
    assert "rps" in study.metrics()

    def record(hits: int, repetition: int, speed: float) -> Record:
        value = speed * (0.5 + 0.005 * hits) * (1 + 0.001 * repetition * (hits - 100) / 80)
        settings = {"system": "fast" if speed > 1 else "slow", "size": "1KiB", "hits": hits}
        return {
            "settings": settings,
            "repetition": repetition,
            "metrics": {"rps": value},
            "failed": None,
            "generator_limited": None,
        }

    records = [record(hits, repetition, speed) for hits in (20, 60, 100) for repetition in (1, 2) for speed in (1, 9)]
    line = fitted(study.fits[0], Cells.of(records, frozenset()))
    assert line.intercept is not None
    assert line.slope is not None
    assert line.intercept.value == pytest.approx(0.5, abs=0.01)
    assert line.slope.value == pytest.approx(0.005, abs=1e-4)
    assert line.slope.low is not None
    assert line.slope.low < line.slope.value
    assert line.as_json()["printed"] == {"intercept": 0.125, "slope": 0.00875}
    without = fitted(study.fits[0], Cells.of(records[:2], frozenset()))
    assert without.intercept is None
    assert "two values of hits" in str(without.why)


def test_a_size_may_be_a_difference(tmp_path: Path) -> None:
    study = Study.model_validate(tomllib.loads(TEXT.replace('size = "{size}" }]', 'size = "{size} - 1B" }]', 1)))
    assert study.workload is not None
    root = site(study.workload.files or "", {"size": "10KiB"}, tmp_path)
    assert (root / "file").stat().st_size == 10_239


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
        (', { name = "slow" }', "", "systems.slow was removed"),
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
