"""Sharing a load and merging what came of it: nothing is lost, and no percentile is averaged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from load_runs import simulated_run
from sojourn import _native
from sojourn.engine.progress import StreamsAdvance, together
from sojourn.failure import CouldNotRun
from sojourn.loading.fleet import OF_THIS_MACHINE, apportioned, machines_of, shares
from sojourn.loading.load_files import LoggedIn, files_of, with_files_beside
from sojourn.loading.merging import Part, merge
from sojourn.loading.run import option, without_options


@pytest.mark.parametrize(("total", "weights"), [(10, [1, 1, 1]), (7, [3, 1]), (1000, [0.1, 5, 2.2])])
def test_clients_are_shared_without_loss(total: int, weights: list[float]) -> None:
    counts = apportioned(total, [weight / sum(weights) for weight in weights])
    assert sum(counts) == total
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - total * weight / sum(weights)) < 1


def test_each_machine_has_its_share_and_its_seed() -> None:
    machines = machines_of(["big", "small"], [3, 1])
    parts = shares(["http://x/", "--rate", "1000", "--seed=7", "--duration", "1s"], machines)
    assert [option(part, "--rate") for part in parts] == ["750", "250"]
    assert [option(part, "--seed") for part in parts] == ["7", "8"]
    assert all(part[:3] == ["http://x/", "--duration", "1s"] for part in parts)


@pytest.mark.parametrize("name", ["--requests", "--sessions"])
def test_a_load_that_stops_after_so_many_is_no_larger_on_several_machines(name: str) -> None:
    machines = machines_of(["a", "b", "c"], None)
    for load in (["--clients", "12"], ["--rate", "90"]):
        parts = shares(["http://x/", *load, name, "1000"], machines)
        assert sorted(str(option(part, name)) for part in parts) == ["333", "333", "334"]
    with pytest.raises(CouldNotRun, match=f"2 {name.removeprefix('--')} cannot be shared by 3 machines"):
        shares(["http://x/", "--clients", "12", f"{name}=2"], machines)


def test_sessions_of_a_log_are_shared_in_parts_that_make_the_whole() -> None:
    machines = machines_of(["a", "b", "c"], [2, 1, 1])
    parts = shares(["day.trace", "http://x/", "--scale", "2"], machines)
    assert [option(part, "--part") for part in parts] == ["0.0..0.5", "0.5..0.75", "0.75..1.0"]
    assert all(option(part, "--scale") == "2" for part in parts)


def test_viewers_are_shared_and_start_as_fast_together_as_alone() -> None:
    parts = shares(["rtsp://x/film.mp4", "--clients", "30", "--ramp", "60/s"], machines_of(["a", "b"], [2, 1]))
    assert [(option(part, "--clients"), option(part, "--ramp")) for part in parts] == [("20", "40"), ("10", "20")]
    with pytest.raises(CouldNotRun, match="1 clients"):
        shares(["rtsp://x/film.mp4"], machines_of(["a", "b"], None))


def test_options_that_name_a_core_here_are_not_sent() -> None:
    words = ["http://x/", "--core", "1", "--rate", "5", "--observe-pid=7", "--observe-core", "0"]
    assert without_options(words, OF_THIS_MACHINE) == ["http://x/", "--rate", "5"]


@pytest.mark.parametrize(("names", "weights", "said"), [([], None, "0 workers"), (["a", "b"], [1.0], "1 shares for 2")])
def test_machines_that_are_none(names: list[str], weights: list[float] | None, said: str) -> None:
    with pytest.raises(CouldNotRun, match=said):
        machines_of(names, weights)


def test_files_to_read_are_sent_and_no_others(tmp_path: Path) -> None:
    for name in ("site.trace", "mix", "out.hlog"):
        (tmp_path / name).write_text("x")
    trace, mix, out = (str(tmp_path / name) for name in ("site.trace", "mix", "out.hlog"))
    assert files_of(["replay", trace, "http://x/", "--histograms", out]) == {1: Path(trace)}
    assert files_of(["load", "http://x/", "--mix", mix, "--body", "/there/only"]) == {3: Path(mix)}


def test_files_of_a_scenario_go_beside_it(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    for name in ("users.csv", "items", "photo"):
        (tmp_path / name).write_text(name)
    scenario = tmp_path / "shop.toml"
    scenario.write_text(
        """
        users.file = "users.csv"
        [[login]]
        url = "/login"
        body_file = "photo"
        [[flow]]
        weight = 2
        [[flow.request]]
        url = "/x"
        targets = "items"
        multipart = [{ name = "a", file = "photo" }, { name = "b", value = "v" }]
        [[flow.request]]
        url = "/y"
        body_file = "/there/only"
        """
    )
    options, beside = with_files_beside(["http://x/", f"--scenario={scenario}", "--rate", "5"], tmp_path / "made")
    assert {path.name for path in beside.values()} == {"users.csv", "items", "photo"}
    sent = json.loads(Path(str(option(options, "--scenario"))).read_text())
    first, second = sent["flow"][0]["request"]
    named = [sent["users"]["file"], sent["login"][0]["body_file"], first["targets"], first["multipart"][0]["file"]]
    assert [beside[name].name for name in named] == ["users.csv", "photo", "items", "photo"]
    assert (second["body_file"], sent["flow"][0]["weight"]) == ("/there/only", 2)
    # The engine says what is wrong with what is no scenario, and one that names no file goes as it is.
    for text in ("nonsense", '[[request]]\nurl = "/"\n', '{"log": {"entries": []}}'):
        scenario.write_text(text)
        whole = ["http://x/", "--scenario", str(scenario)]
        assert with_files_beside(whole, tmp_path) == (whole, {})


def test_users_of_a_lost_machine_stay_as_they_went_there(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps([{"number": number, "iterations": 1} for number in range(4)]))
    users = LoggedIn.of(["http://x/", "--users-file", str(path)])
    assert users is not None
    parts = users.parts([1, 3], tmp_path)
    users.keep(parts, [None, json.dumps([{"number": number, "iterations": 9} for number in (3, 2, 1)])])
    kept = [(user["number"], user["iterations"]) for user in json.loads(path.read_text())]
    assert kept == [(0, 1), (1, 9), (2, 9), (3, 9)]
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in (path, *parts))


def test_merging_equals_one_machine_that_saw_everything() -> None:
    runs = [simulated_run(seed, scale=scale) for seed, scale in ((1, 1.0), (2, 5.0))]
    whole = merge([Part("one", 0.5, runs[0]), Part("two", 0.5, runs[1])])
    together = _native.Histogram()
    for run in runs:
        together.merge(run.latencies["response_time"])
    assert whole.of_requests.response_time_seconds.as_json() == together.summary()
    assert whole.requests == sum(run.requests for run in runs)
    assert whole.requests_per_second == pytest.approx(sum(run.requests_per_second for run in runs))
    averaged = np.mean([run.quantile(0.5) for run in runs])
    assert abs(whole.quantile(0.5) / averaged - 1) > 0.2, "an average of percentiles would be another figure"
    assert len(whole.intervals) == 40
    assert sum(len(each.latencies["response_time"]) for each in whole.intervals) == len(together)


def test_a_machine_that_died_is_named_and_the_others_are_kept() -> None:
    run = simulated_run(1)
    whole = merge([Part("one", 0.5, run), Part("two", 0.5, None, "it ended without a result: killed")])
    assert whole.requests == run.requests
    assert not whole.complete
    assert whole.lost_machines == ["two"]
    assert whole.is_whole_without_lost
    assert whole.record.stopped_because == "two: it ended without a result: killed"
    assert [machine.requests for machine in whole.of_requests.machines] == [run.requests, None]
    with pytest.raises(CouldNotRun, match="two"):
        merge([Part("two", 1.0, None, "killed")])


def test_the_progress_of_machines_is_one() -> None:
    lines = [
        StreamsAdvance.model_validate(
            {
                "progress": progress,
                "streams_started": 5,
                "streams_playing": playing,
                "streams_conforming": 1,
                "streams_refused": 0,
                "streams_timed_out": 0,
                "streams_failed": 2,
                "bits_per_second": 1e6,
                "behind_seconds": {"count": 1, "p99": late},
                "generator_cpu_fraction": busy,
            }
        )
        for progress, playing, late, busy in ((0.5, 3, 0.2, 0.1), (0.4, 4, 0.1, 0.3))
    ]
    found = together(lines)
    assert isinstance(found, StreamsAdvance)
    assert (found.progress, found.streams_playing, found.streams_failed) == (0.4, 7, 4)
    assert (found.behind_seconds.p99, found.generator_cpu_fraction, found.bits_per_second) == (0.2, 0.3, 2e6)


def test_one_limited_machine_marks_the_whole() -> None:
    whole = merge([Part("one", 0.5, simulated_run(1)), Part("two", 0.5, simulated_run(2, limited=True))])
    assert whole.limited_because is not None
    assert whole.limited_because.startswith("two: ")
