"""Points by a model and by a program: what is asked, what is read, and what is said where nothing can be had."""

from __future__ import annotations

import math
import statistics
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sojourn.failure import CouldNotRun
from sojourn.study import catalogue, kinds
from sojourn.study.declarations import Films
from sojourn.study.document import Study
from sojourn.study.evidence import evidence
from sojourn.study.folder import Record, StudyFolder
from sojourn.study.points import in_order, shuffled
from sojourn.study.program_point import ProgramPoints
from sojourn.study.runner import SystemMissing
from sojourn.study.sites import texts_of

MODEL = """
name = "test/model"
title = "A line"
source = "nobody"
question = "does it run?"
repetitions = 2
systems = [{ name = "analysis", solver = "open" }, { name = "simulation", solver = "simulation" }]
factors = { rate = [2, 8] }
model = { system = "public-site", settings = ["class.visitors.rate={rate}/s"], half_width = 0.05 }

[[checks]]
says = "they agree"
metric = "residence.line"
left = { system = "analysis" }
right = { system = "simulation" }
least = 0.8
most = 1.25
"""
BESIDE = """
name = "test/beside"
title = "A server and its model"
source = "nobody"
question = "do they agree?"
repetitions = 1
warm_up_seconds = 0.1
duration_seconds = 0.4
systems = [
  { name = "amped" },
  { name = "analysis", solver = "open" },
  { name = "slower", solver = "open", options = ["station.web.demand={slower}"] },
]
factors = { rate = [50] }
listed = [{ demand = "20us", slower = "2ms" }]
workload = { files = [{ path = "/file", size = "1kB" }], load = ["--rate", "{rate}/s"] }

[model]
system = "web-server"
settings = ["class.requests.rate={rate}/s", "station.web.demand={demand}"]

[[checks]]
says = "they agree"
metric = "mean"
left = { system = "amped" }
right = { system = "analysis" }
least = 0.5

[[plots]]
title = "What only one of them has"
x = "rate"
y = ["ttfb.p50", "utilisation.web"]
"""
ARRIVALS = """
name = "test/arrivals"
title = "A server and the model that has its arrivals"
source = "nobody"
question = "do they agree?"
repetitions = 1
warm_up_seconds = 0.1
duration_seconds = 0.4
systems = [{ name = "model", solver = "simulation", of = "amped" }, { name = "amped" }, { name = "sped" }]
listed = [{ load = "low", rate = 50 }, { load = "high", rate = 100 }]
workload = { files = [{ path = "/file", size = "1kB" }], load = ["--rate", "{rate}/s"] }

[model]
system = "application-workers"
arrivals = "visitors"
settings = ["class.visitors.rate={rate}/s", "station.workers.servers=1"]

[[checks]]
says = "they agree"
metric = "mean"
left = { system = "amped" }
right = { system = "model" }
least = 0.001
"""
FITTED = ARRIVALS.replace(
    "settings =", 'fitted = { parameter = "station.workers.demand", at = { load = "low" } }\nsettings ='
)
MODELLED = ("model", "high")
STATISTICS = ("class.visitors.p95", "route.visitors.all", "share.backbone", "utilisation.web")


def study(text: str) -> Study:
    return Study.model_validate(tomllib.loads(text))


def measured(text: str, path: Path) -> dict[tuple[object, ...], Record]:
    """Every point of the study, by its settings' values and its repetition."""
    declared = study(text)
    folder = StudyFolder.begin(path / "run", declared, text)
    measure = kinds.measure(declared, path / "study.toml", folder, path)
    folder.close()
    return {(*point.settings.values(), point.repetition): measure(point) for point in in_order(declared)}


