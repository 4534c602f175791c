"""What is predicted of changes, on stations that are known because we made them up, and how predictions are judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import numpy as np
import pytest

from sojourn import _native
from sojourn.assessment.choices import CHANGE_NAMES, EffortName, chosen_changes
from sojourn.assessment.climbs import Climbs
from sojourn.assessment.cpu_demand import ByRate
from sojourn.assessment.measurement import Bench, Interrupted
from sojourn.assessment.model import Mix, Quota, Station
from sojourn.assessment.request import EFFORTS
from sojourn.assessment.rising_load import Climb
from sojourn.assessment.simulation import Sessions, simulate
from sojourn.assessment.steps import ClimbStep, Sent, saturated_by_share
from sojourn.assessment.summary import DemandFit, Knee, Prediction, Step, Verification, VerifiedLoad
from sojourn.assessment.verification import execution, predictions
from sojourn.assessment.verification.assessed import Assessed, processor_fraction
from sojourn.assessment.verification.changes import CHANGES, Arrangement, LightLoads, OtherServer
from sojourn.assessment.verification.comparison import compared
from sojourn.assessment.verification.execution import Climbed, verify
from sojourn.assessment.verification.packet_line import transfer_times, window_limit
from sojourn.assessment.verification.predictions import by_wakeup, mean_wait, scaled
from sojourn.assessment.verification.unchanged import Unchanged
from sojourn.commands.assess import with_value
from sojourn.engine.results import ServerUse, Summary, Unavailable
from sojourn.failure import CouldNotRun
from sojourn.machine.cores import Cores
from sojourn.results.records import Interval, Spread
from sojourn.results.run_folder import RunFolder
from sojourn.systems import SYSTEMS, Launch, Running

DEMAND = 1e-3
FIT = DemandFit(
    seconds_per_byte=Interval(estimate=0.0, low=0.0, high=0.0),
    fixed_seconds=Interval(estimate=DEMAND, low=DEMAND, high=DEMAND),
    connection_seconds=None,
    basis="cpu",
    points_used=21,
    points_left_out=0,
    relative_error_median=0.01,
)
ONE = Interval(estimate=1.0, low=1.0, high=1.0)


def knee_at(rate: float, reason: str = "throughput") -> Knee:
    bound = reason in ("generator", "not reached")
    return Knee.model_validate(
        {
            "requests_per_second": rate,
            "low": 0.95 * rate,
            "high": 1.1 * rate,
            "per_repetition": [rate],
            "reason": reason,
            "is_lower_bound": bound,
        }
    )


@pytest.fixture(scope="module")
def sessions(small_log: Path) -> Sessions:
    return Sessions(_native.import_log(str(small_log)), 0.1)


@pytest.fixture(scope="module")
def mix(sessions: Sessions) -> Mix:
    return Mix(sessions.trace.transfer_sizes().astype(float), sessions.trace.first_in_session())


@pytest.fixture(scope="module")
def station(mix: Mix) -> Station:
    return Station(mix.demands(FIT), None, ONE, 1 / DEMAND)


@pytest.fixture(autouse=True)
def few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for what is compared here."""
    monkeypatch.setattr("sojourn.assessment.simulation.REQUESTS", 100_000)


@pytest.fixture
def assessed(tmp_path: Path, sessions: Sessions, mix: Mix, station: Station) -> Assessed:
    return Assessed(
        folder=RunFolder.create(tmp_path / "run"),
        trace=tmp_path / "trace.sojourn",
        server=SYSTEMS["sojourn"],
        launch=Launch(tmp_path, tmp_path, 0, "amped"),
        cores=Cores(0, 1),
        sessions=sessions,
        mix=mix,
        demand_fit=FIT,
        station=station,
        knee=knee_at(1000),
        light=[],
        processor_fraction=1.0,
        helpers=4,
        helper_limit=None,
        target_p95_seconds=0.2,
        effort=EFFORTS[EffortName.quick],
        seed=1,
    )


