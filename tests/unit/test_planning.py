"""Planning on system files: settings, targets, searches, mixes and growth, against closed forms where there are any."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import queueing
from sojourn.failure import CouldNotRun
from sojourn.planning.by_size import by_size
from sojourn.planning.evaluation import Evaluator
from sojourn.planning.growth import grow, parse_growth
from sojourn.planning.mix import cheapest_mix, mixes_of, parse_price
from sojourn.planning.parameters import levers, parameter
from sojourn.planning.plan import Questions, parse_sweep, plan
from sojourn.planning.search import largest_traffic, smallest
from sojourn.planning.system_document import SystemDocument
from sojourn.planning.target import Metric, parse_target
from sojourn.text import toml

SYSTEMS = Path(__file__).parents[2] / "studies" / "systems"
NAMES = ("public-site", "isp-with-proxy", "entire-model")
MEAN_DOCUMENT = 8_502.9


def read(name: str, *changes: str) -> SystemDocument:
    return SystemDocument.read(SYSTEMS / f"{name}.toml", changes)


def written(tmp_path: Path, text: str) -> SystemDocument:
    path = tmp_path / "system.toml"
    path.write_text(text)
    return SystemDocument.read(path)


VALUES = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"])) | st.integers(-(2**53), 2**53) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), VALUES, max_size=4))
def test_what_is_written_as_toml_is_read_again(document: dict[str, Any]) -> None:
    written = "".join(f"{toml.key(name)} = {toml.inline(value)}\n" for name, value in document.items())
    assert tomllib.loads(written) == document


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_the_file(name: str) -> None:
    original = queueing.System.from_file(SYSTEMS / f"{name}.toml")
    assert queueing.predict(read(name).system) == queueing.predict(original)


def demands(document: SystemDocument) -> dict[str, float]:
    visits = [visit for each in document.system.classes for route in each.routes for visit in route.visits]
    return {visit.station: visit.demand_mean_seconds for visit in visits}


def test_settings_change_what_they_name() -> None:
    before = read("isp-with-proxy")
    after = before.set(
        "station.web.speed=2",
        "stations.line.rate=3Mbit/s",
        "station.backbone.speed=.5",
        "class.members.users=20",
        "class.members.routes.hit.probability=0.6",
    )
    factors = {name: demands(after)[name] / demands(before)[name] for name in demands(before)}
    assert factors == pytest.approx({"proxy": 1, "web": 0.5, "line": 0.5, "backbone": 2})
    (members,) = after.system.classes
    assert members.users == 20
    assert [route.probability for route in members.routes] == pytest.approx([0.6, 0.4])
    assert before.system.classes[0].users == 10


def test_speed_reaches_every_form_of_demand(tmp_path: Path) -> None:
    document = written(
        tmp_path,
        """
        document = { law = "log-normal", mu = 7.811, sigma = 1.573, unit = "B" }
        [stations]
        a = { discipline = "ps", demand = "10ms" }
        b = { discipline = "ps", demand = { law = "exponential", mean = "10ms", shift = "2ms" } }
        c = { discipline = "ps", demand = [{ below = "20KB", fixed = "5ms" }, { fixed = "9ms", per_byte = "1ns/B" }] }
        d = { discipline = "ps" }
        [classes.all]
        rate = "1/s"
        route = ["a", "b", "c", { station = "d", demand = { fixed = "1ms", per_byte = "1us/B" } }]
        """,
    )
    faster = document.set("speed=4")
    for name, demand in demands(document).items():
        assert demands(faster)[name] == pytest.approx(demand / 4), name


def test_traffic_scales_open_and_closed_classes() -> None:
    visitors, members = read("entire-model", "traffic=2.5").system.classes
    assert visitors.rate_per_second == pytest.approx(25)
    assert members.users == 25


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("station.wbe.speed=2", ["no station is named wbe", "did you mean web?"]),
        ("station.web.sped=2", ["has no sped", "did you mean speed?"]),
        ("station.web.servrs=2", ["servrs", "did you mean `servers`?"]),
        ("station.web.r=0", ["--set station.web.r=0", "from 1 to"]),
        ("class.member.users=2", ["no class is named member", "did you mean members?"]),
        ("class.members.routes.hitt.probability=0.5", ["no route is named hitt", "did you mean hit?"]),
        ("class.members.routes.hit.probability=2", ["from 0 to 1"]),
        ("station.line.rate=3Mbps", ["Mbps", "Mbit/s"]),
        ("station.line.rate=3", ["needs a unit"]),
        ("station.web.speed=-1", ["a factor is a number above zero"]),
        ("traffic=inf", ["a factor is a number above zero"]),
        ("statoin.web.speed=2", ["no such parameter", "did you mean station"]),
        ("station.web", ["not a setting", "NAME=VALUE"]),
    ],
)
def test_a_wrong_setting_names_itself_and_the_cure(setting: str, words: list[str]) -> None:
    with pytest.raises(CouldNotRun) as failure:
        read("isp-with-proxy", setting)
    assert failure.value.hint
    for word in words:
        assert word in str(failure.value)


def test_a_target_sets_its_load() -> None:
    target, loaded = parse_target("p95 of visitors <  300ms at 40 req/s", read("public-site"))
    assert (target.metric, target.limit_seconds) == (Metric("p95", "visitors"), 0.3)
    assert loaded.system.classes[0].rate_per_second == 40
    assert str(target.metric) == "p95 response time of visitors"
    _, loaded = parse_target("mean < 1s at 30 users", read("isp-with-proxy"))
    assert loaded.system.classes[0].users == 30
    target, loaded = parse_target("residence of line < 100ms", read("public-site"))
    assert loaded.system.classes[0].rate_per_second == 5


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("fast please", "p95 < 300ms"),
        ("p96 < 300ms", "did you mean p9"),
        ("p95 of vistors < 300ms", "did you mean visitors"),
        ("p95 < 300", "200ms"),
        ("p95 < 300ms at 40 furlongs", "req/s"),
        ("p95 < 300ms at 40 users", "no closed class"),
        ("p95 < 300ms at 0 req/s", "above zero"),
        ("p95 < 300ms at 1.000.000 req/s", "p95 < 300ms at 40 req/s"),
        ("p95 < 3.0.0ms", "3.0.0ms"),
        ("p95 < 300ms and loss < 1.2.3%", "p95 < 300ms"),
        ("p95 < 300ms at . req/s", "p95 < 300ms"),
        ("residence < 300ms", "of backbone"),
    ],
)
def test_a_target_that_cannot_be_meant(text: str, word: str) -> None:
    with pytest.raises(CouldNotRun) as failure:
        parse_target(text, read("public-site"))
    assert word in str(failure.value)
    assert failure.value.hint


@pytest.mark.parametrize("rate", [5, 10, 20])
def test_the_smallest_line_is_that_of_the_closed_form(rate: int) -> None:
    # Processor sharing: x / (C - 8 E[X] rate) per bit, so C = 8 E[X] (rate + 1/D): thesis, Figure 4.3.
    target, document = parse_target(f"residence of line < 100ms at {rate} req/s", read("public-site"))
    found = smallest(Evaluator(target.metric), document, parameter(document, "station.line.rate"), 0.1)
    assert found.value == pytest.approx(8 * MEAN_DOCUMENT * (rate + 10) / 1e6, rel=0.03)
    assert found.searched_by == "open"
    assert found.confirmed.seconds <= 0.1


def test_the_largest_traffic_is_that_of_the_closed_form() -> None:
    target, document = parse_target("residence of line < 100ms at 10 req/s", read("public-site"))
    found = largest_traffic(Evaluator(target.metric), document, 0.1)
    assert found.value == pytest.approx((1.5e6 / 8 / MEAN_DOCUMENT - 10) / 10, rel=0.03)


def test_a_search_by_simulation_finds_what_the_closed_form_does() -> None:
    target, document = parse_target("mean < 280ms", read("public-site"))
    rate = parameter(document, "station.line.rate")
    by_formula = smallest(Evaluator(target.metric), document, rate, target.limit_seconds)
    by_simulation = smallest(Evaluator(target.metric, using="simulation"), document, rate, target.limit_seconds)
    assert (by_formula.searched_by, by_simulation.searched_by) == ("open", "simulation")
    assert by_simulation.value == pytest.approx(by_formula.value, rel=0.05)


def test_the_fewest_helpers(tmp_path: Path) -> None:
    # Very variable demand: the more jobs share the server, the less does a small one wait for a large one.
    document = written(
        tmp_path,
        """
        stations.web = { discipline = "lps", r = 1, demand = { law = "hyper-exponential", mean = "25ms", scv = 10 } }
        classes.visitors = { rate = "32/s", route = ["web"] }
        """,
    )
    found = smallest(Evaluator(Metric("mean", None)), document, parameter(document, "station.web.r"), 0.3)
    assert found.searched_by == "exact-lps"
    law = queueing.hyper_exponential(0.025, 10)
    exact = next(r for r in range(1, 100) if queueing.ExactLps(32, law, r).mean_response_time <= 0.3)
    assert abs((found.value or 0) - exact) <= 1


def test_a_parameter_that_is_not_enough_says_how_far_it_reaches() -> None:
    target, document = parse_target("mean < 220ms at 5 req/s", read("public-site"))
    found = smallest(Evaluator(target.metric), document, parameter(document, "station.web.speed"), 0.22)
    assert found.value is None
    assert found.confirmed.seconds == pytest.approx(0.195 + demands(document)["line"] / (1 - 0.2267), rel=0.02)


def test_the_levers_of_a_system() -> None:
    paths = [each.path for each in levers(read("isp-with-proxy"))]
    assert paths == [
        "station.proxy.speed",
        "station.line.rate",
        "station.backbone.speed",
        "station.web.speed",
        "station.web.r",
        "speed",
        "class.members.routes.hit.probability",
    ]


def test_the_needed_hit_ratio() -> None:
    target, document = parse_target("mean < 200ms", read("isp-with-proxy"))
    hit = parameter(document, "class.members.routes.hit.probability")
    found = smallest(Evaluator(target.metric), document, hit, 0.2)
    assert found.value is not None
    assert 0.51 < found.value < 0.7
    lower = queueing.predict(document.set(hit.setting(found.value - 0.03)).system)["solvers"]["mva"]["answer"]
    assert lower is not None
    assert lower["classes"]["members"]["response_time_seconds"]["mean"] > 0.2


def test_the_cheapest_mix_is_on_the_front() -> None:
    target, document = parse_target("mean < 300ms at 10 req/s", read("public-site"))
    priced = [parse_price(text, document) for text in ("station.line.rate=20/Mbit/s", "station.web.speed = 50")]
    evaluator = Evaluator(target.metric)
    mix = cheapest_mix(evaluator, document, priced, mixes_of(evaluator, document, priced), 0.3)
    costs, times = [each.cost for each in mix.front], [each.seconds for each in mix.front]
    assert costs == sorted(costs)
    assert times == sorted(times, reverse=True)
    assert mix.present_cost == pytest.approx(80)
    assert mix.cheapest is not None
    assert mix.confirmed_seconds is not None
    assert mix.confirmed_seconds <= 0.3
    assert mix.cheapest.cost <= min(each.cost for each in mix.front if each.seconds <= 0.3) * 1.02


@pytest.mark.parametrize(
    ("price", "word"),
    [
        ("station.line.rate=20", "Mbit/s"),
        ("station.web.speed=a lot", "station.line.rate=20/Mbit/s"),
        ("station.web.speed=1.2.3", "station.line.rate=20/Mbit/s"),
        ("station.line.rate=./Mbit/s", "station.line.rate=20/Mbit/s"),
        ("station.wbe.speed=3", "did you mean web"),
        ("station.web.discipline=3", "known"),
    ],
)
def test_a_price_that_cannot_be_meant(price: str, word: str) -> None:
    with pytest.raises(CouldNotRun) as failure:
        parse_price(price, read("public-site"))
    assert word in str(failure.value)


@pytest.mark.parametrize("sweep", ["station.line.rate=1..2", "station.line.rate=1Mbit/s", "traffic=2..1", "x.y=1..2"])
def test_a_sweep_that_cannot_be_meant(sweep: str) -> None:
    with pytest.raises(CouldNotRun):
        parse_sweep(sweep, read("public-site"))


def test_growth_until_saturation() -> None:
    assert parse_growth("2%/month") == pytest.approx(1.02**12)
    found = grow(read("public-site"), parse_growth("+30 %/year"), date(2026, 11, 22), 1.5)
    # 22.05 over 5 requests per second is reached after ln 4.41 / ln 1.3 = 5.656 years.
    assert found.saturated_station == "line"
    assert found.saturated_on == "2032-07-18"
    assert found.target_missed_on == "2028-06-08"
    assert grow(read("public-site"), 1.3, date(2026, 11, 22), None).target_missed_on is None
    for text in ("30 per year", "1.2.3%/year", ".%/year"):
        with pytest.raises(CouldNotRun, match="30%/year"):
            parse_growth(text)


def test_a_closed_system_grows_to_its_saturation_population() -> None:
    found = grow(read("isp-with-proxy", "class.members.users=3"), 2.0, date(2026, 1, 1), None)
    assert found.traffic_factor_at_saturation == pytest.approx(6.46 / 3, rel=1e-3)


def test_means_by_size_average_to_the_mean() -> None:
    # Every conditional mean here is linear in the size, so at the mean size it is the mean.
    for name in NAMES:
        system = read(name).system
        for solver, outcome in queueing.predict(system)["solvers"].items():
            if outcome["answer"] is None:
                continue
            for each, found in by_size(system, solver, outcome["answer"]).items():
                line = np.polynomial.Polynomial.fit(found.sizes_bytes, found.mean_seconds, 1)
                expected = outcome["answer"]["classes"][each]["response_time_seconds"]["mean"]
                assert line(MEAN_DOCUMENT) == pytest.approx(expected, rel=1e-4), (name, solver)


@pytest.mark.parametrize(("servers", "rate", "wait"), [(1, 0.8, 4.0), (2, 1.6, 16 / 9)])
def test_a_fifo_wait_is_the_same_for_all_sizes(tmp_path: Path, servers: int, rate: float, wait: float) -> None:
    # M/M/1 and M/M/2 at a utilisation of 0.8, with a mean demand of a second.
    document = written(
        tmp_path,
        f"""
        document = {{ law = "exponential", mean = "10KB" }}
        [stations]
        line = {{ discipline = "fifo", servers = {servers}, demand = {{ per_byte = "100us/B" }} }}
        helpers = {{ discipline = "lps", r = 2, demand = {{ law = "exponential", mean = "100ms" }} }}
        [classes.all]
        rate = "{rate}/s"
        route = ["line", "helpers"]
        """,
    )
    solvers = queueing.predict(document.system)["solvers"]
    for name in ("open", "exact-lps"):
        answer = solvers[name]["answer"]
        assert answer is not None, solvers[name]["refusal"]
        found = by_size(document.system, name, answer)["all"]
        behind = answer["stations"]["helpers"]["residence_time_seconds"]
        expected = wait + 1e-4 * found.sizes_bytes + behind
        # The solvers scale the wait of the helpers by what the departures of the line are; Eq. 2.1 does not.
        assert found.mean_seconds == pytest.approx(expected, rel=0.01), name


def test_an_impossible_target_says_what_remains() -> None:
    target, document = parse_target("mean < 150ms at 40 req/s", read("public-site"))
    told: list[tuple[float, str]] = []
    found = plan(
        document,
        target,
        Evaluator(target.metric),
        Questions(
            sweeps=[parse_sweep("traffic=0.1..0.5", document)],
            priced=[parse_price("station.web.speed=50", document)],
        ),
        lambda share, what: told.append((share, what)),
    )
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, pytest.approx(1))
    assert {"largest traffic", "cheapest mix", "sweep of traffic"} <= {what for _, what in told}
    assert not found.reachable
    assert found.floor_seconds == pytest.approx(0.195, rel=0.01)
    assert found.floor_because == "backbone"
    assert found.now.unstable_station == "line"
    assert all(lever.needed is None for lever in found.levers)
    (sweep,) = found.sweeps
    assert len(sweep.points) == 13
