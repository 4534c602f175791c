"""The probe benchmark's page: ratios within a repetition, verdicts by whole intervals."""

from __future__ import annotations

from benchmarks.probe.cell import Agreement, Cell
from benchmarks.probe.page import judge, page

RUN = {
    "date": "2026-11-22",
    "command": "bench",
    "revision": "abc",
    "repetitions": 4,
    "detailed_repetitions": 3,
    "duration_seconds": 2.0,
    "rate": 8000,
    "seed": 1,
    "cores": {"server": 0, "generator": 1},
    "busy_fraction": 0.5,
    "environment": {"processor": "one | two"},
}


def cells(cost: float, own: float = 0.01) -> list[Cell | Agreement]:
    found: list[Cell | Agreement] = []
    # The machine is twice as slow in every second repetition, which a ratio within it does not see.
    for repetition, slow in enumerate((1.0, 2.0, 1.0, 2.0)):
        base = slow * 10e-6 * (1 + 1e-4 * repetition)
        found += [
            Cell("nginx", "steady", "off", repetition, 1000, base),
            Cell("nginx", "steady", "all", repetition, 1000, base * cost * (1 + 1e-4 * repetition), own, 10.0),
            Cell("nginx", "steady", "processor", repetition, trouble="no PMU"),
            Agreement("nginx", "steady", repetition, 1000, base * 1.5, base, base, 1.0),
        ]
    return found


def word(of: str, cost: float, own: float = 0.01) -> str:
    return next(verdict.word for verdict in judge(cells(cost, own)) if of in verdict.what)


def test_a_target_is_judged_by_the_whole_interval() -> None:
    assert word("with the probe", 1.005) == "met"
    assert word("with the probe", 1.0099) == "not decided"
    assert word("with the probe", 1.03) == "not met"
    assert word("perf_task_clock_seconds", 1.0) == "met"
    assert word(": cpu_seconds", 1.0) == "not met"


def test_the_probes_own_core_is_judged_too() -> None:
    assert word("own core", 1.0, own=0.01) == "met"
    assert word("own core", 1.0, own=0.23) == "not met"


def test_the_page_says_what_is_missing_and_that_it_was_disturbed() -> None:
    text = page(RUN, cells(1.005), complete=False)
    assert "**Incomplete**" in text
    assert "**Disturbed**" in text
    assert "- † processor: no PMU" in text
    assert "| all | 15.08 [10.05–" in text
    assert "one \\| two" in text


def test_one_repetition_has_no_interval_and_decides_nothing() -> None:
    alone = [cell for cell in cells(1.03) if cell.repetition == 0]
    assert {verdict.word for verdict in judge(alone)} == {"not decided"}
