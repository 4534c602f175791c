"""Steps over undisturbed windows: taken where there are enough, measured interruptions, and the model's figures."""

from __future__ import annotations

import pytest

from sojourn.assessment.rising_load import Effort
from sojourn.assessment.steps import ClimbStep, Sent, lost_squared, of_climb, over_levels, row
from sojourn.engine.results import (
    Columns,
    CoreLoss,
    Generator,
    ServerUse,
    Summary,
    Timeline,
    Unavailable,
    Undisturbed,
)
from sojourn.loading.record import RequestsRecord


def latencies(mean: float) -> Summary:
    return Summary(mean=mean, p50=mean, p95=3 * mean, p99=5 * mean)


def undisturbed(mean: float, windows: int, resolution_seconds: float = 1e-9, usual: float = 0.0) -> Undisturbed:
    return Undisturbed(
        windows=windows,
        windows_total=20,
        windows_judged=20,
        seconds=2.0,
        requests=100 * windows,
        requests_per_second=1000.0,
        response_time_seconds=latencies(mean),
        time_to_first_byte_intended_seconds=latencies(mean),
        server_cpu_seconds_per_request=8e-6,
        lost_max_seconds=0.001,
        server_core=CoreLoss(
            lost_fraction=usual,
            lost_in_a_window_max_seconds=usual,
            usual_in_a_window_seconds=usual,
            source="made up",
            resolution_seconds=resolution_seconds,
        ),
    )


def step(mean: float, seen: Undisturbed | str, lost: float | None = None) -> ClimbStep:
    return ClimbStep(
        start_seconds=0.0,
        duration_seconds=2.0,
        offered_requests_per_second=1000.0,
        requests_per_second=1000.0,
        bytes_per_second=1e6,
        requests=2000,
        response_time_seconds=latencies(mean),
        time_to_first_byte_intended_seconds=latencies(mean),
        connections_open_mean=3.0,
        generator=Generator(limited=False, cpu_fraction=0.2),
        server=ServerUse(cpu_seconds_per_request=9e-6, cpu_fraction=0.5, core_busy_fraction=0.5),
        undisturbed=Unavailable(unavailable=seen) if isinstance(seen, str) else seen,
        server_core_lost_squared_seconds=lost,
    )


def test_the_model_is_fitted_on_undisturbed_windows_where_there_are_enough() -> None:
    seen = [undisturbed(100e-6, 15), undisturbed(110e-6, 18), undisturbed(150e-6, 1)]
    (found,) = over_levels([[step(mean, each) for mean, each in zip([900e-6, 300e-6, 600e-6], seen, strict=True)]])
    # A repetition counts as its requests: without that, the last one's single window would count like the others' many.
    middle = (6.5 * 100e-6 + 10.5 * 110e-6) / 17
    assert (found.mean_for_model, found.p95_for_model) == pytest.approx((middle, 3 * middle))
    assert (found.cpu_for_model, found.own_cpu_undisturbed) == (9e-6, 8e-6)
    assert found.response_time_mean_seconds.median == pytest.approx(600e-6)
    assert found.undisturbed is not None
    assert (found.undisturbed.windows, found.undisturbed.windows_total) == (34, 60)
    (equal,) = over_levels([[step(1.0, undisturbed(100e-6, 15)), step(1.0, undisturbed(110e-6, 15))]])
    assert equal.mean_for_model == pytest.approx(105e-6)


def test_what_kernel_threads_do_for_the_load_is_part_of_its_demand() -> None:
    (found,) = over_levels([[step(100e-6, undisturbed(100e-6, 15, usual=0.0002))]])
    assert found.server_core_usual_fraction == pytest.approx(0.002)
    assert found.cpu_for_model == pytest.approx(9e-6 + 0.002 / 1000)


def test_without_enough_windows_the_step_as_it_was_is_taken_and_the_reason_is_said() -> None:
    (few,) = over_levels([[step(900e-6, undisturbed(100e-6, 2))]])
    assert few.mean_for_model == 900e-6
    assert few.cpu_for_model == 9e-6
    assert few.undisturbed_unavailable == "fewer than 5 windows were undisturbed"
    (unseen,) = over_levels([[step(900e-6, "no process is observed")]])
    assert unseen.undisturbed_unavailable == "no process is observed"


