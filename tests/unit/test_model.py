"""The model against a server whose parameters are known because we made it up."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sojourn import _native
from sojourn.assessment import averages
from sojourn.assessment.cpu_demand import ByRate
from sojourn.assessment.model import Delays, Mix, Station, fit_station, quota
from sojourn.assessment.prediction import predict
from sojourn.assessment.simulation import Sessions, core_speed, simulate, simulate_measured, with_speeds
from sojourn.assessment.steps import ClimbStep, Sent, Work
from sojourn.assessment.summary import DemandFit, Knee, Step
from sojourn.assessment.system_file import COMMENT, describe
from sojourn.engine.results import Summary as Latencies
from sojourn.engine.results import Unavailable
from sojourn.planning.system_document import SystemDocument
from sojourn.queueing import system_file
from sojourn.results.records import Interval, Spread

LATENCY, CALIBRATION = 30e-6, 1.2
DELAYS = Delays(LATENCY, 10e-6)


def exactly(value: float) -> Interval:
    return Interval(estimate=value, low=value, high=value)


def always(value: float) -> Spread:
    return Spread(median=value, minimum=value, maximum=value)


FIT = DemandFit(
    seconds_per_byte=exactly(0.5e-9),
    fixed_seconds=exactly(6e-6),
    connection_seconds=exactly(12e-6),
    basis="cpu",
    points_used=21,
    points_left_out=0,
    relative_error_median=0.01,
)


@pytest.fixture(scope="module")
def trace(small_log: Path) -> _native.Trace:
    return _native.import_log(str(small_log))


@pytest.fixture(scope="module")
def mix(trace: _native.Trace) -> Mix:
    return Mix(trace.transfer_sizes().astype(float), trace.first_in_session())


def singles(folder: Path) -> _native.Trace:
    """A trace whose sessions are single requests."""
    log = folder / "single.log"
    line = '10.0.{}.{} - - [21/Nov/2026:10:{:02d}:{:02d} +0000] "GET /{} HTTP/1.1" 200 {}\n'
    log.write_text(
        "".join(line.format(n // 250, n % 250, n // 60, n % 60, n % 50, 500 + 400 * (n % 50)) for n in range(3000))
    )
    return _native.import_log(str(log))


def made_up(station: Station, rate: float) -> Step:
    load = min(1.0, rate / station.capacity)
    said = station.closed_form(rate)
    times = [said.response_time_mean_seconds or 1.0, said.response_time_p95_seconds or 3.0]
    return Step.model_validate(
        {
            "offered_requests_per_second": rate,
            "repetitions": 1,
            "requests_per_second": always(said.requests_per_second),
            "bytes_per_second": always(1e6),
            "time_to_first_byte_p95_seconds": always(times[1]),
            "response_time_mean_seconds": always(times[0]),
            "response_time_p50_seconds": always(times[0]),
            "response_time_p95_seconds": always(times[1]),
            "response_time_p99_seconds": always(times[1]),
            "error_fraction": always(0.0),
            "connections_open_mean": always(10.0),
            "server_cpu_fraction": always(load),
            # Waking an idle server costs CPU time too: 5 us a request when it always sleeps.
            "server_cpu_seconds_per_request": always(float(station.demands.mean()) + 5e-6 * (1 - load)),
            "server_core_busy_fraction": always(load),
            "generator_cpu_fraction": always(0.3),
            "generator_limited": False,
            "steady": True,
            "within_target": load < 1,
            "held_out": False,
            "closed_form": None,
            "simulation": None,
            "closed_form_error": None,
            "simulation_error": None,
        }
    )


@pytest.fixture(scope="module", params=[1, 4, None])
def station(request: pytest.FixtureRequest, mix: Mix) -> Station:
    demands = mix.demands(FIT) * CALIBRATION
    capacity = 0.9 / float(demands.mean())
    return Station(demands, request.param, exactly(CALIBRATION), capacity, DELAYS, DELAYS)


def test_a_made_up_server_is_recovered_from_half_its_steps(
    station: Station, mix: Mix, trace: _native.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The closed form is looked at; the simulation has to be there, not to be exact.
    monkeypatch.setattr("sojourn.assessment.simulation.REQUESTS", 60_000)
    rates = [station.capacity * load for load in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2)]
    knee = Knee(
        requests_per_second=station.capacity,
        low=station.capacity,
        high=station.capacity,
        per_repetition=[station.capacity],
        reason="throughput",
        is_lower_bound=False,
    )
    steps = [made_up(station, rate) for rate in rates]
    model, predicted, fitted = predict(mix, Sessions(trace, 1.0), FIT, steps, knee, 1, lambda done, total: None)
    assert model is not None
    assert fitted is not None
    assert [step.held_out for step in predicted] == [False, True] * 4 + [True, False]
    assert model.calibration_factor.estimate == pytest.approx(CALIBRATION, rel=0.01)
    assert model.capacity_requests_per_second == pytest.approx(station.capacity, rel=0.01)
    for step in predicted[1:8:2]:
        assert step.closed_form_error is not None
        assert step.closed_form_error.response_time_mean == pytest.approx(0.0, abs=0.05)
    assert predicted[-1].closed_form is not None
    assert predicted[-1].closed_form.response_time_mean_seconds is None


def test_the_requests_of_each_repetition_are_simulated_again(station: Station, trace: _native.Trace) -> None:
    rate, slower = 0.8 * station.busy_capacity, 1.1

    interrupted = ((1.72, 1.74), (1.9, 1.91))

    def repetition(seed: int) -> ClimbStep:
        """As a server measures it that takes a tenth longer, in the second half of its measured part."""
        answered_at, times, demands = _native.simulate_step(
            trace,
            [rate / 2, rate],
            1.0,
            0.4,
            0.1,
            station.demands,
            station.r,
            LATENCY,
            seed,
            station_interruptions=interrupted,
        )
        assert set(demands) <= set(station.demands)
        inside = slower * times[answered_at > 1.7]
        times_seen = Latencies(mean=float(inside.mean()), p95=float(np.quantile(inside, 0.95)))
        sent = Sent((rate / 2, rate), 1.0, 0.4, seed, ((1.7, 3.0),), interrupted)
        return ClimbStep.model_construct(
            requests=len(inside),
            response_time_seconds=times_seen,
            undisturbed=Unavailable(unavailable="none"),
            sent=sent,
        )

    repetitions = [repetition(seed) for seed in range(4)]
    bare = replace(station, mean_delays=Delays(LATENCY), p95_delays=Delays())
    step = made_up(station, rate)
    seen = {rate: repetitions}
    said = simulate_measured(bare, Sessions(trace, 0.1, seen), step, 1)
    means = [each.response_time_seconds.mean or 0.0 for each in repetitions]
    # What the draws have in common with the measured ones cancels: left is the tenth, and the delay.
    assert said.response_time_mean_seconds is not None
    beyond = LATENCY + step.mean_for_model - said.response_time_mean_seconds
    assert beyond == pytest.approx((1 - 1 / slower) * step.mean_for_model, rel=0.25)
    assert said.response_time_mean_known_to is not None
    assert said.response_time_mean_known_to < 0.3 * (averages.half_width(means) or 0.0) / float(np.mean(means))
    unknown = simulate_measured(bare, Sessions(trace, 0.1), step, 1)
    assert unknown.response_time_mean_known_to is None
    # Where the machine decided and not the draw, it is the simulation of any requests that is compared.
    of_the_machine = [
        each.model_copy(update={"response_time_seconds": Latencies(mean=mean, p95=3 * mean)})
        for each, mean in zip(repetitions, [means[place] for place in np.argsort(np.argsort(means))[::-1]], strict=True)
    ]
    said = simulate_measured(bare, Sessions(trace, 0.1, {rate: of_the_machine}), step, 1)
    assert said.response_time_mean_known_to is not None


def test_the_speed_of_the_cores_in_each_repetition_is_simulated(trace: _native.Trace, mix: Mix) -> None:
    demands, windows = mix.demands(FIT), np.arange(0.0, 2.05, 0.1)
    usual, client = float(demands.mean()), 10e-6
    rate = 0.8 / usual
    station = Station(demands, 1, exactly(1.0), 1 / usual, client_seconds=client)

    def repetition(seed: int, speed: float) -> ClimbStep:
        """As measured on cores of this speed."""
        share, sending = (client - 5e-6 * demands.min() / usual) / usual, 5e-6 * demands.min() / usual
        answered_at, times, each = _native.simulate_step(
            trace,
            [rate],
            2.0,
            0.0,
            0.1,
            demands,
            1,
            0.0,
            seed,
            client=share,
            sending=sending,
            station_speeds=[(0.0, speed)],
            client_speeds=[(0.0, speed)],
        )
        work = tuple(
            Work(begin, end, len(inside), float(inside.sum()) / speed, client * len(inside) / speed)
            for begin, end in itertools.pairwise(windows.tolist())
            if len(inside := each[(answered_at > begin) & (answered_at <= end)])
        )
        inside = times[(answered_at > 0.5) & (answered_at <= 2)]
        return ClimbStep.model_construct(
            requests=len(inside),
            response_time_seconds=Latencies(mean=float(inside.mean()), p95=float(np.quantile(inside, 0.95))),
            undisturbed=Unavailable(unavailable="none"),
            sent=Sent((rate,), 2.0, 0.0, seed, ((0.5, 2.0),), work=work),
        )

    speeds = (0.9, 1.0, 1.1, 1.2)
    repetitions = [repetition(seed, speed) for seed, speed in enumerate(speeds)]
    blind = Sessions(trace, 0.1, {rate: repetitions})
    seeing = with_speeds(blind, demands, {rate: usual})
    found = core_speed(seeing, rate)
    assert found is not None
    assert (found.minimum, found.maximum) == pytest.approx((0.9, 1.2), rel=0.03)
    assert core_speed(blind, rate) is None
    means = [each.response_time_seconds.mean or 0.0 for each in repetitions]
    measured = float(
        averages.middle([(mean, each.requests) for mean, each in zip(means, repetitions, strict=True)]) or 0
    )
    step = made_up(station, rate).model_copy(update={"response_time_mean_seconds": always(measured)})
    said = simulate_measured(station, seeing, step, 1)
    assert said.response_time_mean_seconds == pytest.approx(measured, rel=0.05)
    without = simulate_measured(replace(station, client_seconds=0.0), blind, step, 1)
    assert said.response_time_mean_known_to is not None
    assert without.response_time_mean_known_to is not None
    assert said.response_time_mean_known_to < 0.2 * without.response_time_mean_known_to


def test_a_server_that_overload_slows_down_still_keeps_up_where_it_was_seen_to(mix: Mix) -> None:
    demands = mix.demands(FIT)
    busy = 1 / float(demands.mean())
    station = Station(demands, 1, exactly(1.0), 0.5 * busy, kept_up=0.8 * busy)
    assert station.closed_form(0.8 * busy).response_time_mean_seconds is not None
    beyond = station.closed_form(0.81 * busy)
    assert beyond.response_time_mean_seconds is None
    assert beyond.requests_per_second == station.capacity
    assert not Station(demands, 1, exactly(1.0), 0.5 * busy, kept_up=2 * busy).keeps_up(1.01 * busy)


def test_a_rate_at_which_requests_are_taken_to_need_more_than_there_is_has_no_times(
    mix: Mix, trace: _native.Trace
) -> None:
    demands = mix.demands(FIT)
    busy = 1 / float(demands.mean())
    # The last step that kept up was at 0.95 of what a busy server does, and its requests needed 6 % more.
    station = Station(demands, 1, exactly(1.0), busy, over_busy=ByRate((0.5 * busy, 0.95 * busy), (1.1, 1.06)))
    rate = 0.96 * busy
    assert rate * station.demand_at(rate) > 1
    assert station.keeps_up(0.9 * busy)
    for said in (station.closed_form(rate), simulate(station, Sessions(trace, 1.0), rate, 1)):
        assert said.response_time_mean_seconds is None
        assert said.requests_per_second == rate, "it answers no more than it is asked"


@pytest.mark.parametrize(
    ("wakeups", "at_busy", "loads"),
    [
        pytest.param(
            lambda idle: 0.9 * idle**1.5, 0.0, (0.2, 0.4, 0.6, 0.8), id="a loop that hardly sleeps when it is busy"
        ),
        pytest.param(
            lambda idle: 2.0 + 0.1 * idle, 2.0, (0.15, 0.3, 0.45, 0.6), id="threads that hand work on to each other"
        ),
    ],
)
def test_the_demand_of_a_busy_server_is_found_from_its_wake_ups(
    mix: Mix, wakeups: Callable[[float], float], at_busy: float, loads: tuple[float, ...]
) -> None:
    plain = Station(mix.demands(FIT), None, exactly(1.0), 1 / float(mix.demands(FIT).mean()))
    busy, cost = float(plain.demands.mean()), 4e-6

    def woken(load: float) -> Step:
        cpu = always(busy + cost * wakeups(1 - load))
        step = made_up(plain, plain.capacity * load)
        update = {"server_cpu_seconds_per_request": cpu, "server_wakeups_per_request": wakeups(1 - load)}
        return step.model_copy(update=update)

    fitted = fit_station(mix, FIT, [woken(load) for load in loads], None, 1)
    assert float(fitted.demands.mean()) == pytest.approx(busy + cost * at_busy, rel=0.02)


def test_the_demand_falls_with_the_load_as_the_steps_say(mix: Mix) -> None:
    plain = Station(mix.demands(FIT), 1, exactly(1.0), 1 / float(mix.demands(FIT).mean()))
    busy = float(plain.demands.mean())
    loads = (0.2, 0.4, 0.6, 0.8)
    steps = [made_up(plain, load * plain.capacity) for load in loads]
    fitted = fit_station(mix, FIT, steps, None, 1)
    for load in (*loads, 0.5):
        assert fitted.demand_at(load * plain.capacity) == pytest.approx(busy + 5e-6 * (1 - load), rel=0.01)
    assert fitted.demand_at(2 * plain.capacity) == pytest.approx(busy, rel=0.01)


def test_a_wait_for_a_sleeping_core_is_told_from_a_latency(mix: Mix) -> None:
    plain = Station(mix.demands(FIT), 1, exactly(1.0), 1 / float(mix.demands(FIT).mean()))
    asleep = replace(plain, mean_delays=Delays(LATENCY, 0.0, 20e-6), p95_delays=Delays(LATENCY, 0.0, 20e-6))
    steps = [made_up(asleep, load * plain.capacity) for load in (0.1, 0.3, 0.5, 0.7)]
    steady = [step.model_copy(update={"server_cpu_seconds_per_request": None}) for step in steps]
    fitted = fit_station(mix, FIT, steady, None, 1)
    assert fitted.mean_delays.latency_seconds == pytest.approx(LATENCY, rel=0.05)
    assert fitted.mean_delays.wakeup_seconds == pytest.approx(20e-6, rel=0.05)


def test_a_server_costs_no_more_than_its_highest_throughput_allows(mix: Mix) -> None:
    # Of a tenth of a core, where each request of a light load wakes it, the demand cannot be read from light loads.
    plain = Station(mix.demands(FIT), None, exactly(1.0), 1 / float(mix.demands(FIT).mean()))
    busy, share = float(plain.demands.mean()), 0.1

    def woken(load: float) -> Step:
        return made_up(plain, share * plain.capacity * load).model_copy(
            update={"server_cpu_seconds_per_request": always(1.4 * busy), "server_wakeups_per_request": 1.0}
        )

    steps = [woken(load) for load in (0.2, 0.4, 0.6, 0.8, 1.0)]
    fitted = fit_station(mix, FIT, steps[:-1], steps[-1], 1, quota(share))
    assert float(fitted.demands.mean()) == pytest.approx(busy, rel=0.02)


def test_the_system_file_of_a_server_with_a_cpu_limit_has_the_measured_capacity(mix: Mix) -> None:
    whole = Station(mix.demands(FIT), None, exactly(1.0), 1 / float(mix.demands(FIT).mean()))
    tenth = replace(whole, capacity=0.1 * whole.capacity, quota=quota(0.1))
    for station in (whole, tenth):
        rate = 0.5 * station.capacity
        text = system_file.write(describe("sojourn", mix, station, FIT, rate, None), COMMENT)
        loads = SystemDocument.parse(text, "fitted").system.open_utilisations()
        assert rate / loads["server"] == pytest.approx(station.capacity, rel=0.02)


def test_what_a_share_is_spent_on_is_told_apart(mix: Mix) -> None:
    plain = Station(mix.demands(FIT), None, exactly(1.0), 1 / float(mix.demands(FIT).mean()))
    busy, share = float(plain.demands.mean()), 0.1

    def woken(load: float, wakeups: float) -> Step:
        rate = share * plain.capacity * load
        cpu = always(busy + 0.5 * busy * wakeups + 0.005 / rate)
        update = {"server_cpu_seconds_per_request": cpu, "server_wakeups_per_request": wakeups}
        return made_up(plain, rate).model_copy(update=update)

    steps = [woken(*each) for each in ((0.15, 0.98), (0.3, 0.9), (0.45, 0.8), (0.6, 0.75), (0.8, 0.4))]
    fitted = fit_station(mix, FIT, steps, None, 1, quota(share))
    assert float(fitted.demands.mean()) == pytest.approx(busy, rel=0.01)
    assert fitted.wakeup_seconds == pytest.approx(0.5 * busy, rel=0.01)
    assert fitted.background_fraction == pytest.approx(0.005, rel=0.01)
    assert fitted.busy_capacity == pytest.approx(0.95 * share / busy, rel=0.01)


def test_a_share_is_used_up_by_waking_up(tmp_path: Path) -> None:
    sessions = Sessions(singles(tmp_path), 1.0)
    demands = np.full(sessions.trace.transfer_sizes().shape, 1e-5)
    light = Station(demands, 1, exactly(1.0), 1e4, quota=quota(0.1), kept_up=1e4)
    mean = simulate(light, sessions, 8000, 1).response_time_mean_seconds
    throttled = simulate(replace(light, wakeup_seconds=3e-6), sessions, 8000, 1).response_time_mean_seconds
    assert mean is not None
    assert throttled is not None
    # Four fifths of the share go to the requests, and with their wake-ups more than all of it.
    assert mean < 2e-5
    assert throttled > 1e-4


def test_simulation_agrees_with_the_closed_form_where_sessions_are_single_requests(tmp_path: Path) -> None:
    trace = singles(tmp_path)
    mix = Mix(trace.transfer_sizes().astype(float), trace.first_in_session())
    demands = mix.demands(FIT)
    station = Station(demands, 1, exactly(1.0), 1 / float(demands.mean()))
    for load in (0.3, 0.7):
        rate = load * station.capacity
        exact, simulated = station.closed_form(rate), simulate(station, Sessions(trace, 1.0), rate, 5)
        assert simulated.response_time_mean_seconds == pytest.approx(exact.response_time_mean_seconds, rel=0.03)
        assert simulated.response_time_p95_seconds == pytest.approx(exact.response_time_p95_seconds, rel=0.1)


def test_without_cpu_figures_nothing_is_calibrated(mix: Mix) -> None:
    demands = mix.demands(FIT)
    whole = Station(demands, 1, exactly(1.0), 1 / float(demands.mean()), mean_delays=Delays(LATENCY))
    steps = [
        made_up(whole, whole.capacity * load).model_copy(update={"server_cpu_seconds_per_request": None})
        for load in (0.3, 0.6)
    ]
    fitted = fit_station(mix, FIT, steps, None, 1)
    assert fitted.calibration.estimate == 1.0
    assert fitted.mean_delays.latency_seconds == pytest.approx(LATENCY, rel=0.2)