class NoBaselines:
    def climb(self, *_: object) -> NoReturn:
        raise AssertionError("it needs no baseline")

    demand = light_loads = climb


class Measured:
    """Baselines that are known."""

    def __init__(self, knee: Knee, fit: DemandFit = FIT, mix_costs: float = 1.0, slower: float = 1.0) -> None:
        self.knee, self.fit, self.mix_costs, self.slower = knee, fit, mix_costs, slower

    def climb(self, *_: object) -> Knee:
        return self.knee

    def demand(self, *_: object) -> DemandFit:
        return self.fit

    def light_loads(self, arrangement: Arrangement, name: str, rates: Sequence[float]) -> LightLoads:
        """Steps of a server whose mix costs more than its documents, each a Poisson process on processor sharing."""
        cost = self.mix_costs * self.fit.fixed_seconds.estimate
        loads = [(rate, rate * cost) for rate in rates]
        steps = [
            step(rate, cost / (1 - load), 3 * cost / (1 - load)).model_copy(
                update={"server_cpu_fraction": always(load), "server_cpu_seconds_per_request": always(cost)}
            )
            for rate, load in loads
        ]
        return LightLoads(steps, self.slower)


def test_half_the_processor_halves_the_capacity_and_not_the_speed(assessed: Assessed) -> None:
    half = CHANGES["half-processor"].expectation(assessed, NoBaselines())
    assert half.capacity.estimate == pytest.approx(500)
    # As wide as the repetitions of the knee were apart.
    assert (half.capacity.low, half.capacity.high) == pytest.approx((475, 550))
    whole = simulate(assessed.station, assessed.sessions, 50, 1)
    light = half.at(50)
    assert light.response_time_mean_seconds == pytest.approx(whole.response_time_mean_seconds, rel=0.02)
    # Near the quota requests wait for the next period: a whole processor would be half idle.
    heavy, whole = half.at(475), simulate(assessed.station, assessed.sessions, 475, 1)
    assert heavy.response_time_mean_seconds is not None
    assert whole.response_time_mean_seconds is not None
    assert heavy.response_time_mean_seconds > 3 * whole.response_time_mean_seconds
    assert half.at(600).requests_per_second == 500
    assert half.at(600).response_time_mean_seconds is None


def test_what_an_idle_server_spends_more_on_a_request_is_a_wakeup(assessed: Assessed) -> None:
    # A request that wakes the server costs 0.4 ms more: at a utilisation u, a share 1 - u of them.
    spent = {0.2: 1.32, 0.5: 1.2, 0.8: 1.08, 1.0: 1.0}
    rates = tuple(share / (factor * DEMAND) for share, factor in spent.items())
    costly = replace(assessed.station, over_busy=ByRate(rates, tuple(spent.values())))
    woken = by_wakeup(costly)
    assert woken.wakeup_seconds == pytest.approx(0.4 * DEMAND)
    # Simulated, both take about as long at a light load.
    by_rate, waking = (simulate(each, assessed.sessions, rates[0], 1) for each in (costly, woken))
    assert waking.response_time_mean_seconds == pytest.approx(by_rate.response_time_mean_seconds, rel=0.1)
    # A throttled server finds work on resuming: it carries what a busy one does.
    assert replace(woken, quota=Quota(0.025, 0.05)).busy_capacity == pytest.approx(0.5 / DEMAND)
    assert by_wakeup(woken) == woken


