"""The streaming benchmark shares its time, begins searches, judges and writes its page; on measurements made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.stream.capacity import START_CLIENTS_WITHOUT_COSTS, Capacity, carried, start_clients
from benchmarks.stream.costs import Cost
from benchmarks.stream.effort import (
    CAPACITY,
    COST_BESIDE_SECONDS,
    COSTS,
    FULL,
    PACE,
    PACE_BESIDE_SECONDS,
    PARTS,
    Effort,
    Part,
    within,
)
from benchmarks.stream.pace import Pace
from benchmarks.stream.page import page, verdicts
from benchmarks.stream.plot import charts
from benchmarks.stream.results import Row, tables
from benchmarks.stream.session import Measured
from benchmarks.stream.targets import of_pace
from sojourn.failure import CouldNotRun
from sojourn.report.image import image

RUN: dict[str, Any] = {
    "revision": "abc",
    "date": "2026-11-22 10:00 UTC",
    "command": "benchmarks/stream/bench",
    "seed": 1,
    "quick": False,
    **FULL.as_json(),
    "busy_fraction": 0.0,
    "cores": {"server": 0, "generator": 1},
    "environment": {"kernel": "6"},
    "seconds": 900.0,
}


def cost(competitor: str, repetition: int, cpu: float | None, **more: Any) -> Cost:
    figures = {"conforming_fraction": 1.0, "resident_bytes_per_stream": 4096.0, "bits_per_second_per_stream": 310e3}
    return Cost(
        competitor,
        "300k",
        "udp",
        20,
        repetition,
        cpu_seconds_per_stream_second=cpu,
        **(figures | more),  # type: ignore[arg-type]
    )


def pace(late: float, waited: float = 0.0, **more: Any) -> Pace:
    edges = {"0.001": max(late, 0.5), "0.01": late, "0.1": 0.0}
    return Pace(5000, 0, 60.0, 5000, 10_000, edges, 0.001, 0.8, waited, 0.0, **more)


def words(measured: Measured) -> dict[str, str]:
    return {verdict.aim: verdict.word for verdict in verdicts(measured)}


def test_ours_is_compared_with_the_cheapest_sound_peer_within_repetitions() -> None:
    measured = Measured()
    # The second repetition was slow for all: that leaves the ratio.
    for repetition, slowness in enumerate((1.0, 2.0, 1.1)):
        measured.add(cost("sojourn", repetition, 1e-3 * slowness))
        measured.add(cost("gst-rtsp-server", repetition, 5e-3 * slowness * (1 + repetition / 50)))
        measured.add(cost("VLC", repetition, 3e-3, trouble="80 % of its streams conformed"))
    assert words(measured) == {"CPU per stream, 300k, udp, 20 streams ÷ gst-rtsp-server, the best peer": "met"}
    rows = [line for line in page(RUN, measured, complete=True).splitlines() if line.startswith("| ")]
    assert "| sojourn | 1,100 [1,000–2,000] | – | 4 KiB | 100 % | – | 310 |" in rows
    assert any(row.startswith("| gst-rtsp-server | 5,720 [") and "| 0.20 [0.19–0.21] |" in row for row in rows)
    assert any(row.startswith("| VLC ✗ | 3,000 [3,000–3,000] | – |") for row in rows)
    assert "- ✗ VLC, 300k, udp, 20 viewers: 80 % of its streams conformed (3 of 3 repetitions)" in page(
        RUN, measured, complete=True
    )


def test_a_disturbed_repetition_is_left_out_but_not_most_of_them() -> None:
    measured = Measured()
    for repetition in range(3):
        trouble = "0 % of its streams conformed" if repetition == 1 else None
        measured.add(cost("sojourn", repetition, 9.0 if trouble else 1e-3, trouble=trouble))
        measured.add(cost("VLC", repetition, 4e-3))
    assert set(words(measured).values()) == {"met"}
    measured.costs[0] = replace(measured.costs[0], trouble="no stream played")
    assert set(words(measured).values()) == {"not measured"}


@pytest.mark.parametrize(
    ("ours", "word"),
    [([1.0, 1.1, 0.9], "met"), ([3.0, 3.1, 2.9], "not met"), ([1.0, 2.0, 3.5], "not decided"), ([1.0], "not decided")],
)
def test_an_interval_decides(ours: list[float], word: str) -> None:
    measured = Measured()
    for repetition, figure in enumerate(ours):
        measured.add(cost("sojourn", repetition, figure * 1e-3))
        measured.add(cost("VLC", repetition, 4e-3))
    assert set(words(measured).values()) == {word}
    alone = Measured()
    alone.add(cost("sojourn", 0, 1e-3))
    assert set(words(alone).values()) == {"not measured"}


def test_who_is_late_without_a_disturbance_has_not_met_the_aim() -> None:
    def word(*paces: Pace) -> str:
        (verdict,) = of_pace(paces)
        return verdict.word

    assert word(pace(0.001), pace(0.009)) == "met"
    assert word(pace(0.001, waited=0.3)) == "met"
    assert word(pace(0.3), pace(0.02), pace(0.001)) == "not met"
    assert word(pace(0.3, waited=0.3), pace(0.001)) == "not decided"
    assert of_pace([pace(0.3, trouble="0 of 5,000 sessions played")]) == []
    assert pace(0.005).p99_seconds == 0.01
    assert pace(0.005).said == "5,000 streams: 0.5 % later than 10 ms, 80 % of the core"


def test_a_search_begins_near_what_the_cores_should_carry() -> None:
    # A fifth of a core for waking up and 0.1 ms for each: the rest of the core is for 8,000.
    assert carried({20: 0.2 / 20 + 1e-4, 100: 0.2 / 100 + 1e-4}) == pytest.approx(8000)
    assert carried({100: 1e-3}) == pytest.approx(1000)
    # More streams cannot cost less in all.
    assert carried({20: 1e-2, 100: 1e-3}) == pytest.approx(1000)
    assert carried({}) is None
    assert start_clients([Row("VLC", [cost("VLC", 0, 1e-3)])], all_are_judged=True) == 850
    limited = cost("sojourn", 0, 1e-4, generator_cpu_seconds_per_stream_second=1e-3)
    assert start_clients([Row("sojourn", [limited])], all_are_judged=True) == 850
    assert start_clients([Row("sojourn", [limited])], all_are_judged=False) == 8500
    lacking = Row("VLC", [cost("VLC", 0, None, trouble="not installed")])
    assert start_clients([lacking], all_are_judged=True) == START_CLIENTS_WITHOUT_COSTS


def test_a_plot_needs_two_numbers_of_viewers() -> None:
    measured = Measured()
    for clients in (20, 100):
        assert charts(tables(measured.costs)) == []
        for competitor, cpu in (("sojourn", 1e-3), ("VLC", 4e-3)):
            measured.add(replace(cost(competitor, 0, cpu), clients=clients))
    measured.add(cost("gst-rtsp-server", 0, 5e-3, trouble="5 % of its streams conformed"))
    (chart,) = charts(tables(measured.costs))
    assert [(each.name, len(each.points)) for each in chart.series] == [
        ("sojourn, 300kbit/s", 2),
        ("VLC, 300kbit/s", 2),
    ]
    assert "Server CPU time per second of a stream (udp)" in image(chart)
    text = page(RUN, measured, [(chart.title, "cost.svg")], complete=True)
    assert "![Server CPU time per second of a stream (udp)](cost.svg)" in text


def test_capacities_say_whose_limit_they_are() -> None:
    measured = Measured()
    measured.add(Capacity("VLC", "300k", "udp", 100, 152.0, 139.0, 170.0, 4, "out of time", core_fraction=0.9))
    measured.add(
        Capacity("sojourn", "300k", "udp", 900, None, 3000.0, None, 5, "generator", limited_because="no descriptors")
    )
    measured.add(Capacity("gst-rtsp-server", "300k", "udp", 90, None, None, 90.0, 1, "out of time"))
    rows = [line for line in page(RUN, measured, complete=True).splitlines() if line.startswith("| 300k, udp: ")]
    assert rows == [
        "| 300k, udp: sojourn | at least 3,000 | 3,000 | – | – | 5 | generator; the generator: no descriptors |",
        "| 300k, udp: VLC | 152 | 139 | 170 | 90 % | 4 | out of time |",
        "| 300k, udp: gst-rtsp-server | fewer than 90 | – | 90 | – | 1 | out of time |",
    ]


def test_every_repetition_of_the_pace_is_shown() -> None:
    measured = Measured()
    measured.add(pace(0.002, packets_per_second=3e5, calls_per_second=700.0, resident_bytes_per_stream=4096.0))
    text = page(RUN, measured, complete=True)
    assert "| 1 | 50.00 % | 0.20 % | ≤ 10 ms | 0.10 % | 80 % | 0.00 % | 0.00 % | 300,000 | 700 | 4 KiB |" in text
    assert "| samples sent later than 10 ms, 5,000 streams of 300k by UDP | ≤ 1 % | 0.20 % [0.20–0.20] | met |" in text


@pytest.mark.parametrize("parts", [PARTS, [COSTS], [CAPACITY], [PACE]])
def test_a_time_is_shared_out(parts: Sequence[Part]) -> None:
    assert seconds_of(within(15, parts, 10), parts, 10) < 15.1 * 60
    assert within(600, parts, 2).cost_seconds == FULL.cost_seconds
    with pytest.raises(CouldNotRun, match=r"0\.1 minutes are too few for 10 servers") as failed:
        within(0.1, parts, 10)
    assert failed.value.hint is not None
    least = float(failed.value.hint.split()[1].rstrip(","))
    assert within(least, parts, 10).repetitions == 3


def seconds_of(effort: Effort, parts: Sequence[Part], plays: int) -> float:
    seconds: dict[Part, float] = {
        COSTS: plays * len(effort.clients) * effort.repetitions * (effort.cost_seconds + COST_BESIDE_SECONDS),
        CAPACITY: plays * effort.search_budget_seconds,
        PACE: effort.repetitions * (effort.pace_seconds + PACE_BESIDE_SECONDS),
    }
    return sum(seconds[part] for part in parts)