def test_a_model_is_answered_by_solvers_and_simulated(tmp_path: Path) -> None:
    printed = '[[printed]]\nmetric = "{}"\nvalue = 1\nat = {{}}\nwhere_printed = ""\n'
    found = measured(MODEL + "".join(map(printed.format, STATISTICS)), tmp_path)
    line = {key: record["metrics"]["residence.line"] for key, record in found.items()}
    # 8 E[X] / C / (1 - rho) with E[X] = 8502.9 B and 1.5 Mbit/s.
    for rate in (2, 8):
        demand = 8 * 8502.9 / 1.5e6
        assert line["analysis", rate, 1] == pytest.approx(demand / (1 - rate * demand), rel=1e-3)
        assert line["simulation", rate, 1] == pytest.approx(line["analysis", rate, 1], rel=0.1)
    assert line["analysis", 8, 1] == line["analysis", 8, 2]
    assert line["simulation", 8, 1] != line["simulation", 8, 2], "a repetition draws other numbers"
    for solver in ("analysis", "simulation"):
        metrics = found[solver, 8, 1]["metrics"]
        assert metrics["route.visitors.all"] == pytest.approx(metrics["mean"], rel=0.01)
        assert metrics["utilisation.web"] == pytest.approx(8 * 0.025675, rel=0.05)
        assert metrics["share.backbone"] == pytest.approx(0.195 / metrics["mean"], rel=0.03)
        assert metrics["class.visitors.p95"] > metrics["mean"]
    assert (tmp_path / "run" / "system.toml").is_file(), "the folder holds the system that was solved"


def test_what_a_model_cannot_answer_is_said(tmp_path: Path) -> None:
    overloaded = MODEL.replace("rate = [2, 8]", "rate = [100]")
    (first, *_) = measured(overloaded, tmp_path / "overloaded").values()
    assert "unstable" in first["failed"]
    refused = MODEL.replace('solver = "open"', 'solver = "fixed-point"')
    records = measured(refused, tmp_path / "refused")
    assert records["analysis", 2, 1]["failed"]
    assert records["simulation", 2, 1]["failed"] is None
    with pytest.raises(CouldNotRun, match="there is no system file"):
        measured(MODEL.replace("public-site", "public-sight"), tmp_path / "missing")


def in_one_queue(due: Sequence[float], demand: float, until: float) -> float:
    """The mean response time of what is due from 0 on, by Lindley's equation."""
    free, waited = -math.inf, []
    for each in due:
        free = max(free, each) + demand
        waited.append((each, free - each))
    return statistics.mean(time for each, time in waited if 0 <= each < until)


def loaded(folder: StudyFolder, due: Mapping[str, Sequence[float]], mean: float, **changes: object) -> None:
    """Keeps records of loads as if they had been measured, by the factor `load`."""
    for point in in_order(folder.study):
        if point.settings["system"] == "amped":
            times = due[str(point.settings["load"])]
            folder.keep(point, {"failed": None, "metrics": {"mean": mean}, "due_seconds": times, **changes})


def test_a_model_has_the_arrivals_of_the_load_beside_it(tmp_path: Path) -> None:
    declared = study(ARRIVALS)
    ordered = in_order(declared)
    assert [point.settings["system"] == "model" for point in ordered] == [False] * 4 + [True] * 2
    folder = StudyFolder.begin(tmp_path / "run", declared, ARRIVALS)
    measure = kinds.measure(declared, tmp_path / "study.toml", folder, tmp_path)
    assert "no load whose arrivals" in measure(ordered[-1])["failed"]
    for point in ordered:
        folder.keep(point, measure(point))
    records = {(point.settings["system"], point.settings["load"]): folder.record(point) for point in ordered}
    folder.close()
    for load in ("low", "high"):
        measured, model = records["amped", load], records["model", load]
        assert measured is not None
        assert model is not None
        due = measured["due_seconds"]
        assert sum(0 <= each < 0.4 for each in due) == measured["requests"] + measured["errors"]
        assert min(due) < 0, "those of the warm-up keep the station busy"
        assert model["metrics"]["mean"] == pytest.approx(in_one_queue(due, 0.02, 0.4), rel=1e-3)
        assert "rps" not in model["metrics"], "it is given"