@pytest.mark.parametrize("slower", [0.8, 1.0, 1.25])
def test_a_changed_server_is_as_slow_as_the_unchanged_one_meanwhile(assessed: Assessed, slower: float) -> None:
    half = CHANGES["half-processor"].expectation(assessed, NoBaselines()).station
    assert half is not None
    # The unchanged server at a tenth of its load: longer demands, and 0.2 ms that no CPU time explains.
    rate = 100.0
    served = simulate(replace(assessed.station, demands=slower * assessed.station.demands), assessed.sessions, rate, 1)
    assert served.response_time_mean_seconds is not None
    assert served.response_time_p95_seconds is not None
    delay = 2e-4
    seen = step(rate, served.response_time_mean_seconds + delay, served.response_time_p95_seconds + delay).model_copy(
        update={"server_cpu_seconds_per_request": always(slower * DEMAND)}
    )
    unchanged = Unchanged(assessed, cast("Climb", None), cast("Climbs", None), [rate])
    vars(unchanged)["_sessions"] = assessed.sessions
    then = unchanged.as_fast_as(seen, half)
    assert then.quota == half.quota
    assert then.busy_capacity == pytest.approx(half.busy_capacity / slower)
    assert then.mean_delays.latency_seconds == pytest.approx(delay, rel=0.02)
    assert then.p95_delays.latency_seconds == pytest.approx(delay, rel=0.02)


def test_another_server_saves_as_much_when_it_is_busy(assessed: Assessed) -> None:
    spent = {0.2: 1.6, 0.5: 1.2, 1.0: 1.0}
    rates = tuple(share / (factor * DEMAND) for share, factor in spent.items())
    saving = replace(assessed.station, over_busy=ByRate(rates, tuple(spent.values()))).saving
    # At light loads its requests cost 3.2 and 2.4 ms: busy, 2 ms.
    rows = np.array([[3.2e-3, 0.8, 1.0, 62.5], [2.4e-3, 0.5, 0.5, 208.3]])
    assert saving.busy_demand(rows) == pytest.approx(2e-3)
    assert saving.by_rate(500).at(62.5) == pytest.approx(1.6)
    assert saving.by_rate(500).at(500) == pytest.approx(1.0)


def test_another_server_of_which_too_little_is_known_is_not_predicted(
    assessed: Assessed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Assessed, "capacity_range", (0.3, 1.2))
    with pytest.raises(CouldNotRun, match="too roughly: 300 requests/s to 1,200 requests/s"):
        CHANGES["nginx"].expectation(assessed, Measured(knee_at(1000)))


def test_a_share_is_of_what_the_server_had(assessed: Assessed) -> None:
    # Interrupts had a fifth of the core: under a quota they take nothing of the server's share.
    half = CHANGES["half-processor"].expectation(replace(assessed, processor_fraction=0.8), NoBaselines())
    assert half.capacity.estimate == pytest.approx(625)
    busy = [
        step(rate, 1.0, 1.0).model_copy(update={"server_cpu_fraction": always(rate / 1250)}) for rate in (500, 1010)
    ]
    assert processor_fraction(busy, 1000) == pytest.approx(0.808)
    assert processor_fraction(busy, 2000) == 1.0
    assert processor_fraction([], 1000) == 1.0


def test_a_server_that_used_its_share_is_saturated() -> None:
    steps = [
        ClimbStep.model_construct(server=ServerUse(cpu_fraction=fraction), server_saturated=False)
        for fraction in (0.3, 0.49)
    ]
    assert [each.server_saturated for each in saturated_by_share(steps, 0.5)] == [False, True]
    unknown = saturated_by_share([ClimbStep.model_construct(server=None, server_saturated=False)], 0.5)
    assert not unknown[0].server_saturated


def test_a_quota_of_the_whole_period_changes_nothing(assessed: Assessed) -> None:
    plain = simulate(assessed.station, assessed.sessions, 500, 1)
    assert simulate(replace(assessed.station, quota=Quota(0.05, 0.05)), assessed.sessions, 500, 1) == plain


def test_twice_the_processor_is_predicted_from_a_confined_baseline(assessed: Assessed) -> None:
    # The baseline was found to carry less than a quarter: the demands are larger than those that were fitted.
    twice = CHANGES["twice-processor"].expectation(assessed, Measured(knee_at(200)))
    assert twice.capacity.estimate == pytest.approx(400)
    assert "generator" in twice.basis
    mean = twice.at(10).response_time_mean_seconds
    assert mean == pytest.approx(0.25 / 200, rel=0.1)
    with pytest.raises(CouldNotRun):
        CHANGES["twice-processor"].expectation(assessed, Measured(knee_at(0)))


