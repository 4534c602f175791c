"""The model of an application: stretched CPU time, places that are held, the fit, what changes give, and costs."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.applications import synthetic
from sojourn import _native
from sojourn.applications import answer, balance, demands, fitting, held_out, prices, simulation, system_file
from sojourn.applications.changes import Starting, changes
from sojourn.applications.climb import idle_use
from sojourn.applications.contention import Load, stretches
from sojourn.applications.diagnosis import CoreGroup, Evidence
from sojourn.applications.endpoints import Endpoint
from sojourn.applications.modification import Modification
from sojourn.applications.network import STOPPED_DEARER_MAX, Background, Network, Places, Serial, shape_of
from sojourn.applications.requests import Asked
from sojourn.applications.summary import (
    ApplicationSummary,
    Cause,
    Demand,
    EndpointDescription,
    EndpointFigures,
    HeldOutFigure,
    Knee,
    StepFigures,
    TierDescription,
    VerifiedChange,
)
from sojourn.applications.verification import execution, planned
from sojourn.assessment.request import EffortName
from sojourn.failure import CouldNotRun
from sojourn.report.application.terminal import demand_table
from sojourn.results.records import Interval
from sojourn.tiers.declaration import Tier
from sojourn.tiers.watch import DatabaseUse, TierUse

PAGE, SEARCH = "GET /", "GET /search"
SHARES = {PAGE: 0.75, SEARCH: 0.25}
STEP_SECONDS = 5.0
TIERS = [
    TierDescription(name="web", declared="web=port:80", command="nginx", cores=[0, 1], port=80),
    TierDescription(name="app", declared="app=port:8000", command="python", cores=[0, 1], port=8000),
    TierDescription(name="db", declared="db=port:5432", command="postgres", cores=[0, 1], port=5432),
]
KNOWN = [Endpoint(name, "GET", (Asked("GET", name.removeprefix("GET "), 200, 5, 5),)) for name in (PAGE, SEARCH)]


@pytest.mark.parametrize("load", [0.5, 1.0, 1.6, 1.8])
def test_cpu_time_on_two_cores_is_stretched_as_in_a_queue_with_two_servers(load: float) -> None:
    found = stretches([Load(load, None)], 2, 0.0)
    assert found is not None
    assert found[0].whole == pytest.approx(1 / (1 - (load / 2) ** 2), rel=0.1)


def test_one_core_is_processor_sharing_and_a_full_one_has_no_answer() -> None:
    found = stretches([Load(0.6, None), Load(0.2, None)], 1, 0.1)
    assert found is not None
    assert [each.whole for each in found] == pytest.approx([10.0, 10.0], rel=1e-3)
    assert stretches([Load(0.6, None), Load(0.4, None)], 1, 0.05) is None


def test_a_process_that_takes_turns_queues_for_itself_and_not_for_cores() -> None:
    found = stretches([Load(0.8, 1)], 4, 0.0)
    assert found is not None
    assert found[0].of_core == pytest.approx(1.0)
    assert found[0].whole == pytest.approx(5.0)
    assert stretches([Load(1.1, 1)], 4, 0.0) is None


@pytest.mark.parametrize("fall", [0.0, 0.6])
def test_demands_are_found_from_other_mixes_though_a_request_takes_less_on_busy_cores(fall: float) -> None:
    random = np.random.default_rng(1)
    true = {"web": (0.0002, 0.0001), "app": (0.004, 0.001), "db": (0.0005, 0.008)}
    steps = []
    for _ in range(24):
        rates = random.uniform(5, 110, 2)
        used = {tier: float(np.dot(rates, seconds)) for tier, seconds in true.items()}
        total = sum(used.values())
        # As much as makes the cores that busy.
        busy = min(2.0, total * (1 + fall) / (1 + fall * total / 2))
        more = 1 + fall * (1 - busy / 2)
        each = [
            EndpointFigures(
                name=name, offered_requests_per_second=rate, requests_per_second=rate, failures=0, unfinished=0,
                response_time_mean_seconds=0.01, response_time_p50_seconds=None, response_time_p95_seconds=None,
                response_time_p99_seconds=None,
            )
            for name, rate in zip((PAGE, SEARCH), rates, strict=True)
        ]  # fmt: skip
        steps.append(
            StepFigures(
                kind="mix",
                offered_requests_per_second=1,
                requests_per_second=1,
                failed_fraction=0.0,
                endpoints=each,
                response_time_mean_seconds=None,
                response_time_p95_seconds=None,
                in_system=1,
                machine_busy_cores=busy,
                tiers={
                    tier: TierUse(cpu_cores=cores * more * float(random.normal(1, 0.02)))
                    for tier, cores in used.items()
                },
            )
        )
    found = demands.measure(steps, [PAGE, SEARCH], TIERS, 1, {})
    for demand in found.demands:
        expected = true[demand.tier][(PAGE, SEARCH).index(demand.endpoint)]
        if expected >= 0.001:
            assert demand.identifiable
            assert demand.seconds.estimate == pytest.approx(expected, rel=0.12)
    assert found.falls["app"] == pytest.approx(fall, abs=0.25)
    assert all(error < 0.05 for error in found.errors.values())
    for step in steps:
        step.endpoints[1].requests_per_second = 2 * step.endpoints[0].requests_per_second
    together = demands.measure(steps, [PAGE, SEARCH], TIERS, 1, {})
    assert not any(each.identifiable for each in together.demands)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_tier_uses_without_a_load_is_not_a_request_s(seed: int) -> None:
    random = np.random.default_rng(seed)
    idle, page = 0.03, 0.004
    # As in an assessment at low rates: the two rise together, but for a few steps.
    mixes = [(rate, rate) for rate in (1, 2, 3, 5, 8, 3, 5, 6, 7, 7.5, 8)] + [(9, 3), (3, 9), (6, 2)] * 2
    steps = [
        low_step(rates, idle + page * rates[0] + float(random.normal(0, (0.1 * page * rates[0]) ** 0.5 * 0.05)))
        for rates in mixes
    ]
    parts = [float(each) for each in random.normal(idle, 0.004, 6)]
    tiers = [TIERS[1].model_copy(update={"idle": idle_use(parts, 3.0)})]
    found = demands.measure(steps, [PAGE, SEARCH], tiers, 1, {})
    # All cores were idle: how much less a request takes on busy ones was not seen, and is not made up.
    assert found.falls == {"app": 0.0}
    pages, static = found.demands
    assert pages.identifiable
    assert pages.seconds.low <= page <= pages.seconds.high
    assert static.seconds.low == 0.0
    assert not static.identifiable
    # It is in the way of whoever wants the cores, all the same.
    assert fitting.background(steps, tiers).at(0) == pytest.approx(idle, abs=0.01)


def test_cpu_time_within_what_an_idle_tier_s_use_varies_by_is_no_number() -> None:
    # Exactly known to the fit, but less even at the highest load than what the tier does anyway.
    mixes = [(rate, 10.0 - rate) for rate in range(1, 10)] + [(2 * rate, rate) for rate in range(1, 5)]
    steps = [low_step(rates, 0.05 + 0.004 * rates[0] + 0.0005 * rates[1]) for rates in mixes]
    noisy = [TIERS[1].model_copy(update={"idle": idle_use([0.0, 0.1, 0.01, 0.09, 0.02, 0.08], 3.0)})]
    pages, static = demands.measure(steps, [PAGE, SEARCH], noisy, 1, {}).demands
    assert not static.identifiable
    quiet = [TIERS[1].model_copy(update={"idle": idle_use([0.05] * 6, 3.0)})]
    pages, static = demands.measure(steps, [PAGE, SEARCH], quiet, 1, {}).demands
    assert pages.identifiable
    assert static.identifiable
    assert static.seconds.estimate == pytest.approx(0.0005, rel=0.05)


def test_databases_are_asked_as_often_as_their_processes_are_switched() -> None:
    mixes = [(rate, rate / 3) for rate in (2.0, 5.0, 9.0, 20.0, 40.0)] + [(30.0, 1.0), (2.0, 20.0)]
    steps = [low_step(rates, 0.1) for rates in mixes]
    for step, (pages, searches) in zip(steps, mixes, strict=True):
        step.tiers["app"].voluntary_switches_per_second = 25.0 + 3.1 * pages + 0.9 * searches
    database = [TIERS[1].model_copy(update={"command": "postgres -D data"})]
    assert demands.calls(steps, [PAGE, SEARCH], database) == {(PAGE, "app"): 3}
    # Whoever serves clients is asked once, whatever else switches its threads.
    server = [TIERS[1].model_copy(update={"command": "python app.py"})]
    assert demands.calls(steps, [PAGE, SEARCH], server) == {}


def low_step(rates: tuple[float, float], cores: float) -> StepFigures:
    """A step at these rates of the two endpoints, in which the application uses so many cores."""
    each = [
        EndpointFigures(
            name=name, offered_requests_per_second=rate, requests_per_second=rate, failures=0, unfinished=0,
            response_time_mean_seconds=0.01, response_time_p50_seconds=None, response_time_p95_seconds=None,
            response_time_p99_seconds=None,
        )
        for name, rate in zip((PAGE, SEARCH), rates, strict=True)
    ]  # fmt: skip
    return StepFigures(
        kind="mix", offered_requests_per_second=sum(rates), requests_per_second=sum(rates), failed_fraction=0.0,
        endpoints=each, response_time_mean_seconds=None, response_time_p95_seconds=None, in_system=1,
        machine_busy_cores=cores, tiers={"app": TierUse(cpu_cores=cores)},
    )  # fmt: skip


def network(**more: object) -> Network:
    base = Network(
        endpoints=(PAGE, SEARCH),
        tiers=("web", "app", "db"),
        groups=(CoreGroup(("web", "app", "db"), 2),),
        demands={
            (PAGE, "web"): 0.0002, (PAGE, "app"): 0.003, (PAGE, "db"): 0.001,
            (SEARCH, "web"): 0.0002, (SEARCH, "app"): 0.002, (SEARCH, "db"): 0.006,
        },
        waits={PAGE: 0.02, SEARCH: 0.002},
        processes={"web": 1, "app": 2},
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def test_limits_are_those_of_each_resource() -> None:
    limits = network(places=(Places("workers", "app", 4),), serial=Serial("lock", "db", 0.01)).limits(SHARES)
    mean = 0.75 * 0.0042 + 0.25 * 0.0082
    # Two processes that always run leave cores idle where nobody else does.
    assert 0.75 * 2 / mean < limits["cores of web, app, db"] < 2 / mean
    assert network(processes={}).limits(SHARES)["cores of web, app, db"] == pytest.approx(2 / mean, rel=0.01)
    assert limits["processes of app"] == pytest.approx(2 / (0.75 * 0.003 + 0.25 * 0.002))
    assert limits["lock of db"] == pytest.approx(100)
    alone = 4 / (0.75 * 0.024 + 0.25 * 0.010)
    # Cores that are in use stretch the time that places are held.
    assert 0.8 * alone < limits["workers of app"] < alone


def test_a_request_waits_for_its_turn_again_after_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.applications.simulation.REPLICATIONS", 3)
    once = network(waits={PAGE: 0.0, SEARCH: 0.0})
    often = replace(once, calls={(name, "db"): 5 for name in (PAGE, SEARCH)})
    rates = {name: 0.75 * once.capacity(SHARES) * share for name, share in SHARES.items()}
    # Where nobody else is there, it is the same CPU time in pieces.
    whole, pieces = (simulation.simulated(each, {PAGE: [1.0]}, 2.0, 1) for each in (once, often))
    assert whole is not None
    assert pieces is not None
    assert pieces[PAGE].means.mean() == pytest.approx(whole[PAGE].means.mean(), rel=1e-3)
    text = system_file.for_requests(often, rates, {"e0": PAGE})
    route = next(line for line in text.splitlines() if line.startswith("visits"))
    # Of two processes of the application and one of the web server: 6 turns and 2.
    assert [route.count(f'"{process}",') for process in ("app-0", "web-0")] == [6, 2]
    # The query with the work, 1 ms, and four that begin and end things.
    assert route.count('"cores-0"') == 6 + 2 + 5
    assert route.count("1000ns/B") == 1


def test_a_long_query_among_short_ones_comes_after_those_that_have_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.applications.simulation.REPLICATIONS", 3)
    long = {**network().demands, (PAGE, "db"): 0.0001, (SEARCH, "db"): 0.2}
    found = network(demands=long, waits={PAGE: 0.0, SEARCH: 0.0}, shapes={name: (1.0,) for name in (PAGE, SEARCH)})
    asking = replace(found, calls={(PAGE, "db"): 10, (SEARCH, "db"): 10})
    arrivals = due({PAGE: 20.0, SEARCH: 7.0}, 200.0, 1)
    once, often = (simulation.simulated(each, arrivals, 200.0, 1) for each in (found, asking))
    alone = simulation.simulated(asking, {PAGE: [1.0]}, 2.0, 1)
    assert once is not None
    assert often is not None
    assert alone is not None
    # Of 22 turns each waits for less than what is left of a slice of 1.4 ms, if it waits.
    assert often[PAGE].means.mean() < alone[PAGE].means.mean() + 0.022
    assert often[SEARCH].means.mean() == pytest.approx(once[SEARCH].means.mean(), rel=0.05)


def test_a_process_keeps_its_turn_longer_than_its_thread_a_core() -> None:
    long = {**network().demands, (PAGE, "app"): 0.014}
    text = system_file.for_requests(network(demands=long), {PAGE: 1.0}, {"e0": PAGE})
    route = next(line for line in text.splitlines() if line.startswith("visits"))
    # Half before the query and half after it: 7 ms in turns of at most 5 ms, each in slices of at most 1.4 ms.
    assert route.count('"app-0",') == 4
    assert route.count('holds = "app-0"') == 4 * 3
    assert route.count('priority = true, holds = "app-0"') == 4


def test_requests_wait_longer_where_one_of_two_processes_takes_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.applications.simulation.REPLICATIONS", 3)
    even = network(waits={PAGE: 0.0, SEARCH: 0.0})
    uneven = replace(even, busiest={"app": 0.9})
    text = system_file.for_requests(uneven, dict(SHARES), {"e0": PAGE})
    assert [line for line in text.splitlines() if line.startswith("probability")] == [
        "probability = 0.900000000",
        "probability = 0.100000000",
    ]
    arrivals = due({name: 0.5 * even.capacity(SHARES) * share for name, share in SHARES.items()}, 100.0, 1)
    shared, kept = (simulation.simulated(each, arrivals, 100.0, 1) for each in (even, uneven))
    assert shared is not None
    assert kept is not None
    assert kept[PAGE].means.mean() > 1.1 * shared[PAGE].means.mean()


def test_a_process_that_never_sleeps_needs_no_more_on_a_core_of_two() -> None:
    demands = {(PAGE, "app"): 0.003, (SEARCH, "app"): 0.003}
    many = network(demands=demands, processes={}, falls={"app": 1.0})
    one = replace(many, processes={"app": 1})
    nearly_full = {PAGE: 150.0, SEARCH: 150.0}
    # It uses 0.9 cores, and 0.9 (1 + 1 - u) = u of its process, or 2 u of the cores.
    assert many.larger(nearly_full)["app"] == pytest.approx(2 - 1.8 / 2.9)
    assert one.larger(nearly_full)["app"] == pytest.approx(2 - 1.8 / 1.9)
    assert one.limits({PAGE: 0.5, SEARCH: 0.5})["processes of app"] == pytest.approx(1 / 0.003)


@pytest.mark.parametrize("share", [0.5, 0.6, 0.9])
def test_the_busiest_process_s_share_is_told_from_chance(share: float) -> None:
    even = replace(network(), variations={PAGE: 0.0, SEARCH: 0.0})
    step = measured(even, 40.0, SHARES, "climb", 1)
    seconds = np.array([even.demands[name, "app"] for name in (PAGE, SEARCH)])
    random, sampled = np.random.default_rng(2), []
    for _ in range(4_000):
        counts = random.poisson(40.0 * np.outer([share, 1 - share], [SHARES[PAGE], SHARES[SEARCH]]))
        used = counts @ seconds
        sampled.append(used.max() / used.sum())
    app = TierUse(cpu_cores=0.1, busiest_process_cores=0.1 * float(np.mean(sampled)))
    found = balance.busiest(even, step.model_copy(update={"tiers": {**step.tiers, "app": app}}))
    assert found == {"app": pytest.approx(share, abs=0.04)}


@pytest.mark.parametrize(("slope", "wait"), [(1.0, 0.05), (4.0, 0.06), (30.0, 0.04)])
def test_a_wait_is_found_where_it_makes_others_wait(slope: float, wait: float) -> None:
    def response(seconds: float) -> float:
        return seconds + slope * max(0.0, seconds - 0.02) ** 2 / 0.04

    search, found = fitting.WaitSearch(), 0.0
    for _ in range(fitting.WAIT_ROUNDS):
        found = search.following(found, response(wait) - response(found))
    assert found == pytest.approx(wait, rel=0.1)


def test_an_event_loop_s_passes_are_half_of_what_is_switched_at_little_load() -> None:
    def step(rate: float, switches: float, cores: float) -> StepFigures:
        app = TierUse(cpu_cores=cores, busiest_process_cores=cores, voluntary_switches_per_second=switches)
        figures = measured(network(), rate, SHARES, "explore", 1)
        return figures.model_copy(update={"tiers": {"app": app}, "requests_per_second": rate})

    steps = [step(2.0, 100.0, 0.01), step(20.0, 160.0, 0.05), step(50.0, 390.0, 0.1), step(400.0, 800.0, 0.6)]
    found = [
        fitting.passes(steps, [TierDescription(name="app", declared="", command=command)])
        for command in ("node", "gunicorn")
    ]
    assert found == [{"app": 4}, {}]
    assert fitting.passes(steps[:1], [TierDescription(name="app", declared="", command="node")]) == {}


def test_a_request_waits_for_its_turn_again_after_each_pass_of_an_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.applications.simulation.REPLICATIONS", 3)
    shapes = {name: (1.0,) for name in (PAGE, SEARCH)}
    once = network(waits={PAGE: 0.0, SEARCH: 0.0}, processes={"web": 1, "app": 1}, shapes=shapes)
    loop = replace(once, passes={"app": 8})
    alone = [simulation.simulated(each, {PAGE: [1.0]}, 2.0, 1) for each in (once, loop)]
    busy = due({name: 0.8 * once.capacity(SHARES) * share for name, share in SHARES.items()}, 100.0, 1)
    beside = [simulation.simulated(each, busy, 100.0, 1) for each in (once, loop)]
    (alone_once, alone_loop), (beside_once, beside_loop) = (
        [figures[PAGE].means.mean() for figures in pair if figures is not None] for pair in (alone, beside)
    )
    assert alone_loop == pytest.approx(alone_once, rel=1e-3)
    # Of equal works, a queue has half as much waiting in it as equal sharing.
    assert 1.2 * beside_once < beside_loop < 2 * beside_once


def test_processes_that_share_the_work_are_counted_over_all_steps_beyond_the_knee() -> None:
    def beyond(busiest: float) -> StepFigures:
        app = TierUse(cpu_cores=0.15, busiest_process_cores=busiest)
        return measured(network(), 50.0, SHARES, "climb", 1).model_copy(update={"tiers": {"app": app}})

    tiers = [TierDescription(name="app", declared="", command="gunicorn")]
    assert fitting.turns([beyond(0.102)], tiers) == {"app": 1}
    assert fitting.turns([beyond(0.096), beyond(0.094), beyond(0.102)], tiers) == {"app": 2}


def test_a_tier_that_is_a_single_thread_which_never_sleeps_does_one_thing_at_a_time() -> None:
    def turns(thread: float | None, waits: float) -> dict[str, int]:
        app = TierUse(cpu_cores=0.83, busiest_process_cores=0.82, busiest_thread_cores=thread, core_wait_threads=waits)
        top = measured(network(), 50.0, SHARES, "overload", 1).model_copy(update={"tiers": {"app": app}})
        return fitting.turns([top], [TierDescription(name="app", declared="", command="php-fpm8.2")])

    assert turns(0.82, 0.08) == {"app": 1}
    assert turns(0.82, 0.01) == {}
    assert turns(0.5, 0.5) == {}
    assert turns(None, 0.08) == {}


def test_requests_are_let_in_in_turn_by_programs_that_do_one_at_a_time() -> None:
    top = measured(network(), 100.0, SHARES, "overload", 1)
    full = TierUse(cpu_cores=0.92, core_wait_threads=0.05, accept_queue=90.0, threads=2, processes=2)
    top = top.model_copy(update={"tiers": {"app": full}, "in_system": 100.0})

    def admitted(command: str, step: StepFigures = top) -> Places | None:
        tiers = [TierDescription(name="app", declared="", command=command)]
        return answer._admits(network(), "app", Evidence([], step, tiers))

    assert admitted("php-fpm8.2") == Places("workers", "app", 1, is_shared=True)
    assert admitted("nginx") is None
    accepted = top.model_copy(update={"tiers": {"app": full.model_copy(update={"accept_queue": 0.0})}})
    assert admitted("php-fpm8.2", accepted) is None


def test_no_more_requests_are_worked_on_than_workers_have_connections() -> None:
    found = network()
    below, top = (measured(found, rate, SHARES, "climb", 1) for rate in (10.0, 100.0))

    def admitted(bottleneck: str, connections: float, present: float = 100.0) -> Places | None:
        for step, incoming in ((below, 1.0), (top, 90.0)):
            step.tiers["app"].incoming_connections = incoming
            step.tiers["app"].outgoing_connections = {"10.0.0.1:5432": connections, "10.0.0.9:443": 50.0}
            step.tiers["app"].connection_samples = 4
        top.in_system = present
        return answer._connected(found, bottleneck, Evidence([below], top, TIERS))

    # Four in each of the two processes, whichever tier is busy behind them.
    assert admitted("db", 8.1) == admitted("app", 7.8) == Places("workers", "app", 8)
    assert admitted("web", 8.0) is None
    # Nobody waits for one, or there are none.
    assert admitted("app", 8.0, present=11.0) is None
    assert admitted("app", 0.0) is None


def test_workers_of_a_process_wait_for_its_turn() -> None:
    found = network(admits=Places("workers", "app", 8))
    text = system_file.for_requests(found, {PAGE: 1.0}, {"e0": PAGE})
    assert text.count("r = 4") == 2
    assert text.count('{ station = "app-0", holds = "places-0" }') == 2
    assert 'priority = true, holds = ["places-0", "app-0"]' in text
    assert 'holds = ["places-0", "app-1"]' not in text
    assert simulation.simulated(found, {PAGE: [1.0, 1.0]}, 2.0, 1, replications=2) is not None


def test_long_requests_are_cut_into_as_many_slices_as_a_route_may_have() -> None:
    long = {**network().demands, (PAGE, "app"): 20.0}
    found = network(demands=long, processes={"app": 1}, shapes={PAGE: (1.0,)})
    text = system_file.for_requests(found, {PAGE: 1.0}, {"e0": PAGE})
    assert 0.4 * system_file.VISITS_MAX < text.count("station =") <= system_file.VISITS_MAX
    told = simulation.simulated(found, {PAGE: [0.0]}, 1.0, 1, replications=1)
    assert told is not None
    assert told[PAGE].means.mean() == pytest.approx(20.0, rel=0.01)


def test_who_has_slept_comes_before_those_that_had_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.applications.simulation.REPLICATIONS", 3)
    long = {**network().demands, (PAGE, "db"): 0.0001, (SEARCH, "db"): 0.2}
    found = network(demands=long, waits={PAGE: 0.0, SEARCH: 0.0}, shapes={name: (1.0,) for name in (PAGE, SEARCH)})
    arrivals = due({PAGE: 20.0, SEARCH: 7.0}, 200.0, 1)
    by_turns = simulation.simulated(found, arrivals, 200.0, 1)
    monkeypatch.setattr("sojourn.applications.system_file.AHEAD", "")
    in_line = simulation.simulated(found, arrivals, 200.0, 1)
    assert by_turns is not None
    assert in_line is not None
    # A page takes 3.3 ms. Its six parts wait for what is left of a slice of 1.4 ms each, not for those of all searches.
    assert by_turns[PAGE].means.mean() < 0.0033 + 6 * 0.0007
    assert in_line[PAGE].means.mean() > 0.0033 + 6 * 0.0007
    assert in_line[SEARCH].means.mean() == pytest.approx(by_turns[SEARCH].means.mean(), rel=0.05)


def test_what_a_tier_hardly_works_for_does_not_visit_it() -> None:
    demands = {**network().demands, (PAGE, "db"): 1e-6}
    text = system_file.for_requests(network(demands=demands, calls={(PAGE, "db"): 4}), {PAGE: 1.0}, {"e0": PAGE})
    # One turn of 3 ms, in slices of at most 1.4 ms.
    assert text.count('"app-0",') == 1
    assert text.count('holds = "app-0"') == 3


def test_solvers_see_the_cores_that_tiers_share() -> None:
    found = network(background=Background(0.2), processes={})
    for fraction, takes in ((0.9, True), (1.1, False)):
        rates = {name: fraction * found.capacity(SHARES) * share for name, share in SHARES.items()}
        solved = _native.predict_system(system_file.for_solvers(found, rates))
        assert (solved["solvers"]["open"]["answer"] is not None) == takes
    alone = network(processes={"web": 1, "app": 1}, background=Background())
    rates = {name: 0.9 * alone.capacity(SHARES) * share for name, share in SHARES.items()}
    text = system_file.for_solvers(alone, rates)
    # One interpreter is a core of two.
    assert '[stations."app"]\ndiscipline = "ps"\nservers = 1' in text


def test_beyond_what_it_can_take_there_are_no_response_times_but_those_of_a_while() -> None:
    found = network(places=(Places("workers", "app", 4),))
    over = {name: 1.05 * found.capacity(SHARES) * share for name, share in SHARES.items()}
    short, longer = (simulation.simulated(found, due(over, seconds, 1), seconds, 1) for seconds in (5.0, 20.0))
    assert short is not None
    assert longer is not None
    assert found.waits[PAGE] < short[PAGE].means.mean() < 0.7 * longer[PAGE].means.mean()
    assert simulation.simulated(network(background=Background(2.5)), due(over, 5.0, 1), 5.0, 1) is None


def test_requests_wait_for_those_that_were_there_before_the_measured_time() -> None:
    alike = {PAGE: (1.0,), SEARCH: (1.0,)}
    demands = {(PAGE, "app"): 0.1, (SEARCH, "app"): 0.3}
    found = network(shapes=alike, demands=demands, waits=dict.fromkeys(SHARES, 0.0), processes={"app": 1})
    alone = simulation.simulated(found, {PAGE: [1.0]}, 100.0, 1)
    behind = simulation.simulated(found, {PAGE: [1.0, 50.0], SEARCH: [-0.2, 150.0]}, 100.0, 1)
    beside = simulation.simulated(found, {PAGE: [0.0, 50.0], SEARCH: [-0.2]}, 100.0, 1)
    assert alone is not None
    assert behind is not None
    assert beside is not None
    assert alone[PAGE].means.mean() == pytest.approx(0.1, rel=0.01)
    assert behind[PAGE].means.mean() == pytest.approx(0.1, rel=0.01)
    # 0.1 s are left of the search: each has half of the process, in turns of 5 ms.
    assert beside[PAGE].means.mean() == pytest.approx((0.2 + 0.1) / 2, abs=0.003)
    assert set(beside) == {PAGE}


def test_at_little_load_the_spread_is_that_which_was_measured() -> None:
    values = np.sort(np.random.default_rng(1).lognormal(-4, 0.5, 20_000))
    quantiles = [float(np.quantile(values, place / 20)) for place in range(1, 20)]
    shape = shape_of([quantiles], [1.0])
    assert np.mean(shape) == pytest.approx(1.0)
    assert np.quantile(shape, 0.95) == pytest.approx(quantiles[-1] / values.mean(), rel=0.05)
    found = simulation.simulated(
        network(shapes={PAGE: shape, SEARCH: shape}), due({PAGE: 0.2, SEARCH: 0.1}, 2e4, 1), 2e4, 1
    )
    assert found is not None
    assert found[PAGE].p95s.mean() == pytest.approx(0.0242 * quantiles[-1] / values.mean(), rel=0.1)


def due(rates: dict[str, float], seconds: float, seed: int) -> dict[str, list[float]]:
    """Poisson arrivals."""
    random = np.random.default_rng(seed)
    return {
        name: [float(each) for each in np.sort(random.uniform(0, seconds, random.poisson(rate * seconds)))]
        for name, rate in rates.items()
    }


def measured(truth: Network, rate: float, shares: dict[str, float], kind: str, seed: int) -> StepFigures:
    """A step of a system that is a network, by simulation."""
    rates = {name: rate * share for name, share in shares.items()}
    random, arrivals = np.random.default_rng(seed), due(rates, STEP_SECONDS, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sojourn.applications.simulation.REPLICATIONS", 12)
        found = simulation.simulated(truth, arrivals, STEP_SECONDS, seed)
    assert found is not None
    each = [
        EndpointFigures(
            name=name, offered_requests_per_second=rates[name], requests_per_second=rates[name], failures=0,
            unfinished=0, response_time_mean_seconds=mean, response_time_p50_seconds=None,
            response_time_p95_seconds=p95, response_time_p99_seconds=None,
            response_time_quantiles_seconds=[] if mean is None else [
                -math.log(1 - place / 20) * mean for place in range(1, 20)
            ],
            requests=len(arrivals[name]), due_seconds=arrivals[name],
        )
        for name in rates
        for mean, p95 in [(found[name].means.mean(), found[name].p95s.mean()) if name in found else (None, None)]
    ]  # fmt: skip
    used = {
        tier: sum(rates[name] * truth.demands[name, tier] for name in rates) * float(random.normal(1, 0.01))
        for tier in truth.tiers
    }
    in_system = sum(rates[name] * found[name].means.mean() for name in rates)
    return StepFigures(
        kind=kind, offered_requests_per_second=rate, requests_per_second=rate, failed_fraction=0.0,
        response_time_mean_seconds=in_system / rate, response_time_p95_seconds=None, in_system=in_system,
        endpoints=each,
        tiers={
            tier: TierUse(cpu_cores=cores, busiest_process_cores=cores / truth.processes.get(tier, 8))
            for tier, cores in used.items()
        },
        machine_busy_cores=sum(used.values()) + truth.background.at(rate), measured_seconds=STEP_SECONDS,
    )  # fmt: skip


def assessed(truth: Network, top: dict[str, object]) -> tuple[ApplicationSummary, Starting | None]:
    """What an assessment concludes of a system that is a network."""
    knee = truth.capacity(SHARES)
    steps = [measured(truth, fraction * knee, SHARES, "climb", seed) for seed, fraction in enumerate((0.3, 0.6, 0.85))]
    mixes = ({PAGE: 0.9, SEARCH: 0.1}, {PAGE: 0.6, SEARCH: 0.4}, {PAGE: 0.3, SEARCH: 0.7}, {PAGE: 0.98, SEARCH: 0.02})
    for seed, mix in enumerate(mixes * 3):
        rate = (0.2 + 0.1 * (seed % 3)) * truth.capacity(mix)
        steps.append(measured(truth, rate, mix, "mix", 100 + seed))
    last = measured(truth, 0.97 * knee, SHARES, "overload", 50)
    beyond = last.model_copy(update={"failed_because": "too much", "in_system": 300.0, **top}, deep=True)
    summary = ApplicationSummary(
        sojourn_version="", started_at="", log_name="", target="", log_requests=1, covered_fraction=1.0,
        peak_requests_per_second=1.0, required_requests_per_second=1.0, endpoints=[], left_out=[], tiers=TIERS,
        steps=[*steps, beyond],
        knee=Knee(
            requests_per_second=Interval(estimate=knee, low=0.95 * knee, high=1.05 * knee), is_lower_bound=False,
            stopped_because="",
        ),
    )  # fmt: skip
    return summary, answer.conclude(summary, beyond, SHARES, None, 1)


@pytest.fixture(scope="module")
def plain() -> ApplicationSummary:
    return assessed(network(), {})[0]


def test_a_system_that_is_such_a_network_is_found_and_predicted_where_it_was_not_fitted() -> None:
    truth = network(background=Background(0.05, 0.0001))
    full = {tier: TierUse(cpu_cores=cores, busiest_process_cores=cores / 2) for tier, cores in FULL.items()}
    summary, starting = assessed(truth, {"tiers": full})
    assert starting is not None
    assert summary.bottleneck is not None
    assert (summary.bottleneck.tier, summary.bottleneck.cause) == ("app", "cpu")
    assert summary.model is not None
    assert summary.model.believed
    assert summary.model.errors["mean"] < 0.1
    assert summary.model.processes == {"web": 2, "app": 2}
    assert starting.network.waits[PAGE] == pytest.approx(0.02, rel=0.1)
    loads = {each.offered_requests_per_second for each in summary.model.held_out}
    assert len(loads) == 2, "only steps that it was not fitted on"
    twice = next(each for each in summary.changes if each.setting == "cores=x2")
    real = replace(truth, groups=(CoreGroup(("web", "app", "db"), 4),)).capacity(SHARES)
    assert twice.capacity.estimate == pytest.approx(real, rel=0.1)


def test_workers_that_are_used_up_are_counted_and_more_of_them_predicted() -> None:
    truth = network(waits={PAGE: 0.1, SEARCH: 0.1}, places=(Places("workers", "app", 8),))
    summary, starting = assessed(truth, {})
    assert summary.bottleneck is not None
    assert (summary.bottleneck.tier, summary.bottleneck.cause) == ("app", "workers")
    assert starting is not None
    assert starting.network.places[0].count == pytest.approx(8, abs=1)
    real = replace(truth, places=(Places("workers", "app", 16),)).capacity(SHARES)
    more = starting.change(Modification.parse("app.workers=8->16", KNOWN, ["web", "app", "db"]), None)
    assert more.capacity.estimate == pytest.approx(real, rel=0.1)
    far = starting.change(Modification.parse("app.workers=8->800", KNOWN, ["web", "app", "db"]), None)
    assert far.limited_by == "cores of web, app, db"


@pytest.mark.parametrize(("error", "is_mended"), [(0.8, True), (1.25, True), (0.4, False)])
def test_waits_are_those_by_which_all_places_are_held_beyond_the_knee(error: float, is_mended: bool) -> None:
    truth = network(places=(Places("workers", "app", 4),))
    knee = truth.capacity(SHARES)
    sustained = [low_step((knee * SHARES[PAGE] * more, knee * SHARES[SEARCH] * more), 1.0) for more in (0.95, 1.05)]
    waits = {name: wait * error for name, wait in truth.waits.items()}
    found = fitting.Fitted(replace(truth, waits=waits), TIERS, [], [])
    filled = answer._filled(found, truth.places[0], sustained).network
    assert filled.waits == pytest.approx(truth.waits if is_mended else waits, rel=0.02)


def test_connections_are_as_many_as_the_database_has_in_use() -> None:
    truth = network(waits={PAGE: 0.1, SEARCH: 0.1}, places=(Places("connections", "app", 8),))
    used = DatabaseUse(
        backends=9.0, active=0.5, in_transaction=7.4, waits={}, commits_per_second=1.0, connections_max=300
    )
    summary, _ = assessed(truth, {"levels": {"pool_waiting": 9.0}, "database": used})
    assert summary.model is not None
    assert summary.model.places == ["8 connections of app"]
    assert summary.model.errors["mean"] < 0.15


def test_requests_wait_for_the_lock_that_another_has() -> None:
    truth = network(waits={PAGE: 0.002, SEARCH: 0.03}, serial=Serial("lock", "db", 0.02 * SHARES[SEARCH], 2 / 3))
    waiting = DatabaseUse(
        backends=17.0, active=15.0, in_transaction=0.3, waits={"Lock": 14.0}, commits_per_second=1.0,
        connections_max=300,
    )  # fmt: skip
    summary, starting = assessed(truth, {"database": waiting})
    assert summary.bottleneck is not None
    assert (summary.bottleneck.tier, summary.bottleneck.cause) == ("db", "lock")
    assert starting is not None
    assert starting.network.alone_seconds(SEARCH) == pytest.approx(0.02, rel=0.1)
    assert starting.network.alone_seconds(PAGE) == 0.0
    assert summary.model is not None
    assert summary.model.errors["mean"] < 0.15


def test_the_disk_works_beside_a_request_and_after_those_before() -> None:
    free = network(waits={PAGE: 0.0, SEARCH: 0.0}, shapes={name: (1.0,) for name in (PAGE, SEARCH)})
    writing = replace(free, serial=Serial("disk", "db", 0.02, uses={PAGE: 0.0, SEARCH: 0.08}))
    once: dict[str, list[float]] = {PAGE: [0.2], SEARCH: [1.0]}
    plain, alone = (simulation.simulated(each, once, 4.0, 1, replications=400) for each in (free, writing))
    crowded = simulation.simulated(writing, due({PAGE: 30.0, SEARCH: 10.0}, 200.0, 1), 200.0, 1, replications=2)
    assert plain is not None
    assert alone is not None
    assert crowded is not None
    cpu = float(plain[SEARCH].means.mean())
    # The longer of the two, of which one is exponential.
    assert alone[SEARCH].means.mean() == pytest.approx(cpu + 0.08 * math.exp(-cpu / 0.08), rel=0.15)
    assert alone[PAGE].means.mean() == pytest.approx(plain[PAGE].means.mean())
    # At 80 % utilisation, 0.4 s.
    assert 0.25 < crowded[SEARCH].means.mean() < 0.7
    assert crowded[PAGE].means.mean() < 0.02


def test_how_long_the_disk_works_is_told_by_the_bytes_of_each_endpoint_alone() -> None:
    truth = network()

    def moving(step: StepFigures, written: float | None, read: float | None = None) -> StepFigures:
        step.tiers["db"].disk_written_bytes_per_second = written
        step.tiers["db"].disk_read_bytes_per_second = read
        return step

    def told(*below: StepFigures) -> dict[str, float]:
        beyond = [moving(measured(truth, 90.0, SHARES, "climb", 1), fast, 2e6) for fast in (7e6, 8e6, 18e6)]
        return fitting.disk_seconds(below, beyond, "db", [PAGE, SEARCH])

    page, search = (measured(truth, 20.0, {name: 1.0}, "mix", 1) for name in (PAGE, SEARCH))
    # 4 MB/s of 20 requests/s, at 20 MB/s.
    moving(page, 0.0), moving(search, 3e6, 1e6)
    assert told(page, search, measured(truth, 20.0, SHARES, "climb", 1)) == {PAGE: 0.0, SEARCH: pytest.approx(0.01)}
    assert told(search) == {}
    assert told(moving(page, None), search) == {}
    assert fitting.disk_seconds([page, search], [moving(page, 0.0)], "db", [PAGE, SEARCH]) == {}


def test_a_low_load_that_was_not_taken_after_one_too_many_tells_nothing_of_the_knee(plain: ApplicationSummary) -> None:
    broken = measured(network(), 2.0, SHARES, "recovery", 1).model_copy(update={"failed_because": "no answers"})
    found, usual = (Evidence(steps, broken, TIERS).beyond for steps in ([*plain.steps, broken], plain.steps))
    assert found == usual != [broken]


def test_a_process_that_has_most_requests_is_the_limit_until_there_are_others() -> None:
    even = network(variations={PAGE: 0.0, SEARCH: 0.0})

    def beyond(rate: float, share: float) -> StepFigures:
        step = measured(even, rate, SHARES, "climb", 1)
        step.tiers["app"] = TierUse(cpu_cores=0.6, busiest_process_cores=0.6 * share)
        return step

    # With more load the other process has the more.
    uneven = balance.limiting(even, [beyond(300.0, 0.6), beyond(200.0, 0.9)])
    assert uneven.busiest == {"app": pytest.approx(0.9, abs=0.02)}
    limit, usual = (each.limits(SHARES)["processes of app"] for each in (uneven, even))
    assert limit == pytest.approx(usual / 2 / uneven.busiest["app"])
    assert balance.limiting(even, [beyond(200.0, 0.55)]).busiest == {}
    more = Modification.parse("app.processes=2->4", KNOWN, ["web", "app", "db"]).applied(uneven, None)
    assert more.limits(SHARES)["processes of app"] == pytest.approx(2 * usual)


def test_a_model_of_another_system_is_not_believed_and_says_nothing_of_changes(plain: ApplicationSummary) -> None:
    summary = plain.model_copy(deep=True)
    for step in summary.steps:
        if step.kind == "climb":
            # As if something that is no station of the network grew with the load.
            for each in step.endpoints:
                each.response_time_mean_seconds = (each.response_time_mean_seconds or 0.0) * (
                    1 + step.offered_requests_per_second / 50
                )
    summary.knee = Knee(
        requests_per_second=Interval(estimate=200, low=190, high=210), is_lower_bound=False, stopped_because=""
    )
    summary.warnings, top = [], summary.steps[-1]
    assert answer.conclude(summary, top, SHARES, None, 1) is None
    assert summary.model is not None
    assert not summary.model.believed
    assert summary.changes == []
    assert len(summary.warnings) >= 2


FULL = {"web": 0.1, "app": 1.1, "db": 0.7}
"""Cores in use beyond the knee."""


def starting(of: Network, cause: str, tier: str = "app") -> Starting:
    knee = of.capacity(SHARES)
    measured_knee = Knee(
        requests_per_second=Interval(estimate=knee, low=0.9 * knee, high=1.1 * knee), is_lower_bound=False,
        stopped_because="",
    )  # fmt: skip
    found = Starting.of(of, Cause(tier=tier, cause=cause, because=""), measured_knee, SHARES, {})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("setting", "factor"),
    [("cores=x2", 2.0), ("db.cpu=x0.5", 1.276), ("cache=60% of GET /search", 1.31), ("service=x0.5", 1.0)],
)
def test_what_changes_give_where_cores_limit(setting: str, factor: float) -> None:
    found = starting(network(processes={}), "cpu").change(
        Modification.parse(setting, KNOWN, ["web", "app", "db"]), None
    )
    assert found.factor == pytest.approx(factor, rel=0.01)
    assert found.capacity.low == pytest.approx(0.9 * found.capacity.estimate)


def test_a_change_that_leaves_nothing_to_limit_is_refused() -> None:
    everything = Modification.parse("cache=100% of GET *", KNOWN, ["web", "app", "db"])
    with pytest.raises(CouldNotRun, match="nothing is left"):
        starting(network(processes={}), "cpu").change(everything, None)


def test_what_others_take_of_the_cores_is_taken_from_what_a_change_gives() -> None:
    of = starting(network(processes={}), "cpu")
    processors = Modification.parse("cores=x2", KNOWN, ["web", "app", "db"])
    alone, beside = of.change(processors, None).capacity, of.beside(processors, 1.0)
    assert beside.estimate == pytest.approx(0.75 * alone.estimate, rel=0.01)
    # A quota is a tier's own.
    quota = Modification.parse("app.cores=0.1", KNOWN, ["web", "app", "db"])
    assert of.beside(quota, 1.0).estimate == pytest.approx(of.change(quota, None).capacity.estimate, rel=0.01)


def test_a_quota_lies_between_the_cpu_times_of_busy_and_of_idle_cores() -> None:
    of = starting(replace(network(processes={}), falls={"app": 1.0}), "cpu")
    quota = Modification.parse("app.cores=0.1", KNOWN, ["web", "app", "db"])
    busy = 0.1 / of.network.cpu(SHARES, "app")
    found = of.change(quota, None).capacity
    assert found.high == pytest.approx(busy)
    # Idle cores would double the CPU time; the tiers use a part of them.
    assert busy / 2 < found.low < 0.65 * busy
    assert found.estimate == pytest.approx((found.low * found.high) ** 0.5)
    # Where idle cores were not shown to cost anything, pauses do.
    steady = starting(network(processes={}), "cpu").change(quota, None).capacity
    assert (steady.low, steady.high) == (pytest.approx(busy / STOPPED_DEARER_MAX), pytest.approx(busy))


def test_a_second_server_takes_half_of_a_tier_s_work_to_cores_of_its_own() -> None:
    found = starting(network(processes={}), "cpu").change(
        Modification.parse("app.server=2", KNOWN, ["web", "app", "db"]), None
    )
    mean = 0.75 * 0.0042 + 0.25 * 0.0082
    app = 0.75 * 0.003 + 0.25 * 0.002
    assert found.factor == pytest.approx(mean / (mean - app / 2), rel=0.01)


def test_a_lock_that_is_held_for_half_the_time_gives_twice_until_cores_end() -> None:
    locked = network(serial=Serial("lock", "db", 1 / 100))
    found = starting(locked, "lock", "db").change(Modification("lock", None, 0.5, is_factor=True), None)
    assert found.factor == pytest.approx(2.0)
    short = starting(locked, "lock", "db").change(Modification("lock", None, 0.01, is_factor=True), None)
    assert short.limited_by == "cores of web, app, db"


def test_the_usual_changes_are_ordered_and_those_that_give_nothing_left_out() -> None:
    found = changes(starting(network(), "cpu"), None)
    assert [each.factor for each in found] == sorted((each.factor for each in found), reverse=True)
    assert found[0].setting == "cores=x2"
    assert not any("elsewhere" in each.what for each in found)
    assert changes(None, None) == []


@pytest.mark.parametrize(
    "text",
    ["app.workers", "speed=2", "none.cores=1", "app.workers=many", "app.cores=0", "db.cpu=2", "cache=60%",
     "cache=60% of GET /none", "cache=0% of GET /", "app.cores=x2", "app.workers=0->4"],
)  # fmt: skip
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(CouldNotRun) as refused:
        Modification.parse(text, KNOWN, ["web", "app", "db"])
    assert refused.value.hint


def test_changes_are_typed_back_as_they_were_typed() -> None:
    for text in ("app.workers=8->16", "db.cpu=x0.5", "app.cores=0.5", "cache=60% of GET /search", "cores=x2"):
        assert str(Modification.parse(text, KNOWN, ["web", "app", "db"])) == text


def test_a_change_of_what_was_not_seen_needs_both_numbers() -> None:
    with pytest.raises(CouldNotRun, match="how many"):
        starting(network(), "cpu").change(Modification("workers", "app", 2.0, is_factor=True), None)
    with pytest.raises(CouldNotRun, match="lock"):
        starting(network(), "cpu").change(Modification("lock", None, 0.5, is_factor=True), None)


def test_costs_come_from_the_table_alone(tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text('currency = "EUR"\nper = "month"\n[prices]\n"app.workers" = 2\ncores = 12.5\n')
    known = prices.read(table)
    start = starting(network(places=(Places("workers", "app", 8),), waits={PAGE: 0.1, SEARCH: 0.1}), "workers")
    assert start.change(Modification("workers", "app", 2.0, is_factor=True), known).cost == "16.00 EUR a month"
    assert start.change(Modification("cores", None, 2.0, is_factor=True), known).cost == "25.00 EUR a month"
    assert start.change(Modification("service", None, 0.5, is_factor=True), known).cost is None


@pytest.mark.parametrize(
    "text",
    ["", "currency = 1\n[prices]\n", 'currency = "EUR"\n', 'currency = "EUR"\n[prices]\nspeed = 1\n',
     'currency = "EUR"\n[prices]\ncores = "1"\n', 'currency = "EUR"\n[prices]\ncores = -1\n', "= 5",
     'currency = "EUR"\n[price]\ncores = 1\n', 'currency = "EUR"\n[prices]\ncores = inf\n'],
)  # fmt: skip
def test_what_is_no_table_of_prices_is_refused(tmp_path: Path, text: str) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(text)
    with pytest.raises(CouldNotRun) as refused:
        prices.read(table)
    assert "prices.toml" in refused.value.what


def test_a_change_that_is_carried_out_names_who_does_it() -> None:
    tiers = [Tier.parse("app=port:8000"), Tier.parse("db=ssh:db1/port:5432")]
    given = planned.parse("app.workers=8->16: systemctl restart app: now", KNOWN, tiers)
    assert given.command == "systemctl restart app: now"
    assert planned.parse("app.cores=0.5", KNOWN, tiers).command is None
    for text in ("app.workers=16", "db.cores=0.5", "cores=x2", "app.workers=16: "):
        with pytest.raises(CouldNotRun):
            planned.parse(text, KNOWN, tiers)


def test_without_a_model_nothing_is_predicted_and_it_says_why() -> None:
    plan = [planned.parse("app.cores=0.5", KNOWN, [Tier.parse("app=port:8000")])]
    (found,) = execution.predicted(None, plan, None)
    assert found.predicted is None
    assert found.not_predicted_because is not None
    assert found.not_predicted_because in execution.in_words(found)
    (made,) = execution.predicted(starting(network(), "cpu"), plan, None)
    assert made.predicted is not None
    assert made.predicted.high == pytest.approx(0.5 / (0.75 * 0.003 + 0.25 * 0.002))
    assert made.predicted.estimate == pytest.approx(made.predicted.high / STOPPED_DEARER_MAX**0.5)
    assert "predicted" in execution.in_words(made)
    done = VerifiedChange(
        setting="", what="", command=None, predicted=made.predicted, measured=made.predicted, error=0.0
    )
    assert "+0%" in execution.in_words(done)


def test_a_step_on_slower_cores_is_predicted_to_be_slower() -> None:
    truth = network()
    step = measured(truth, 0.6 * truth.capacity(SHARES), SHARES, "climb", 1)
    slow = step.model_copy(deep=True)
    for use in slow.tiers.values():
        use.cpu_cores = 1.3 * (use.cpu_cores or 0.0)
    found = fitting.Fitted(truth, TIERS, [], [step])
    usual, slower = (held_out.tried(replace(found, unseen=[each]), 1).figures[0] for each in (step, slow))
    assert usual.predicted_mean_seconds is not None
    assert slower.predicted_mean_seconds is not None
    waiting = truth.waits[PAGE]
    assert slower.predicted_mean_seconds - waiting > 1.3 * (usual.predicted_mean_seconds - waiting)


def test_simulated_system_files_are_read_by_everybody() -> None:
    text = system_file.for_solvers(network(places=(Places("workers", "app", 8),)), {PAGE: 10.0, SEARCH: 5.0})
    assert _native.system_structure(text)


def test_programs_for_which_no_thread_waits_take_no_cores() -> None:
    def step(waiting: float, busy: float) -> StepFigures:
        own = TierUse(cpu_cores=0.3, core_wait_threads=waiting / 3)
        of_each = {tier.name: own for tier in TIERS}
        return measured(network(), 50.0, SHARES, "climb", 1).model_copy(
            update={"tiers": of_each, "machine_busy_cores": busy}
        )

    # Of two cores the tiers have 0.9: by Poisson's law of the others, threads wait as if 0.6 were used beside them.
    (alike,) = stretches([Load(0.9, None)], 2, 0.6) or []
    waiting = 0.9 * (alike.whole - 1)
    assert fitting.others(step(waiting, 1.5), TIERS) == pytest.approx(0.6, abs=0.02)
    assert fitting.others(step(waiting, 2.0), TIERS) == pytest.approx(0.6, abs=0.02)
    assert fitting.others(step(0.0, 2.0), TIERS) == pytest.approx(0.0, abs=0.02)
    assert fitting.others(step(5.0, 1.5), TIERS) == pytest.approx(0.6, abs=0.02)
    unknown = step(0.0, 1.5)
    unknown.tiers["db"] = TierUse(cpu_cores=0.3)
    assert fitting.others(unknown, TIERS) == pytest.approx(0.6)


def test_who_is_waited_for_at_little_load_does_not_give_way_at_more() -> None:
    # Eight threads of a busy database: no more wait, though many requests do.
    def taken(others: float) -> float:
        of_each = {tier.name: TierUse(cpu_cores=0.61, core_wait_threads=5.89 / 3) for tier in TIERS}
        step = measured(network(), 50.0, SHARES, "climb", 1).model_copy(
            update={"tiers": of_each, "machine_busy_cores": 1.83 + others}
        )
        assert fitting.others(step, TIERS) == pytest.approx(0.0, abs=0.02)
        return fitting.beside(network(background=Background(0.1)), step, TIERS).background.fixed

    assert taken(0.13) == pytest.approx(0.1)
    assert taken(0.05) == pytest.approx(0.05)


def test_cores_that_other_programs_have_take_nothing_and_break_nothing() -> None:
    crowded = network(background=Background(2.5), places=(Places("workers", "app", 4),))
    assert crowded.capacity(SHARES) == 0.0


def test_figures_of_few_requests_vary_from_one_replication_to_another() -> None:
    alone = network(shapes={}, demands={(PAGE, "web"): 1e-6, (SEARCH, "web"): 1e-6})
    for count in (100, 2_000):
        said = simulation.simulated(alone, {PAGE: [float(second) for second in range(count)]}, count, 1)
        assert said is not None
        # Of an exponential: its deviation is its mean; of p95, sqrt(p (1 - p) / n) / density, over three means.
        means, p95s = said[PAGE].means, said[PAGE].p95s
        assert means.std() / means.mean() == pytest.approx(1 / math.sqrt(count), rel=0.5)
        assert p95s.std() / p95s.mean() == pytest.approx(math.sqrt(0.95 / 0.05 / count) / math.log(20), rel=0.5)


@pytest.mark.parametrize(("own", "chance"), [(0.0, 0.3), (0.1, 0.3), (0.3, 0.1), (0.4, 0.3)])
def test_the_error_of_a_model_is_told_from_chance(own: float, chance: float) -> None:
    figures, replications, tries = 24, 40, 100
    random, covered, estimates = np.random.default_rng(1), 0, []
    for _ in range(tries):
        measured = random.normal(0, own, figures) + random.normal(0, chance, figures)
        errors = held_out.Errors(np.abs(measured), np.abs(random.normal(0, chance, (figures, replications))))
        found = errors.median_beyond_chance(1)
        # The median of a normal distribution's magnitude.
        covered += found.low <= 0.674 * own <= found.high
        estimates.append(found.estimate)
    assert covered >= 0.9 * tries
    assert np.median(estimates) == pytest.approx(0.674 * own, abs=0.06)


def test_a_step_is_predicted_for_the_requests_that_were_drawn(plain: ApplicationSummary) -> None:
    step = plain.steps[0]
    drawn = [each.model_copy(update={"requests": 30}) for each in step.endpoints]
    found = fitting.rates_of(step.model_copy(update={"endpoints": drawn, "measured_seconds": 2.0}))
    assert found == {PAGE: 15.0, SEARCH: 15.0}
    as_offered = step.model_copy(update={"measured_seconds": None})
    assert fitting.rates_of(as_offered) == {each.name: each.offered_requests_per_second for each in step.endpoints}


def figure(**figures: float) -> HeldOutFigure:
    nothing = dict.fromkeys(name for name in HeldOutFigure.model_fields if name.startswith(("measured", "predicted")))
    return HeldOutFigure.model_validate(
        {"offered_requests_per_second": 10.0, "endpoint": PAGE, **nothing, "measured_per_second": 10.0, **figures}
    )


def test_a_figure_without_an_error_says_why() -> None:
    measured = {"measured_mean_seconds": 0.02, "measured_mean_known_to": 0.5}
    assert "not predicted" in held_out.not_judged_because([figure(**measured)], "mean")
    assert held_out.not_judged_because([figure(predicted_mean_seconds=0.02)], "mean") == "not measured"


def test_cpu_times_are_printed_in_plain_numbers(plain: ApplicationSummary) -> None:
    summary = plain.model_copy(deep=True)
    endpoint = {"requests": 1, "fraction": 1.0, "targets": 1, "mean_bytes": 1.0}
    summary.endpoints = [EndpointDescription.model_validate({"name": PAGE, **endpoint})]
    known = Interval(estimate=0.2031, low=0.1663, high=0.2364)
    summary.demands = [
        Demand(endpoint=PAGE, tier="db", seconds=known, identifiable=True),
        Demand(endpoint=PAGE, tier="app", seconds=known, identifiable=False),
    ]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(demand_table(summary))
    assert console.export_text().splitlines()[1].split() == [*PAGE.split(), "200", "(170–240)", "?", "(≤", "240)"]


def test_the_quickest_steps_tell_the_endpoints_apart_though_one_takes_a_hundred_times_as_long() -> None:
    found = synthetic.MISSING_INDEX.measured(EffortName.quick, 1)
    for demand in found.demands:
        true = synthetic.MISSING_INDEX.seconds(demand.endpoint, demand.tier)
        if true >= 0.001:
            assert demand.identifiable, demand
            assert demand.seconds.estimate == pytest.approx(true, rel=0.3)