def test_a_parameter_is_fitted_to_a_light_load_and_tried_at_others(tmp_path: Path) -> None:
    declared = study(FITTED)
    folder = StudyFolder.begin(tmp_path / "run", declared, FITTED)
    # The first of the low load is of the warm-up; two come at once, and one after the measured time.
    due = {"low": [-0.01, 0.0, 0.0, 0.3, 0.45], "high": [0.0, 0.0, 0.0]}
    loaded(folder, due, (0.030 + 0.050 + 0.020) / 3)
    measure = kinds.measure(declared, tmp_path / "study.toml", folder, tmp_path)
    high, low = (
        measure(next(each for each in in_order(declared) if dict(each.settings, rate=0) == wanted))
        for wanted in ({"system": "model", "load": load, "rate": 0} for load in ("high", "low"))
    )
    assert low["metrics"]["mean"] == pytest.approx(0.1 / 3, rel=1e-3)
    assert high["metrics"]["mean"] == pytest.approx(0.02 * (1 + 2 + 3) / 3, rel=1e-3)
    name, _, value = high["fitted"].partition("=")
    assert (name, float(value.removesuffix("ms"))) == ("station.workers.demand", pytest.approx(20, rel=1e-3))
    (last,) = (each for each in in_order(declared) if (each.settings["system"], each.settings["load"]) == MODELLED)
    assert "doubtful" not in measure(last)
    assert "no load whose arrivals" in measure(replace(last, repetition=2))["failed"], "nor is it of another repetition"
    loaded(folder, due, (0.030 + 0.050 + 0.020) / 3, generator_limited="it was late", disturbed=True)
    doubted = measure(last)
    assert doubted["doubtful"] == "it is fitted to a doubtful load: it was late"
    assert doubted["disturbed"], "measured again with the load"
    loaded(folder, due, 5.0)
    assert "does not follow from any station.workers.demand" in measure(in_order(declared)[-1])["failed"]
    folder.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ARRIVALS.replace('of = "amped"', 'of = "model"'), "a model is of model, which is not a system that is loaded"),
        (FITTED.replace('arrivals = "visitors"', ""), "a fitted parameter needs the arrivals"),
        (FITTED.replace('at = { load = "low" }', 'at = { size = "low" }'), "there is no factor size"),
        (MODEL.replace("settings", 'arrivals = "visitors", settings'), "are those of a workload beside it"),
    ],
)
def test_arrivals_and_what_is_fitted_to_them_belong_to_a_load(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        study(text)


def test_a_model_is_searched_for_the_capacity_that_meets_a_target(tmp_path: Path) -> None:
    find = 'find = "station.line.rate", target = "residence of line < {delay}"'
    text = MODEL.replace("half_width = 0.05", find).replace("residence.line", "found")
    text = text.replace('{ name = "simulation", solver = "simulation" }', "").replace(
        "factors = { rate = [2, 8] }", 'factors = { rate = [10], delay = ["100ms"] }'
    )
    found = measured(text.replace('right = { system = "simulation" }', ""), tmp_path)
    # The line's delay is that of processor sharing: C = 8 E[X] (rate + 1 / delay).
    assert found["analysis", 10, "100ms", 1]["metrics"]["found"] == pytest.approx(8 * 8502.9 * 20, rel=0.01)


def test_the_mean_by_size_is_that_of_equation_2_1(tmp_path: Path) -> None:
    text = MODEL.replace('"public-site"', '"web-server", document = "{size}", jobs_max = 400_000')
    text = text.replace("class.visitors.rate={rate}/s", "station.web.r={helpers}").replace("residence.line", "by_size")
    text = text.replace("rate = [2, 8]", 'helpers = [1], size = ["500B", "50kB"]')
    found = measured(text, tmp_path)
    # r = 1 is first come, first served: Pollaczek-Khinchine's wait, whatever the size.
    mean, second = 0.025675, 844.2e-6
    wait = 31.16 * second / 2 / (1 - 31.16 * mean)
    for size, bytes in (("500B", 500), ("50kB", 50_000)):
        demand = 0.02155 + bytes * 0.4851e-6
        assert found["analysis", 1, size, 1]["metrics"]["by_size"] == pytest.approx(wait + demand, rel=0.01)
        assert found["simulation", 1, size, 1]["metrics"]["by_size"] == pytest.approx(wait + demand, rel=0.1)


PROGRAM = """
name = "test/program"
title = "A program"
source = "nobody"
question = "does it run?"
repetitions = 1
systems = [{ name = "python", run = ["PYTHON", "-c", "{{script}}", "{size}", "{root}", "{mix}"] }]
factors = { size = ["2kB"] }
plots = [{ title = "bytes", x = "size", y = "bytes" }]

[program]
files = [{ path = "/file", size = "{size}" }]

[program.metrics]
bytes = { at = "files.0.bytes", quantity = "size" }
absent = { at = "absent", quantity = "time" }
"""
SIZES = (
    "import json, os, sys; "
    "size = os.path.getsize(sys.argv[2] + '/file'); "
    "print(json.dumps(dict(files=[dict(bytes=size)], absent=dict(unavailable='why'))))"
)


def program(script: str, path: Path) -> Record:
    text = PROGRAM.replace("PYTHON", sys.executable).replace("{{script}}", script.replace("{", "{{").replace("}", "}}"))
    (record,) = measured(text, path).values()
    return record


def test_a_program_says_its_figures_as_json(tmp_path: Path) -> None:
    record = program(SIZES, tmp_path)
    assert record["failed"] is None
    assert record["metrics"] == {"bytes": 2000.0, "absent": None}
    assert record["server_command"][3] == "2kB"


@pytest.mark.parametrize(
    ("script", "failed"),
    [
        ("print('nothing of use')", "did not print one JSON object"),
        ("print('[1]')", "its output has no files.0.bytes: at 'files' there is list"),
        ("import sys; print('{}'); sys.exit('I fell')", "it said: I fell"),
    ],
)
def test_a_program_that_says_something_else_is_a_failed_point(script: str, failed: str, tmp_path: Path) -> None:
    assert failed in program(script, tmp_path)["failed"]


@pytest.mark.parametrize("files", ["[]", "None", "[dict(bytes=None)]"])
def test_a_program_that_has_not_measured_a_figure_has_not_failed(files: str, tmp_path: Path) -> None:
    record = program(f"import json; print(json.dumps(dict(files={files}, absent=None)))", tmp_path)
    assert record["failed"] is None
    assert record["metrics"] == {"bytes": None, "absent": None}


@pytest.mark.parametrize(
    ("listed", "doubtful"), [("[]", None), ("None", None), ("['other work', 'a late link']", "other work; a late link")]
)
def test_a_program_may_doubt_its_figures(listed: str, doubtful: str | None, tmp_path: Path) -> None:
    script = f"import json; print(json.dumps(dict(files=[dict(bytes=1)], absent=None, doubts={listed})))"
    text = PROGRAM.replace("[program]", '[program]\ndoubtful = "doubts"')
    (record,) = measured(text.replace("PYTHON", sys.executable).replace("{{script}}", script), tmp_path).values()
    assert record["failed"] is None
    assert (record.get("doubtful"), record.get("disturbed")) == (doubtful, True if doubtful else None)


SHARED = """
name = "test/shared"
title = "A program with the figures of two disks"
source = "nobody"
question = "does it run once?"
repetitions = 2
systems = [{ name = "python", run = ["PYTHON", "-c", "SCRIPT", "{work}", "{kind}"] }]
factors = { disk = ["a", "b", "c"], kind = ["x", "y"] }
plots = [{ title = "rate", x = "disk", y = "rate" }]

[program.metrics]
rate = { at = "disks.name={disk}.rate", quantity = "rate" }
run = { at = "run", quantity = "number" }
"""
DISKS = (
    "import json, random; print(json.dumps(dict(run=random.random(), "
    "disks=[dict(name='a', rate=1.0), dict(name='b', rate=2.0)])))"
)


def test_one_run_has_the_figures_of_all_values_that_its_command_does_not_name(tmp_path: Path) -> None:
    text = SHARED.replace("PYTHON", sys.executable).replace("SCRIPT", DISKS)
    found = measured(text, tmp_path)
    assert {key[1]: record["metrics"]["rate"] for key, record in found.items()} == {"a": 1.0, "b": 2.0, "c": None}
    # A run for each repetition and each value that the command names.
    runs: dict[tuple[object, ...], set[float]] = {}
    for (*_, kind, repetition), record in found.items():
        runs.setdefault((kind, repetition), set()).add(record["metrics"]["run"])
    assert [len(each) for each in runs.values()] == [1] * 4
    assert len(set.union(*runs.values())) == 4


def test_points_with_other_files_have_other_runs(tmp_path: Path) -> None:
    text = PROGRAM.replace('"{size}", "{root}"', '"-", "{root}"').replace('["2kB"]', '["2kB", "3kB"]')
    found = measured(text.replace("PYTHON", sys.executable).replace("{{script}}", SIZES), tmp_path)
    assert {key[1]: record["metrics"]["bytes"] for key, record in found.items()} == {"2kB": 2000.0, "3kB": 3000.0}
    assert texts_of(Films(rate="{rate}", number="{films}")) == ["{rate}", "{films}"]


def test_a_point_that_is_measured_again_has_another_run(tmp_path: Path) -> None:
    declared = study(SHARED.replace("PYTHON", sys.executable).replace("SCRIPT", DISKS))
    points = ProgramPoints(declared, tmp_path)
    one, other = [point for point in shuffled(declared, 1) if point.settings["kind"] == "x"][:2]
    first = points(one)["metrics"]["run"]
    assert points(other)["metrics"]["run"] == first
    assert points(one)["metrics"]["run"] != first


def test_a_program_that_could_not_run_is_left_out(tmp_path: Path) -> None:
    script = "import sys; sys.stderr.write('error: it needs root' + chr(10) + 'hint: be root'); sys.exit(2)"
    with pytest.raises(SystemMissing, match="it needs root; be root"):
        program(script, tmp_path)


def test_every_study_that_comes_along_has_what_it_names() -> None:
    found = catalogue.studies()
    assert len(found) > 20
    for path, declared in found:
        assert declared.name == f"{path.parent.name}/{path.stem}"
        if declared.model is not None:
            assert catalogue.system_file(declared.model.system, path).is_file()
        short = declared.shortened()
        assert short.repetitions > 1, f"{declared.name}: one repetition decides nothing"
        assert len(in_order(short)) <= len(in_order(declared))


def test_a_loaded_server_and_the_model_of_it_are_points_of_one_study(tmp_path: Path) -> None:
    found = {str(key[0]): record["metrics"] for key, record in measured(BESIDE, tmp_path).items()}
    assert found["amped"]["mean"] > 0
    assert found["amped"]["ttfb.p50"] > 0
    assert found["analysis"]["mean"] == pytest.approx(20e-6, rel=0.01)
    assert found["analysis"]["utilisation.web"] == pytest.approx(50 * 20e-6)
    assert found["slower"]["utilisation.web"] == pytest.approx(50 * 2e-3)
    beside = study(BESIDE)
    assert evidence(beside, beside.checks[0]) == "measured"
    again = beside.planned(beside.plan())
    assert (again.workload, again.model) == (beside.workload, beside.model)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BESIDE.replace('{ name = "amped" },', ""), "a workload needs a system that is loaded"),
        (BESIDE.replace(', solver = "open"', ""), "a study with a model has systems with a solver"),
        (MODEL.replace(', solver = "open"', ""), "analysis of a study with a model has no solver"),
        (MODEL.replace("model = {", "program = { metrics = {} }\nmodel = {"), "a study has one of"),
    ],
)
def test_what_a_study_does_at_its_points_is_one_thing_or_a_load_and_its_model(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        study(text)