def test_helpers_that_do_nothing_change_nothing_and_busy_ones_do(assessed: Assessed) -> None:
    idle = CHANGES["more-helpers"].expectation(assessed, NoBaselines())
    assert idle.capacity.estimate == pytest.approx(1000)
    busy = replace(assessed, helper_limit=1200.0)
    assert CHANGES["one-helper"].expectation(busy, NoBaselines()).capacity.estimate == pytest.approx(300)
    assert CHANGES["more-helpers"].expectation(busy, NoBaselines()).capacity.estimate == pytest.approx(1000)
    assert CHANGES["more-helpers"].arrangement(assessed).launch.helpers == 8
    assert CHANGES["one-helper"].inapplicable(replace(assessed, helpers=1)) is not None
    assert CHANGES["one-helper"].inapplicable(replace(assessed, helpers=None)) is not None


def test_another_server_is_predicted_from_its_own_demands(assessed: Assessed) -> None:
    twice = FIT.model_copy(update={"fixed_seconds": Interval(estimate=2e-3, low=2e-3, high=2e-3)})
    other = OtherServer("nginx").expectation(assessed, Measured(knee_at(1), twice))
    assert other.capacity.estimate == pytest.approx(500)
    assert other.at(1).response_time_mean_seconds == pytest.approx(2e-3, rel=0.05)
    # What its mix costs beyond its documents is its own, too, and not the assessed server's.
    costly = OtherServer("nginx").expectation(assessed, Measured(knee_at(1), FIT, mix_costs=1.25))
    assert costly.capacity.estimate == pytest.approx(800)
    assert costly.at(1).response_time_mean_seconds == pytest.approx(1.25e-3, rel=0.05)
    # Measured while the machine was slower, it is as fast as its measurement said at the machine's usual speed.
    later = OtherServer("nginx").expectation(assessed, Measured(knee_at(1), FIT, mix_costs=1.25, slower=1.25))
    assert later.capacity.estimate == pytest.approx(1000)
    assert later.at(1).response_time_mean_seconds == pytest.approx(1e-3, rel=0.05)
    assert OtherServer("sojourn").inapplicable(assessed) is not None


def test_a_slow_line_is_full_when_its_bytes_are(station: Station, mix: Mix) -> None:
    bits = 1e6
    line = predictions.slower_line(station, mix, bits, 1, "")
    carried = predictions.bytes_on_the_line(mix)
    assert (carried > mix.sizes_bytes).all()
    assert line.capacity.estimate == pytest.approx(bits / 8 / float(carried.mean()))
    assert line.capacity.low < line.capacity.estimate == line.capacity.high
    light = line.at(0.02 * line.capacity.estimate).response_time_mean_seconds
    assert light == pytest.approx(8 * float(carried.mean()) / bits + DEMAND, rel=0.1)
    assert line.at(1.01 * line.capacity.estimate).response_time_mean_seconds is None


def test_on_a_line_short_transfers_are_first_come_first_served() -> None:
    # All alike and within the first window: M/D/1, whose mean is S (1 + rho / (2 (1 - rho))).
    times = transfer_times(0.8, np.array([1.0]), np.array([5.0]), 1)
    assert times.mean() == pytest.approx(1 + 0.8 / 0.4, rel=0.1)


def test_on_a_line_long_transfers_share() -> None:
    # With hundreds of packets each, windows are small beside them: processor sharing, S / (1 - rho).
    times = transfer_times(0.5, np.array([1.0]), np.array([300.0]), 1)
    assert 1.5 < times.mean() < 2.05