def test_interruptions_are_measured_from_what_windows_lost() -> None:
    columns = Columns(step=[0, 0, 0, 0, 1, None], server_core_lost_seconds=[0.01, 0.0, 0.0, 0.0, 0.05, 0.05])
    timeline = Timeline(interval_seconds=0.1, columns=columns)
    # One interruption of 10 ms in 0.4 s.
    found = lost_squared(timeline, 0, step(1e-3, undisturbed(1e-4, 15)))
    assert found == pytest.approx(0.01**2 / 0.4)
    # What every window loses comes in small parts.
    assert lost_squared(timeline, 0, step(1e-3, undisturbed(1e-4, 15, usual=0.002))) == pytest.approx(0.008**2 / 0.4)
    (kept,) = over_levels([[step(1e-3, "not seen", found)]])
    assert kept.server_core_lost_squared == found
    coarse = step(1e-3, undisturbed(1e-4, 15, resolution_seconds=0.01))
    assert lost_squared(timeline, 0, coarse) is None
    assert lost_squared(timeline, 0, step(1e-3, "no process is observed")) is None


def test_a_slow_system_is_measured_for_longer_and_a_fast_one_is_not() -> None:
    normal = Effort(5, 2.5, 0.8)
    assert normal.for_capacity(100_000) == normal
    assert normal.for_capacity(2000).step_seconds == pytest.approx(0.8 + 4)
    assert normal.for_capacity(10).step_seconds == 10


def test_a_step_knows_what_says_which_requests_it_sent() -> None:
    columns = Columns(time_seconds=[0.9, 1.0, 1.1, 1.2], step=[None, 0, 0, 1], undisturbed=[None, True, False, True])
    result = RequestsRecord.model_construct(
        steps=[step(1e-3, undisturbed(1e-4, 1)), step(1e-3, "not seen")],
        timeline=Timeline(interval_seconds=0.1, columns=columns),
        seed=7,
    )
    judged, unseen = of_climb(result, Effort(1, 2.5, 0.5))
    assert judged.sent == Sent((1000.0,), 2.5, 0.5, 7, ((0.9, 1.0),))
    # Where windows are not judged, it is the measured part.
    assert unseen.sent == Sent((1000.0, 1000.0), 2.5, 0.5, 7, ((3.0, 5.0),))
    assert "sent" not in row(judged, "repetition-1")


def test_what_others_took_of_a_core_is_known_by_window() -> None:
    columns = Columns(
        time_seconds=[0.1, 0.2, 0.3, 0.4],
        step=[None, 0, 0, 0],
        undisturbed=[None, False, True, False],
        server_core_lost_seconds=[0.05, 0.012, 0.001, None],
        generator_core_lost_seconds=[0.0, 0.0, 0.3, 0.0],
    )
    seen = undisturbed(1e-4, 15, usual=0.002)
    seen = seen.model_copy(update={"generator_core": seen.server_core})
    timeline = Timeline(interval_seconds=0.1, columns=columns)
    result = RequestsRecord.model_construct(steps=[step(1e-3, seen)], timeline=timeline, seed=7)
    (found,) = of_climb(result, Effort(1, 0.4, 0.1))
    assert found.sent is not None
    # 10 ms beyond the usual about the middle of the second window, and all of the third, which is all there is of it.
    assert found.sent.server_interruptions == (pytest.approx((0.145, 0.155)),)
    assert found.sent.generator_interruptions == (pytest.approx((0.2, 0.3)),)
    coarse = seen.model_copy(update={"server_core": undisturbed(1e-4, 15, resolution_seconds=0.01).server_core})
    result = RequestsRecord.model_construct(steps=[step(1e-3, coarse)], timeline=timeline, seed=7)
    (found,) = of_climb(result, Effort(1, 0.4, 0.1))
    assert found.sent is not None
    assert found.sent.server_interruptions == ()
