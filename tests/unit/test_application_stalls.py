"""Moments in which a machine stood still are found in a step, told from chance, and simulated with its requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sojourn.applications import fitting, simulation, stalls
from sojourn.applications.diagnosis import CoreGroup
from sojourn.applications.network import Network, Places
from sojourn.applications.summary import CpuWindows, EndpointFigures, StepFigures, TierDescription
from sojourn.tiers.watch import TierUse, _Span

PAGE = "GET /"
SECONDS, WINDOW, DEMAND, CORES = 4.0, 0.1, 0.004, 2
TIERS = [TierDescription(name="app", declared="app", cores=[0, 1])]
NETWORK = Network(
    endpoints=(PAGE,),
    tiers=("app",),
    groups=(CoreGroup(("app",), CORES),),
    demands={(PAGE, "app"): DEMAND},
    waits={PAGE: 0.0},
)


def step(rate: float, seed: int, lost: dict[int, float], factor: float = 1.0, variation: float = 0.5) -> StepFigures:
    """Requests that do not wait for each other; at the begin of some windows all cores lose some time together."""
    random = np.random.default_rng(seed)
    due = np.sort(random.uniform(0, SECONDS, random.poisson(rate * SECONDS)))
    times = DEMAND * factor * random.gamma(1 / variation**2, variation**2, due.size)
    edges = np.arange(round(SECONDS / WINDOW) + 1) * WINDOW
    begin = due.copy()
    for window, seconds in lost.items():
        held = (begin >= edges[window]) & (begin < edges[window] + seconds / CORES)
        begin[held] = edges[window] + seconds / CORES
    used = np.diff(np.clip((edges[:, np.newaxis] - begin) / times, 0, 1), axis=0) @ times
    for window, seconds in lost.items():
        used[window] += seconds
    response = begin + times - due
    figures = EndpointFigures(
        name=PAGE, offered_requests_per_second=rate, requests_per_second=due.size / SECONDS, failures=0, unfinished=0,
        response_time_mean_seconds=float(response.mean()), response_time_p50_seconds=None,
        response_time_p95_seconds=None, response_time_p99_seconds=None, requests=due.size,
        due_seconds=[float(each) for each in due], response_seconds=[float(each) for each in response],
    )  # fmt: skip
    return StepFigures(
        kind="climb", offered_requests_per_second=rate, requests_per_second=due.size / SECONDS, failed_fraction=0.0,
        response_time_mean_seconds=None, response_time_p95_seconds=None, in_system=1.0, endpoints=[figures],
        tiers={"app": TierUse(cpu_cores=float(used.sum()) / SECONDS)}, measured_seconds=SECONDS,
        cpu_windows=CpuWindows(seconds=WINDOW, cores={"app": [float(each) / WINDOW for each in used]}),
    )  # fmt: skip


@pytest.mark.parametrize("rate", [20.0, 100.0, 250.0])
def test_what_a_window_used_beyond_its_answers_is_found_where_it_was_lost(rate: float) -> None:
    network = replace(NETWORK, variations={PAGE: 0.25})
    for seed in range(20):
        found = stalls.find(network, step(rate, seed, {11: 0.09, 30: 0.12}), TIERS)
        assert {round(each / WINDOW) for each in found.begins} >= {11, 30}
        lost = dict(zip((round(each / WINDOW) for each in found.begins), found.lost_seconds, strict=True))
        assert lost[11] == pytest.approx(0.09, abs=0.03)
        assert lost[30] == pytest.approx(0.12, abs=0.03)


def test_a_stall_is_as_long_as_each_that_ran_was_charged() -> None:
    # One core of two was in use in the first, both in the second.
    found = stalls.find(replace(NETWORK, variations={PAGE: 0.25}), step(20.0, 1, {11: 0.09, 30: 0.18}), TIERS)
    assert list(found.begins / WINDOW) == pytest.approx([11, 30])
    assert found.lost_seconds == pytest.approx([0.09, 0.18], abs=0.02)
    assert found.stopped_seconds == pytest.approx([0.09, 0.09], abs=0.02)


def test_chance_is_no_stall_and_shows_how_much_cpu_times_vary() -> None:
    network, windows, told = replace(NETWORK, variations={PAGE: 0.25}), 0, []
    for seed in range(40):
        found = stalls.find(network, step(150.0, seed, {}), TIERS)
        windows += found.begins.size
        told.append(found.squared_variation)
    assert windows <= 0.01 * 40 * SECONDS / WINDOW
    # The ends of windows cut requests, which adds a little.
    assert 0.2 < float(np.median([each or 0.0 for each in told])) < 0.4


def test_demands_that_are_scaled_to_a_full_process_do_not_make_cores_seem_faster() -> None:
    plain = replace(NETWORK, variations={PAGE: 0.25})
    scaled = replace(plain, demands={(PAGE, "app"): 1.15 * DEMAND}, calibration=1.15)
    measured = step(150.0, 1, {11: 0.12})
    found, usual = (stalls.find(each, measured, TIERS) for each in (scaled, plain))
    assert found.slower == pytest.approx(usual.slower)
    assert found.lost_seconds == pytest.approx(usual.lost_seconds)


def test_cores_that_are_slower_all_the_time_do_not_stand_still() -> None:
    found = stalls.find(replace(NETWORK, variations={PAGE: 0.25}), step(150.0, 1, {}, factor=1.4), TIERS)
    assert found.slower == pytest.approx(1.4, rel=0.1)
    assert found.begins.size <= 1


def test_without_windows_a_step_has_no_stalls_but_may_be_slower() -> None:
    plain = step(150.0, 1, {5: 0.1}, factor=1.3).model_copy(update={"cpu_windows": None})
    found = stalls.find(NETWORK, plain, TIERS)
    assert not found.begins.size
    assert found.slower == pytest.approx(1.33, rel=0.1)
    assert found.squared_variation is None


def test_where_the_times_of_requests_are_not_known_their_work_is_not_taken_for_stalls() -> None:
    plain = step(150.0, 1, {})
    unknown = [each.model_copy(update={"due_seconds": [], "response_seconds": []}) for each in plain.endpoints]
    found = stalls.find(NETWORK, plain.model_copy(update={"endpoints": unknown}), TIERS)
    assert not found.begins.size
    assert found.slower == pytest.approx(1.0, rel=0.1)


def test_cpu_time_is_known_by_window_wherever_the_samples_fall() -> None:
    times = 10.0 + 0.1037 * np.arange(40)
    # One core until 12, then two.
    total = np.where(times < 12, times, 2 * times - 12)
    span = _Span({"cpu_seconds": total}, times)
    found = span.between("cpu_seconds", 10.96 + WINDOW * np.arange(21))
    assert found[:10] == pytest.approx([1.0] * 10)
    assert found[12:] == pytest.approx([2.0] * 8)
    # What the probe has not said yet is left out, and nothing else.
    assert len(span.between("cpu_seconds", 13.0 + WINDOW * np.arange(31))) == 10
    assert span.between("cpu_seconds", 9.9 + WINDOW * np.arange(21)) == []


def test_tiers_are_added_up_as_far_as_all_are_known() -> None:
    plain = step(100.0, 3, {11: 0.12})
    assert plain.cpu_windows is not None
    longer = {"web": [0.0] * 50, "app": plain.cpu_windows.cores["app"]}
    both = plain.model_copy(update={"cpu_windows": CpuWindows(seconds=WINDOW, cores=longer)})
    two = replace(NETWORK, tiers=("web", "app"), variations={PAGE: 0.25})
    alone = stalls.find(replace(NETWORK, variations={PAGE: 0.25}), plain, TIERS)
    assert stalls.find(two, both, TIERS).lost_seconds == pytest.approx(alone.lost_seconds)


def test_requests_in_a_stall_are_no_measure_of_their_waits() -> None:
    steps = [step(40.0, seed, {7 + seed: 0.15, 25: 0.1}) for seed in range(6)]
    found = [stalls.find(NETWORK, each, TIERS) for each in steps]
    kept = [own.spares(each.endpoints[0], SECONDS) for own, each in zip(found, steps, strict=True)]
    assert all(0.8 < mask.mean() < 1 for mask in kept)
    times = [stalls.times_of(each.endpoints[0])[1] for each in steps]
    assert np.concatenate(times).mean() > 1.15 * DEMAND
    spared = np.concatenate([each[mask] for each, mask in zip(times, kept, strict=True)])
    assert spared.mean() == pytest.approx(DEMAND, rel=0.05)
    assert fitting._left(NETWORK, steps, TIERS, 1)[PAGE] < 0.0005


def test_a_stall_holds_all_cores_up_and_whoever_comes_then() -> None:
    alike = replace(NETWORK, shapes={PAGE: (1.0,)})
    still = stalls.Stalls(WINDOW, np.array([1.0]), np.array([CORES * WINDOW]), np.array([WINDOW]), 1.0)
    due = {PAGE: [0.5, 1.0, 2.0]}
    quiet, stalled = (simulation.simulated(alike, due, SECONDS, 1, each) for each in (None, still))
    assert quiet is not None
    assert stalled is not None
    assert quiet[PAGE].means.mean() == pytest.approx(DEMAND, rel=0.01)
    assert stalled[PAGE].means.mean() == pytest.approx(DEMAND + WINDOW / 3, rel=0.05)
    # Those beside them wait, and are not counted.
    beside = simulation.simulated(alike, {PAGE: [0.5, 2.0]}, SECONDS, 1, still, {PAGE: [1.0]}, 3)
    assert beside is not None
    assert beside[PAGE].means.shape == (3,)
    assert beside[PAGE].means.mean() == pytest.approx(DEMAND, rel=0.01)


def test_waits_have_what_cpu_times_leave_of_the_spread() -> None:
    shape = tuple(float(each) for each in np.random.default_rng(1).gamma(2, 0.5, 400))
    wide = replace(NETWORK, waits={PAGE: 0.012}, shapes={PAGE: tuple(each / np.mean(shape) for each in shape)})
    apart = replace(wide, variations={PAGE: 0.04})
    cpu, wait = np.array(apart.cpu_shape(PAGE)), np.array(apart.wait_shape(PAGE))
    assert wide.cpu_shape(PAGE) == wide.shapes[PAGE]
    assert wide.wait_shape(PAGE) == ()
    assert cpu.mean() == pytest.approx(1)
    assert cpu.var() == pytest.approx(0.04, rel=0.01)
    whole = np.var(wide.shapes[PAGE]) * 0.016**2
    assert cpu.var() * DEMAND**2 + wait.var() * 0.012**2 == pytest.approx(whole, rel=0.1)


def test_a_tier_that_works_on_few_requests_at_a_time_lets_the_others_wait_in_turn() -> None:
    random = np.random.default_rng(1)
    due = {PAGE: [float(each) for each in np.sort(random.uniform(0, SECONDS, 1800))]}
    alike = replace(NETWORK, shapes={PAGE: tuple(random.gamma(2, 0.5, 200))})
    all_at_once = simulation.simulated(alike, due, SECONDS, 1)
    few = simulation.simulated(replace(alike, admits=Places("workers", "app", 3, is_shared=True)), due, SECONDS, 1)
    assert all_at_once is not None
    assert few is not None
    assert few[PAGE].p95s.mean() < 0.95 * all_at_once[PAGE].p95s.mean()