def test_a_window_lets_short_transfers_overtake_long_ones() -> None:
    # One transfer in ten is long. A short one that comes meanwhile waits for what the long one has in the queue.
    seconds, packets = np.array([1.0, *[0.01] * 9]), np.array([1000.0, *[10.0] * 9])
    unlimited, limited = (transfer_times(5.0, seconds, packets, 1, window) for window in (None, 20))
    assert np.quantile(limited, 0.7) < np.quantile(unlimited, 0.7) / 2


def test_bbr_limits_the_window_and_others_do_not() -> None:
    # 8 packets of 1,500 bytes in 1/1024 s.
    assert window_limit(100e6, 12_000, "bbr") == 24
    assert window_limit(1e6, 12_000, "bbr") == 10
    assert window_limit(100e6, 12_000, "cubic") is None
    assert window_limit(100e6, 12_000, None) is None


def test_on_a_line_the_own_requests_of_a_step_are_compared(assessed: Assessed, mix: Mix) -> None:
    line = predictions.slower_line(assessed.station, mix, 1e6, 1, "").line
    assert line is not None
    rate = 0.5 * line.capacity
    sent = Sent((rate,), 20.0, 1.0, 3, ((1.0, 20.0),))
    sessions = replace(assessed.sessions, measured={rate: [seen(sent, 1.0, 1.0)]})
    said = line.at_step(step(rate, 1.0, 1.0), sessions, 1e-3, 1)
    # Compared with itself, the simulation is right.
    own = replace(sessions, measured={rate: [seen(sent, *times_of(said))]})
    again = line.at_step(step(rate, *times_of(said)), own, 1e-3, 1)
    assert times_of(again) == pytest.approx(times_of(said))
    # Another draw of the same load takes another time.
    other = replace(sessions, measured={rate: [seen(replace(sent, seed=4), 1.0, 1.0)]})
    assert times_of(line.at_step(step(rate, 1.0, 1.0), other, 1e-3, 1)) != pytest.approx(times_of(said), rel=1e-3)


def seen(sent: Sent, mean: float, p95: float) -> ClimbStep:
    """A repetition with these response times, of which no window is left out."""
    return ClimbStep.model_construct(
        sent=sent,
        requests=1000,
        response_time_seconds=Summary(mean=mean, p50=mean, p95=p95, p99=p95),
        undisturbed=Unavailable(unavailable="made up"),
    )


def times_of(said: Prediction) -> tuple[float, float]:
    assert said.response_time_mean_seconds is not None
    assert said.response_time_p95_seconds is not None
    return said.response_time_mean_seconds, said.response_time_p95_seconds


def test_a_transfer_alone_takes_its_own_time() -> None:
    times = transfer_times(1e-7, np.array([1.0, 3.0]), np.array([1.0, 30.0]), 1)
    assert set(np.round(times / times.min(), 3)) == {1.0, 3.0}


def test_behind_a_link_the_generator_is_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []

    def run(options: list[str], *_: object) -> NoReturn:
        words.extend(options)
        raise CouldNotRun("enough")

    monkeypatch.setattr("sojourn.engine.run", run)
    monkeypatch.setattr("sojourn.engine.path", lambda: Path("/bin/engine"))
    server = Running("http://10.77.0.1:80", "1", [], None, [])
    bench = Bench(server, Cores(None, None), 1, link=("--rate", "1Mbit/s"))
    with pytest.raises(CouldNotRun):
        bench.closed_loop("/", 1, 1.0, 0.0, "close")
    assert words[:5] == ["link", "--rate", "1Mbit/s", "--", "/bin/engine"]
    assert words[5:7] == ["load", "http://10.77.0.1:80/"]


def test_packets_of_large_documents_have_headers_each() -> None:
    small, large = predictions.bytes_on_the_line(Mix(np.array([100.0, 1e6]), np.array([False, False])))
    assert small == 100 + 250 + 52
    assert large == pytest.approx(1e6 * 1500 / 1448, rel=1e-3)


