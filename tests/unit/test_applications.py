"""Assessing an application, without one: which targets may be loaded, objectives, causes, the network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.applications import synthetic
from sojourn import _native
from sojourn.applications import climb, diagnosis, objectives
from sojourn.applications.diagnosis import CoreGroup, Evidence, core_groups
from sojourn.applications.endpoints import Endpoint
from sojourn.applications.flows import target_list
from sojourn.applications.knee import locate
from sojourn.applications.objectives import Objective, Tried
from sojourn.applications.requests import Asked
from sojourn.applications.steps import EndpointStep, Step
from sojourn.applications.summary import EndpointFigures, Knee, StepFigures, TierDescription
from sojourn.applications.target import require_permission
from sojourn.assessment.choices import EffortName
from sojourn.calibration.utilisation_law import points_min
from sojourn.failure import CouldNotRun
from sojourn.loading import metrics
from sojourn.results.records import Interval
from sojourn.tiers.watch import DatabaseUse, TierUse

PAGE, SEARCH = "GET /", "GET /search"
TIERS = [
    TierDescription(name="web", declared="web=port:80", cores=[0, 1], port=80),
    TierDescription(name="app", declared="app=port:8000", cores=[0, 1], port=8000),
    TierDescription(name="db", declared="db=port:5432", cores=[0, 1], port=5432),
]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "https://[::1]/x", "http://10.1.2.3", "http://192.168.0.9:81"]
)
def test_this_machine_and_private_networks_may_be_loaded(url: str) -> None:
    require_permission(url, owned=False)


def test_a_public_target_needs_its_owner() -> None:
    with pytest.raises(CouldNotRun, match="private network") as refused:
        require_permission("http://8.8.8.8/", owned=False)
    assert refused.value.hint
    assert "--i-own-this" in refused.value.hint
    require_permission("http://8.8.8.8/", owned=True)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:80", "http://", "http://nowhere.invalid"])
def test_what_is_no_target_is_refused(url: str) -> None:
    with pytest.raises(CouldNotRun):
        require_permission(url, owned=True)


def test_targets_are_asked_for_as_they_were_logged_and_as_often() -> None:
    rows = (
        Asked("GET", "/search?q=oak%20table&x=ü y", 200, 7, 1),
        Asked("GET", "/search?q=oak%20table&x=ü y", 302, 3, 1),
        Asked("GET", "no-slash", 200, 1, 1),
    )
    assert target_list(Endpoint(SEARCH, "GET", rows)) == "/search?q=oak%20table&x=%C3%BC%20y 10\n"
    with pytest.raises(CouldNotRun, match="no target"):
        target_list(Endpoint(SEARCH, "GET", rows[2:]))


def histogram(*seconds: float) -> _native.Histogram:
    made = _native.Histogram()
    made.record(np.array(seconds), np.ones(len(seconds), dtype=np.uint64))
    return made


def endpoint_step(name: str, rate: float, seconds: float, failures: int = 0) -> EndpointStep:
    return EndpointStep(
        name=name, offered_per_second=rate, responses_per_second=rate, requests=1000, failures=failures, unfinished=0,
        mean_seconds=seconds, p50_seconds=seconds, p95_seconds=seconds, p99_seconds=seconds,
        histogram=histogram(*[seconds] * 20), failed_by={},
    )  # fmt: skip


def tried(rate: float, page: float, search: float, failures: int = 0) -> Tried:
    step = Step(0.0, 2.0, [endpoint_step(PAGE, rate / 2, page, failures), endpoint_step(SEARCH, rate / 2, search)])
    return Tried(step, figures(rate, page))


def figures(rate: float, seconds: float = 0.01, **more: object) -> StepFigures:
    each = [
        EndpointFigures(
            name=name, offered_requests_per_second=rate / 2, requests_per_second=rate / 2, failures=0, unfinished=0,
            response_time_mean_seconds=seconds, response_time_p50_seconds=seconds, response_time_p95_seconds=seconds,
            response_time_p99_seconds=seconds,
        )
        for name in (PAGE, SEARCH)
    ]  # fmt: skip
    made = StepFigures(
        kind="climb", offered_requests_per_second=rate, requests_per_second=rate, failed_fraction=0.0,
        response_time_mean_seconds=seconds, response_time_p95_seconds=seconds, in_system=rate * seconds, endpoints=each,
        tiers={tier.name: TierUse(cpu_cores=0.1, core_wait_threads=0.0, blocked_threads=0.0) for tier in TIERS},
    )  # fmt: skip
    return made.model_copy(update=more)


ENDPOINTS = [
    Endpoint(PAGE, "GET", (Asked("GET", "/", 200, 5, 5),)),
    Endpoint(SEARCH, "GET", (Asked("GET", "/search?q=a", 200, 5, 5),)),
]


def test_an_objective_holds_up_to_the_load_that_first_misses_it() -> None:
    objective = Objective.parse("GET /search*: p95 < 300ms", ENDPOINTS)
    assert objective.names == (SEARCH,)
    steps = [tried(10, 5.0, 0.1), tried(20, 5.0, 0.2), tried(30, 5.0, 0.4)]
    answer = objectives.answer(objective, steps, 15.0, is_complete=True)
    assert answer.capacity == Interval(estimate=20, low=20, high=30)
    assert answer.holds
    assert not answer.is_lower_bound
    assert objectives.answer(objective, steps, 25.0, is_complete=True).holds is False


def test_an_objective_that_always_or_never_holds_says_so() -> None:
    steps = [tried(10, 0.1, 0.1), tried(20, 0.1, 0.1)]
    always = objectives.answer(Objective.parse("p99 < 1s", ENDPOINTS), steps, 15.0, is_complete=True)
    assert always.is_lower_bound
    assert always.capacity == Interval(estimate=20, low=20, high=20)
    never = objectives.answer(Objective.parse("mean<50ms", ENDPOINTS), steps, 0.0, is_complete=True)
    assert never.capacity is None
    assert never.holds is False


def test_what_ended_early_does_not_hold_and_what_was_not_tried_is_not_decided() -> None:
    steps = [tried(10, 0.1, 0.1), tried(20, 0.1, 0.1)]
    met, missed = (Objective.parse(text, ENDPOINTS) for text in ("p99 < 1s", "mean<50ms"))
    assert objectives.answer(met, steps, 15.0, is_complete=False).holds is None
    # What was missed was missed.
    assert objectives.answer(missed, steps, 15.0, is_complete=False).holds is False
    assert objectives.answer(missed, [], 15.0, is_complete=False).holds is None
    # The load never came to what is required, be it that it was not allowed or that the system takes less.
    assert objectives.answer(met, steps, 40.0, is_complete=True).holds is None
    knee = Knee(requests_per_second=Interval(estimate=15, low=14, high=16), is_lower_bound=False, stopped_because="why")
    assert objectives.answer(met, steps, 40.0, is_complete=True, knee=knee).holds is False


def test_where_chance_decides_the_interval_is_the_overlap() -> None:
    steps = [tried(10, 0.1, 0.1), tried(20, 0.1, 0.4), tried(25, 0.1, 0.1), tried(30, 0.1, 0.4)]
    answer = objectives.answer(Objective.parse("GET /search: p95 < 300ms", ENDPOINTS), steps, 0.0, is_complete=True)
    assert answer.capacity is not None
    assert (answer.capacity.low, answer.capacity.high) == (20, 30)


def test_a_single_failure_by_chance_breaks_no_objective_on_errors() -> None:
    objective = Objective.parse("errors < 0.1%", ENDPOINTS)
    assert objective.is_met(tried(10, 0.1, 0.1, failures=1).step)
    assert not objective.is_met(tried(10, 0.1, 0.1, failures=20).step)


def test_p999_is_the_percentile_that_it_is_elsewhere() -> None:
    times = _native.Histogram()
    times.record(np.array([0.01, 0.5, 5.0]), np.array([9_980, 15, 5], dtype=np.uint64))
    step = tried(10, 0.1, 0.1).step
    step = replace(step, endpoints=[replace(each, histogram=times) for each in step.endpoints[:1]])
    values = [Objective.parse(f"{name} < 1s", ENDPOINTS).value(step) for name in ("p99", "p99.9", "p999")]
    assert values == [pytest.approx(0.01, rel=0.01), pytest.approx(0.5, rel=0.01), pytest.approx(0.5, rel=0.01)]


@pytest.mark.parametrize("name", ["p100", "p250", "p100.0", "p999.9"])
def test_a_percentile_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(CouldNotRun, match=rf"--slo '{name} < 1s': {name} is not a percentile") as refused:
        Objective.parse(f"{name} < 1s", ENDPOINTS)
    assert refused.value.hint
    with pytest.raises(CouldNotRun, match=f"{name} is not a percentile"):
        metrics.find(f"ttfb.{name}")


@pytest.mark.parametrize("text", ["fast", "p95 < soon", "GET /none: p95 < 1s", "errors < much", "p95 > 1s"])
def test_what_is_no_objective_is_refused(text: str) -> None:
    with pytest.raises(CouldNotRun):
        Objective.parse(text, ENDPOINTS)


def tiers_with(**used: TierUse) -> dict[str, TierUse]:
    return {tier.name: used.get(tier.name, TierUse(cpu_cores=0.05, core_wait_threads=0.0)) for tier in TIERS}


def database(**more: object) -> DatabaseUse:
    base = DatabaseUse(backends=8, active=1, in_transaction=1, waits={}, commits_per_second=10, connections_max=100)
    return base.model_copy(update=more)


LOW = figures(5, 0.02)


def found(top: StepFigures, low: StepFigures = LOW) -> list[tuple[str | None, str]]:
    return [(each.tier, each.cause) for each in diagnosis.find(Evidence([low], top, TIERS))]


def test_a_busy_processor_is_the_tier_s_that_uses_most_of_it() -> None:
    top = figures(100, 2.0, tiers=tiers_with(app=TierUse(cpu_cores=1.3), db=TierUse(cpu_cores=0.5)))
    assert found(top) == [("app", "cpu")]


def test_tiers_that_starve_beside_other_programs_lack_a_processor_too() -> None:
    starved = tiers_with(db=TierUse(cpu_cores=0.85, core_wait_threads=4.0))
    assert found(figures(100, 2.0, tiers=starved, machine_busy_cores=1.88)) == [("db", "cpu")]
    # Others that have more than they do are no end of theirs.
    fewer = tiers_with(db=TierUse(cpu_cores=0.4, core_wait_threads=4.0))
    assert found(figures(100, 2.0, tiers=fewer, machine_busy_cores=1.99)) == []
    assert ("db", "cpu") not in found(figures(100, 2.0, tiers=starved, machine_busy_cores=1.0))


def test_one_process_whose_threads_take_turns_is_a_processor_s_end() -> None:
    top = figures(100, 2.0, tiers=tiers_with(app=TierUse(cpu_cores=0.97, busiest_process_cores=0.96)))
    assert found(top) == [("app", "cpu")]


def test_a_process_that_leaves_the_more_to_another_was_at_its_end_before() -> None:
    busy = TierUse(cpu_cores=1.02, busiest_process_cores=0.92)
    shared = TierUse(cpu_cores=1.29, busiest_process_cores=0.83)
    nearest, top = (
        figures(rate, 2.0, tiers=tiers_with(app=app), failed_because="slow")
        for rate, app in ((80, busy), (101, shared))
    )
    alone, both = (diagnosis.find(Evidence([LOW, *beyond], top, TIERS))[0] for beyond in ([top], [top, nearest]))
    assert alone.cause != "cpu"
    assert (both.tier, both.cause) == ("app", "cpu")


def test_a_process_that_never_sleeps_is_at_its_end_though_others_have_its_core() -> None:
    web = TierUse(cpu_cores=0.3, busiest_process_cores=0.3, busiest_thread_cores=0.3, core_wait_threads=0.68)
    assert found(figures(100, 2.0, tiers=tiers_with(web=web), machine_busy_cores=2.0)) == [("web", "cpu")]
    asleep = web.model_copy(update={"core_wait_threads": 0.2})
    assert ("web", "cpu") not in found(figures(100, 2.0, tiers=tiers_with(web=asleep), machine_busy_cores=2.0))


def test_threads_that_wait_for_cores_are_not_one_that_never_sleeps() -> None:
    # Two processes of the shop with 16 threads, most of which wait for a lock of the database.
    app = TierUse(cpu_cores=0.7, busiest_process_cores=0.47, busiest_thread_cores=0.21, core_wait_threads=0.59)
    waiting = database(active=14.3, waits={"Lock": 13.3})
    top = figures(278, 265.0, database=waiting, tiers=tiers_with(app=app), machine_busy_cores=1.19)
    assert found(top)[0] == ("db", "lock")


def test_no_workers_are_blamed_where_others_have_the_cores() -> None:
    starved = TierUse(cpu_cores=0.2, core_wait_threads=0.6)
    crowded = tiers_with(app=starved, db=starved)
    assert found(figures(100, 2.0, tiers=crowded, machine_busy_cores=2.0)) == []
    assert ("app", "workers") in found(figures(100, 2.0, tiers=crowded, machine_busy_cores=1.0))


def test_backends_that_wait_for_a_lock_or_the_disk_name_it() -> None:
    lock = figures(100, 2.0, database=database(active=6, waits={"Lock": 5.0}), tiers=tiers_with())
    assert found(lock)[0] == ("db", "lock")
    starved = tiers_with(db=TierUse(cpu_cores=0.5, core_wait_threads=2.0))
    assert found(lock.model_copy(update={"tiers": starved, "machine_busy_cores": 2.0}))[0] == ("db", "lock")
    disk = figures(100, 2.0, database=database(active=4, waits={"IO": 3.0}), tiers=tiers_with())
    assert found(disk)[0] == ("db", "disk")


def test_threads_that_wait_for_a_disk_at_any_load_do_not_end_its_growth() -> None:
    blocked = tiers_with(app=TierUse(cpu_cores=0.05, blocked_threads=1.3))
    assert found(figures(100, 2.0, tiers=blocked))[0] == ("app", "disk")
    assert ("app", "disk") not in found(figures(100, 2.0, tiers=blocked), figures(5, 0.02, tiers=blocked))


def test_a_disk_for_which_fewer_threads_wait_than_for_cores_is_not_the_end() -> None:
    # DokuWiki with one of its six processes waiting for the disk: the machine is idle for a part of the step.
    app = TierUse(cpu_cores=1.33, core_wait_threads=3.36, blocked_threads=0.8)
    web = TierUse(cpu_cores=0.15, core_wait_threads=0.37, blocked_threads=0.0)
    top = figures(100, 2.0, tiers=tiers_with(web=web, app=app), machine_busy_cores=1.71)
    causes = found(top)
    assert causes[0] == ("app", "cpu")
    assert ("app", "disk") not in causes
    idle = tiers_with(web=web, app=app.model_copy(update={"core_wait_threads": 0.3}))
    assert found(figures(100, 2.0, tiers=idle, machine_busy_cores=1.71))[0] == ("app", "disk")


def test_connections_that_are_all_in_use_are_the_pool_s_end() -> None:
    top = figures(100, 2.0, database=database(active=2, in_transaction=5.8), tiers=tiers_with())
    assert found(top)[0] == ("app", "connections")
    said = figures(100, 2.0, levels={"hikaricp_pool_pending": 4.0}, tiers=tiers_with())
    assert found(said)[0] == ("app", "connections")


def test_workers_that_wait_for_somebody_outside_say_for_whom() -> None:
    app = TierUse(
        cpu_cores=0.1, incoming_connections=50, outgoing_connections={"10.9.9.9:443": 1.8, "127.0.0.1:5432": 8}
    )
    top = figures(100, 2.0, tiers=tiers_with(app=app))
    causes = diagnosis.find(Evidence([LOW], top, TIERS))
    assert [(each.tier, each.cause) for each in causes] == [("app", "outside"), ("app", "workers")]
    assert "10.9.9.9:443" in causes[0].because


def test_threads_that_starve_after_a_service_has_answered_do_not_lack_a_processor() -> None:
    # Nine of twelve workers wait for the service, and the cores are idle for a sixth of the time.
    outgoing = {"10.9.9.9:443": 9.0, "127.0.0.1:5432": 12.0}
    app = TierUse(
        cpu_cores=0.64,
        core_wait_threads=1.36,
        incoming_connections=370,
        outgoing_connections=outgoing,
        connection_samples=6,
    )
    db = TierUse(cpu_cores=0.78, core_wait_threads=0.95)

    def causes(app: TierUse, busy: float) -> list[tuple[str | None, str]]:
        top = figures(600, 2.0, tiers=tiers_with(app=app, db=db), machine_busy_cores=busy)
        return found(top)

    assert causes(app, 1.66)[0] == ("app", "outside")
    assert causes(app.model_copy(update={"outgoing_connections": {}}), 1.66)[0] == ("db", "cpu")
    # Without idle time they do.
    assert causes(app, 1.9)[0] == ("db", "cpu")


def test_whoever_workers_wait_for_is_told_from_all_saturated_steps() -> None:
    def saturated(count: float, samples: int) -> StepFigures:
        outgoing = {"10.9.9.9:443": count, "127.0.0.1:5432": 8.0}
        app = TierUse(cpu_cores=0.1, incoming_connections=50, outgoing_connections=outgoing, connection_samples=samples)
        return figures(100, 2.0, tiers=tiers_with(app=app), failed_because="slow")

    # Two workers: by the step alone that the answer is read from, fewer wait there than the rule demands.
    top, others = saturated(1.0, 2), [saturated(1.8, 12), saturated(1.7, 12)]
    alone = diagnosis.find(Evidence([LOW], top, TIERS))
    together = diagnosis.find(Evidence([LOW, *others, top], top, TIERS))
    assert alone[0].cause == "workers"
    assert together[0].cause == "outside"
    assert together[0].because.startswith("1.7 of the about 2 requests")
    # What few counts say is told with how far it may be wrong.
    few = diagnosis.find(Evidence([LOW], saturated(1.2, 2), TIERS))
    assert few[0].because.startswith("1.2 (give or take 1.0) of the about 2 requests")


def test_workers_of_php_fpm_that_are_all_active_are_at_their_end() -> None:
    tiers = [TIERS[0], TIERS[1].model_copy(update={"command": "php-fpm8.2"}), TIERS[2]]
    levels = {"php_fpm_active_processes": 4.8, "php_fpm_total_processes": 5.0, "php_fpm_listen_queue": 12.0}

    def causes(**levels: float) -> list[tuple[str | None, str]]:
        top = figures(100, 0.02, tiers=tiers_with(), levels=levels)
        return [(each.tier, each.cause) for each in diagnosis.find(Evidence([LOW], top, tiers))]

    assert causes(**levels) == [("app", "workers")]
    assert causes(**levels | {"php_fpm_listen_queue": 0.0}) == []
    assert causes(**levels | {"php_fpm_active_processes": 2.0}) == []


def test_connections_that_nobody_accepts_wait_for_a_worker_of_that_tier() -> None:
    # Of nginx before one process of php-fpm: nginx has a connection for each request, php-fpm accepts one at a time.
    quiet = {
        "web": TierUse(cpu_cores=0.0, core_wait_threads=0.0, incoming_connections=1.0, accept_queue=0.0),
        "app": TierUse(cpu_cores=0.0, core_wait_threads=0.0, incoming_connections=0.0, accept_queue=0.0),
    }
    used = {
        "web": TierUse(
            cpu_cores=0.106, busiest_process_cores=0.106, core_wait_threads=0.025, blocked_threads=0.0,
            incoming_connections=534.7, accept_queue=0.3, outgoing_connections={"127.0.0.1:8000": 512.7},
        ),
        "app": TierUse(
            cpu_cores=0.761, busiest_process_cores=0.769, core_wait_threads=0.08, blocked_threads=0.067,
            incoming_connections=0.3, accept_queue=515.3,
        ),
    }  # fmt: skip
    top = figures(238, in_system=433.4, tiers=used, machine_busy_cores=1.03)
    causes = diagnosis.find(Evidence([figures(2, 0.00375, tiers=quiet)], top, TIERS[:2]))
    assert [(each.tier, each.cause) for each in causes] == [("app", "workers")]


def test_where_nothing_is_at_its_end_nothing_is_claimed() -> None:
    assert found(figures(100, 0.02, tiers=tiers_with(), database=database())) == []


def test_tiers_on_cores_of_their_own_are_groups_of_their_own() -> None:
    apart = [TIERS[0].model_copy(update={"cores": [0]}), TIERS[1].model_copy(update={"cores": [1]}), TIERS[2]]
    assert core_groups(apart) == [CoreGroup(("web", "app", "db"), 2)]
    assert core_groups(apart[:2]) == [CoreGroup(("web",), 1), CoreGroup(("app",), 1)]


def test_what_others_do_on_other_cores_saturates_no_tier() -> None:
    apart = [TIERS[0].model_copy(update={"cores": [0]}), TIERS[1].model_copy(update={"cores": [1, 2]})]
    used = {"web": TierUse(cpu_cores=0.55, core_wait_threads=0.1), "app": TierUse(cpu_cores=0.3, core_wait_threads=0.0)}
    # The generator has the fourth core.
    by_core = {0: 0.56, 1: 0.2, 2: 0.1, 3: 0.4}
    top = figures(100, 0.02, tiers=used, machine_busy_cores=1.26, busy_by_core=by_core)
    low = figures(5, 0.02, tiers=used)
    assert diagnosis.find(Evidence([low], top, apart)) == []
    beside = top.model_copy(update={"busy_by_core": by_core | {0: 0.99}})
    assert [(each.tier, each.cause) for each in diagnosis.find(Evidence([low], beside, apart))] == [("web", "cpu")]


def test_a_database_beside_a_single_tier_has_its_workers_there() -> None:
    used = {"app": TierUse(cpu_cores=0.1, core_wait_threads=0.0, incoming_connections=50.0)}
    top = figures(100, 2.0, tiers=used, database=database())
    causes = diagnosis.find(Evidence([figures(5, 0.02, tiers=used)], top, TIERS[1:2]))
    assert [(each.tier, each.cause) for each in causes] == [("app", "workers")]


@pytest.mark.parametrize(
    ("requests", "failures", "is_failed"),
    [(1, 1, True), (3, 2, True), (6, 1, False), (10, 2, False), (10, 4, True), (1000, 60, False), (1000, 80, True)],
)
def test_a_step_fails_by_more_failures_than_chance_gives(requests: int, failures: int, is_failed: bool) -> None:
    with_failures = replace(tried(10.0, 0.1, 0.1).step.endpoints[0], requests=requests, failures=failures)
    step = replace(tried(10.0, 0.1, 0.1).step, endpoints=[with_failures])
    assert (not climb.is_by_chance(step, 0.05)) == is_failed


def test_the_load_rises_on_where_the_first_estimate_was_too_low() -> None:
    found = synthetic.SHOP.climbed(0.2)
    rates = [each.offered_requests_per_second / synthetic.SHOP.knee for each in found]
    assert max(rates) == pytest.approx(0.2 * climb.CLIMB_FRACTIONS[-1] * climb.BEYOND_GROWTH**climb.BEYOND_MAX)


def test_a_slow_endpoint_is_not_beyond_the_knee_beside_a_fast_one() -> None:
    slow = synthetic.MadeUp(
        tiers=("app",),
        milliseconds={"GET /health": (1.0,), "GET /report": (700.0,)},
        shares={"GET /health": 0.5, "GET /report": 0.5},
    )
    alone = [step for step in slow.steps(EffortName.quick, 1) if step.kind == "mix"]
    assert {step.failed_because for step in alone} == {None}
    assert max(step.response_time_mean_seconds or 0.0 for step in alone) > climb.SLOW_SECONDS_MIN


def test_the_knee_divides_the_steps_that_passed_from_those_that_failed() -> None:
    def steps(*rates: tuple[float, bool]) -> list[tuple[Step, StepFigures]]:
        return [
            (tried(rate, 0.1, 0.1).step, figures(rate, failed_because=None if good else "why")) for rate, good in rates
        ]

    clear = locate(steps((10, True), (20, True), (30, False)), 25, "why")
    assert (clear.requests_per_second, clear.is_lower_bound) == (Interval(estimate=25, low=20, high=30), False)
    # One step that a disturbance fails moves the interval, not the estimate.
    disturbed = locate(steps((10, False), (20, True), (25, True), (30, False), (31, False)), 25, "why")
    assert disturbed.requests_per_second == Interval(estimate=27.5, low=10, high=30)
    never = locate(steps((10, True), (16, True), (16, False), (16, True)), 16, "--max-rate was reached")
    assert (never.is_lower_bound, never.requests_per_second.estimate) == (True, 16)


def test_steps_that_failed_by_the_generator_tell_no_knee() -> None:
    def steps(*rates: tuple[float, str | None, str | None]) -> list[tuple[Step, StepFigures]]:
        return [
            (tried(rate, 0.1, 0.1).step, figures(rate, failed_because=failed, generator_limited=limited))
            for rate, failed, limited in rates
        ]

    alone = locate(steps((10, None, None), (20, None, None), (30, "late", "its core is full")), 25, "late")
    assert (alone.requests_per_second.estimate, alone.is_lower_bound) == (20, True)
    assert "its core is full" in alone.stopped_because
    both = steps((10, None, None), (20, None, None), (25, "late", "its core is full"), (30, "late", None))
    assert locate(both, 25, "late").requests_per_second == Interval(estimate=25, low=20, high=30)
    figured = [each for _, each in both]
    assert Evidence(figured, figured[-1], TIERS).beyond == figured[-1:]


def test_where_too_few_steps_tell_the_demands_there_are_more() -> None:
    needed = points_min(len(synthetic.SHOP.shares))
    few = synthetic.SHOP.climbed(1.0)
    assert len(few) < needed
    completed = synthetic.SHOP.climbed(1.0, completed=True)
    assert len(completed) == needed
    # Those after the first ones have one endpoint alone, in turn.
    alone = [each.name for step in completed if step.kind == "mix" for each in step.endpoints]
    assert alone == list(synthetic.SHOP.shares)[: needed - len(few) - len(climb.FURTHER_FRACTIONS)] != []
    enough = synthetic.SHOP.climbed(0.05)
    assert len(synthetic.SHOP.climbed(0.05, completed=True)) == max(needed, len(enough))