def test_erlangs_c() -> None:
    assert mean_wait(0.5, 1.0, 1) == pytest.approx(1.0)
    assert mean_wait(1.0, 1.0, 2) == pytest.approx(1 / 3)
    assert mean_wait(2.0, 1.0, 2) == np.inf


def test_workers_that_keep_connections_are_a_limit_of_their_own(assessed: Assessed) -> None:
    threads = replace(assessed, launch=replace(assessed.launch, architecture="mt"))
    fewer = CHANGES["fewer-workers"]
    assert fewer.inapplicable(threads) is None
    assert fewer.inapplicable(assessed) is not None
    expectation = fewer.expectation(threads, NoBaselines())
    # Two seconds of a session of three requests, at a tenth: a request holds its worker for 67 ms.
    assert expectation.capacity.estimate == pytest.approx(500, rel=0.05)
    assert "--workers" in fewer.arrangement(threads).launch.options


def test_the_names_that_are_asked_for() -> None:
    assert chosen_changes("all") == CHANGE_NAMES == tuple(CHANGES)
    assert chosen_changes("slow-line, half-processor") == ("slow-line", "half-processor")
    with pytest.raises(CouldNotRun, match="no change named 'faster'"):
        chosen_changes("half-processor,faster")


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["log", "--verify"], ["log", "--verify", "all"]),
        (["--verify", "log"], ["--verify", "all", "log"]),
        (["--verify", "--seed", "2", "log"], ["--verify", "all", "--seed", "2", "log"]),
        (["log", "--verify", "nginx,slow-line"], ["log", "--verify", "nginx,slow-line"]),
        (["log", "--verify", "nginx,fastr"], ["log", "--verify", "nginx,fastr"]),
        (["log", "--verify=nginx"], ["log", "--verify=nginx"]),
        (["log"], ["log"]),
    ],
)
def test_verify_alone_stands_for_all(typed: list[str], read: list[str]) -> None:
    assert with_value(typed) == read


def always(value: float) -> Spread:
    return Spread(median=value, minimum=value, maximum=value)


def step(offered: float, mean: float, p95: float, *, limited: bool = False) -> Step:
    spreads = {name: always(1.0) for name, field in Step.model_fields.items() if field.annotation is Spread}
    return Step.model_validate(
        {
            **spreads,
            "offered_requests_per_second": offered,
            "repetitions": 1,
            "requests_per_second": always(offered),
            "response_time_mean_seconds": always(mean),
            "response_time_p95_seconds": always(p95),
            **dict.fromkeys(("server_cpu_fraction", "server_cpu_seconds_per_request", "server_core_busy_fraction")),
            "generator_limited": limited,
            "steady": True,
            "within_target": True,
            "held_out": False,
            **dict.fromkeys(("closed_form", "simulation", "closed_form_error", "simulation_error")),
        }
    )


def predicted_change(disturbed: list[str] | None = None) -> Verification:
    said = Prediction(requests_per_second=50, response_time_mean_seconds=1e-3, response_time_p95_seconds=3e-3)
    load = VerifiedLoad(
        offered_requests_per_second=50,
        fraction_of_predicted_capacity=0.5,
        predicted=said,
        measured=None,
        error=None,
    )
    return Verification(
        change="half-processor",
        says="half of it",
        unmade_because=None,
        predicted_capacity_requests_per_second=scaled(100, (0.95, 1.05)),
        loads=[load],
        disturbed_because=disturbed or [],
    )


def test_a_prediction_within_the_aims_is_called_so() -> None:
    made = compared(predicted_change(), knee_at(102), [step(50, 1.1e-3, 3.3e-3)], [])
    assert (made.verdict, made.missed) == ("within the aims", [])
    assert made.capacity_error == pytest.approx(-2 / 102)
    assert made.is_within_interval
    assert made.loads[0].error is not None
    assert made.loads[0].error.response_time_mean == pytest.approx(-1 / 11)


@pytest.mark.parametrize(
    ("knee", "mean", "p95", "named"),
    [(80.0, 1e-3, 3e-3, "capacity"), (100.0, 1.3e-3, 3e-3, "mean response time"), (100.0, 1e-3, 5e-3, "p95")],
)
def test_a_prediction_that_misses_an_aim_says_which(knee: float, mean: float, p95: float, named: str) -> None:
    made = compared(predicted_change(), knee_at(knee), [step(50, mean, p95)], [])
    assert made.verdict == "missed"
    assert len(made.missed) == 1
    assert made.missed[0].startswith(named)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_over_disturbed_measurements_nothing_is_judged(when: str) -> None:
    other = ["Other processes used 40 % of the server's core."]
    before, meanwhile = (other, []) if when == "before" else ([], other)
    for mean in (1e-3, 1.0):
        made = compared(predicted_change(before), knee_at(100), [step(50, mean, 3e-3)], meanwhile)
        assert made.verdict == "disturbed"
        assert made.disturbed_because == other


def test_an_interval_without_a_width_is_met_by_nothing_and_missed_by_nothing() -> None:
    alone = predicted_change().model_copy(update={"predicted_capacity_requests_per_second": scaled(100, (1.0, 1.0))})
    assert compared(alone, knee_at(102), [], []).is_within_interval is None


def test_response_times_are_judged_on_the_cores_as_they_were() -> None:
    made = predicted_change()
    slow = made.loads[0].predicted.model_copy(update={"response_time_mean_seconds": 1.5e-3})
    made = made.model_copy(update={"loads": [made.loads[0].model_copy(update={"judged": slow})]})
    load = compared(made, knee_at(102), [step(50, 1.5e-3, 3e-3)], []).loads[0]
    assert load.error is not None
    assert load.error.response_time_mean == pytest.approx(0)
    assert load.predicted == made.loads[0].predicted


def test_what_was_measured_too_roughly_is_not_judged() -> None:
    rough = predicted_change()
    said = rough.loads[0].predicted.model_copy(update={"response_time_mean_known_to": 0.8})
    rough = rough.model_copy(update={"loads": [rough.loads[0].model_copy(update={"judged": said})]})
    exact = knee_at(100).model_copy(update={"low": 99.0, "high": 101.0})
    made = compared(rough, exact, [step(50, 2e-3, 3e-3)], [])
    assert made.verdict == "within the aims"
    assert made.undecided == [
        "mean response time at 50 % of the predicted capacity: 50 %: not decided, measured to ±80 %"
    ]
    assert made.response_time_mean_error is None
    assert compared(predicted_change(), exact, [step(50, 2e-3, 3e-3)], []).verdict == "missed"


def test_a_load_that_uses_up_the_share_is_not_judged() -> None:
    busy = step(50, 1.0, 3.0).model_copy(update={"server_cpu_fraction": always(0.46)})
    made = compared(predicted_change(), knee_at(100), [busy], [], processors=0.5)
    assert made.loads[0].utilisation == pytest.approx(0.92)
    assert made.verdict == "within the aims"
    assert compared(predicted_change(), knee_at(100), [busy], []).verdict == "missed"


def test_a_load_beside_a_capacity_of_none_is_not_judged() -> None:
    none = knee_at(100).model_copy(update={"requests_per_second": 0.0, "low": 0.0, "high": 20.0})
    made = compared(predicted_change(), none, [step(50, 1.0, 3.0)], [])
    assert made.capacity_error is None
    assert made.loads[0].utilisation == 1
    assert made.verdict == "not decided"


def test_an_error_of_the_capacity_that_its_repetitions_are_apart_is_not_decided() -> None:
    knee = knee_at(100).model_copy(update={"requests_per_second": 108.0, "low": 100.0, "high": 114.0})
    made = compared(predicted_change(), knee, [], [])
    assert (made.verdict, len(made.undecided)) == ("not decided", 1)


def test_a_lower_bound_has_no_error_and_a_limited_step_is_no_measurement() -> None:
    made = compared(predicted_change(), knee_at(150, "generator"), [step(50, 1.0, 1.0, limited=True)], [])
    assert made.capacity_error is None
    assert not made.is_within_interval
    assert made.loads[0].measured is None
    assert made.verdict == "not measured"


@pytest.fixture
def without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.assessment.verification.changes.processors_unlimited_because", lambda: None)


class Silent:
    def begin(self, name: str) -> None: ...
    def line(self, line: object) -> None: ...
    def update(self, done: float, total: float | None = None, detail: str = "") -> None: ...
    def done(self, detail: str | None = None) -> None: ...


def climbing(monkeypatch: pytest.MonkeyPatch, climbed: Callable[..., Any]) -> None:
    monkeypatch.setattr(execution._One, "_climbed", climbed)
    clock = SimpleNamespace(measure=None, steps=[], climbs=SimpleNamespace(rows=[]), usually_slower=1.0)
    monkeypatch.setattr(execution._One, "_unchanged", lambda *_: clock)


@pytest.mark.usefixtures("without_limits")
def test_the_prediction_is_in_the_folder_before_it_is_measured(
    assessed: Assessed, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = assessed.folder.path / "verification" / "half-processor" / "prediction.json"
    written: list[dict[str, Any]] = []

    def climbed(*_: object) -> Climbed:
        written.append(json.loads(file.read_text()))
        return Climbed(knee_at(490), [], {}, [])

    climbing(monkeypatch, climbed)
    made: list[Verification] = []
    verify(assessed, ["half-processor"], Silent(), made.append)
    assert written[0]["predicted_capacity_requests_per_second"]["estimate"] == pytest.approx(500)
    assert written[0]["measured_knee"] is None
    assert made[0].predicted_at == written[0]["predicted_at"]
    assert made[0].capacity_error == pytest.approx(500 / 490 - 1)


@pytest.mark.usefixtures("without_limits")
def test_an_interruption_keeps_the_prediction_and_ends_the_rest(
    assessed: Assessed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def climbed(*_: object) -> NoReturn:
        raise Interrupted(None)

    climbing(monkeypatch, climbed)
    made: list[Verification] = []
    with pytest.raises(Interrupted):
        verify(assessed, ["half-processor", "quarter-processor"], Silent(), made.append)
    assert [each.change for each in made] == ["half-processor"]
    assert made[0].unmade_because == "interrupted"
    assert made[0].predicted_capacity_requests_per_second is not None


@pytest.mark.usefixtures("without_limits")
def test_where_all_are_asked_for_what_is_no_change_is_passed_over(
    assessed: Assessed, monkeypatch: pytest.MonkeyPatch
) -> None:
    climbing(monkeypatch, lambda *_: Climbed(knee_at(1000), [], {}, []))
    monkeypatch.setattr(execution._One, "demand", lambda *_: FIT)
    monkeypatch.setattr(execution._One, "climb", lambda *_: knee_at(250))
    made: list[Verification] = []
    verify(assessed, chosen_changes("all"), Silent(), made.append)
    assert [each.change for each in made] == [name for name in CHANGES if name not in ("fewer-workers", "sojourn")]


@pytest.mark.usefixtures("without_limits")
def test_a_change_that_fails_says_why_and_the_next_is_made(assessed: Assessed, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    def climbed(*_: object) -> Climbed:
        attempts.append(1)
        if len(attempts) == 1:
            raise CouldNotRun("nothing listens")
        return Climbed(knee_at(250), [], {}, [])

    climbing(monkeypatch, climbed)
    made: list[Verification] = []
    verify(assessed, ["half-processor", "quarter-processor", "sojourn"], Silent(), made.append)
    assert [each.unmade_because for each in made] == [
        "nothing listens",
        None,
        "it is the server that was assessed",
    ]
    assert made[1].verdict == "within the aims"
