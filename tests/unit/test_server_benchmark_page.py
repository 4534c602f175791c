"""The server benchmark's arithmetic and words, on cells that are made up."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks.selection import chosen
from benchmarks.server import conditions, h2load
from benchmarks.server.cell import Cell, Served, Setting
from benchmarks.server.competitors import Competitor, competitors
from benchmarks.server.idle import Growth
from benchmarks.server.in_turn import IDLE_FRACTION_MAX, InTurn, lines
from benchmarks.server.page import page
from benchmarks.server.plot import charts
from benchmarks.server.results import Record, Spread, ratio, tables
from benchmarks.server.targets import Tables, judge
from server_benchmarks import RUN, competitor
from sojourn.failure import CouldNotRun
from sojourn.loading.confidence import Estimate
from sojourn.machine.cores import Cores
from sojourn.report.image import image
from sojourn.systems import Running

EVERYBODY = [
    competitor("sped", "ours"),
    competitor("amped", "ours"),
    competitor("nginx", "peer"),
    competitor("h2o", "peer"),
    competitor("null-epoll", "null"),
]


def cells(condition: str, **microseconds: float) -> list[Cell]:
    """A cell per competitor and repetition; repetitions are 10 % below and above the figure."""
    return [
        Cell(condition, name.replace("_", "-"), repetition, cpu_seconds_per_request=figure * factor * 1e-6)
        for name, figure in microseconds.items()
        for repetition, factor in enumerate((1.1, 0.9, 1.0))
    ]


def tables_of(found: list[Cell]) -> Tables:
    return Tables(tables(found, conditions.CONDITIONS, EVERYBODY), "amped")


def verdict(found: list[Cell], condition: str, against: str) -> tuple[float | None, str]:
    judged = {(each.target.condition, each.target.against): each for each in judge(tables_of(found))}
    each = judged[condition, against]
    return None if each.measured is None else round(each.measured, 6), each.word


def test_a_spread_leaves_out_what_was_not_measured() -> None:
    assert Spread.of([3.0, None, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([None]) is None
    assert Spread.of([1.0, None]) is None, "the one that has it is not typical"


def rounds(**figures: list[float | None]) -> Tables:
    found = [
        Cell("keep-alive-500B", name.replace("_", "-"), number, cpu_seconds_per_request=figure)
        for name, each in figures.items()
        for number, figure in enumerate(each)
    ]
    return Tables(tables(found, conditions.CONDITIONS, EVERYBODY, in_turn=True), "amped")


def test_ratios_in_turn_are_of_one_round_each() -> None:
    # The machine is up to five times as slow from one round to another, and the ratios are 0.71 to 0.80.
    speeds = [1.0, 5.0, 2.0, 1.0, 4.0, 3.0, 5.0, 1.0, 2.0, 2.0]
    ours: list[float | None] = [speed * (0.71 + number / 100) for number, speed in enumerate(speeds)]
    table = rounds(amped=ours, nginx=[*speeds])["keep-alive-500B"]
    assert table is not None
    found = ratio(table.rows[0], table.rows[1])
    assert found is not None
    assert found.value == pytest.approx(0.755)
    # The second and the ninth of ten cover the median in 97.9 % of cases, the third and the eighth in 89 %.
    assert (found.low, found.high, found.batches) == (pytest.approx(0.72), pytest.approx(0.79), 10)
    assert lines([table]) == ["keep-alive-500B amped: 0.755 of nginx (0.720 to 0.790 at 95 %, 10 rounds)"]


def test_few_rounds_have_no_interval() -> None:
    five: list[float | None] = [1.0] * 5
    table = rounds(amped=[*five, 1.0, None], nginx=[*five, None, 1.0])["keep-alive-500B"]
    assert table is not None
    assert ratio(table.rows[0], table.rows[1]) == Estimate(1.0, batches=5)
    assert lines([table]) == []


def test_in_turn_an_interval_decides_a_target() -> None:
    # The medians of the ratios are 0.7 and 0.8; the second's interval has the bound 0.80 in it.
    steady, unsteady = [0.7] * 9, [0.7, 0.7, 0.75, 0.8, 0.8, 0.8, 0.85, 0.9, 0.9]
    for ours, word in ((steady, "met"), (unsteady, "not decided"), ([each + 0.2 for each in unsteady], "not met")):
        found = rounds(amped=[*ours], nginx=[1.0] * 9)
        judged = {(each.target.condition, each.target.against): each.word for each in judge(found)}
        assert judged["keep-alive-500B", "nginx"] == word


def test_in_turn_a_failed_round_is_left_out_and_a_server_that_mostly_fails_is_not_compared() -> None:
    ours = [Cell("keep-alive-500B", "amped", number, cpu_seconds_per_request=0.7) for number in range(9)]
    theirs = [Cell("keep-alive-500B", "nginx", number, cpu_seconds_per_request=1.0) for number in range(9)]
    for failed, rounds_compared in ((1, 8), (4, 5), (5, None)):
        some = [replace(cell, cpu_seconds_per_request=None, trouble="1 of 9 failed") for cell in theirs[:failed]]
        found = tables([*ours, *some, *theirs[failed:]], conditions.CONDITIONS, EVERYBODY, in_turn=True)
        assert found[0].rows[1].trouble == f"1 of 9 failed ({failed} of 9 rounds)"
        measured = ratio(found[0].rows[0], found[0].reference)
        assert (measured.batches if measured else None) == rounds_compared


def test_the_page_has_the_ratios_of_rounds_with_their_intervals() -> None:
    found = rounds(amped=[0.7e-6] * 9, nginx=[1e-6] * 9, h2o=[0.9e-6] * 9, null_epoll=[0.5e-6] * 9)
    measured = found["keep-alive-500B"]
    assert measured is not None
    text = page(RUN | {"in_turn": True}, [measured], found, [])
    ratios = ["0.700 [0.700–0.700], 9", "0.778 [0.778–0.778], 9", "1.400 [1.400–1.400], 9"]
    assert f"| – | {' | '.join(ratios)} |" in text
    assert "| nginx | ≤ 0.80 | 0.700 [0.700–0.700] | met |" in text
    assert "Then each is loaded in each of 3 rounds" in text
    assert "Each condition has a network namespace of its own" in text
    assert "$" not in text


@contextmanager
def _served(program: str) -> Iterator[Served]:
    """A program in place of a server."""
    process = subprocess.Popen(["sh", "-c", program])
    with Running("", "1.2", ["sh"], process, [process.pid]) as running:
        yield Served(running)


def _in_turn(
    load: Callable[[str, int], float | None], folder: Path, only: Sequence[str] = ("amped", "nginx")
) -> Record:
    """Measures two conditions in eight rounds; h2o does not start, and lighttpd polls."""

    def serving(condition: conditions.Condition, who: Competitor, setting: Setting) -> AbstractContextManager[Served]:
        if who.name == "h2o":
            raise CouldNotRun("h2o is not installed")
        return _served("while :; do :; done" if who.name == "lighttpd" else "exec sleep 60")

    def loaded(cell: Cell, condition: conditions.Condition, setting: Setting, served: Served) -> Cell:
        figure = load(cell.competitor, cell.repetition)
        trouble = None if figure else "no request was answered"
        return replace(cell, cpu_seconds_per_request=figure, requests=7, trouble=trouble)

    setting = Setting(folder, Cores(None, None), 1, 0.2, 0.05, None, in_turn=True)
    chosen_ones = [each for each in conditions.CONDITIONS if each.name in ("keep-alive-500B", "idle")]
    record = Record(folder, RUN | {"in_turn": True}, resume=False)
    everybody = [competitor(name, "peer") for name in only]
    complete = InTurn(serving, loaded).measure(chosen_ones, everybody, 8, setting, record, Console(file=StringIO()))
    record.run["complete"] = complete
    return record


def test_servers_in_turn_stay_and_their_order_changes(tmp_path: Path) -> None:
    record = _in_turn(lambda name, number: 1.0, tmp_path)
    assert record.run["complete"]
    cells = record.cells
    assert [cell.repetition for cell in cells] == [number // 2 for number in range(16)], "and idle memory is not loaded"
    orders = {tuple(cell.competitor for cell in cells[at : at + 2]) for at in range(0, 16, 2)}
    assert orders == {("amped", "nginx"), ("nginx", "amped")}
    assert {cell.version for cell in cells} == {"1.2"}
    assert Record(tmp_path, record.run, resume=True).cells == cells


def test_in_turn_a_failed_turn_has_no_figures(tmp_path: Path) -> None:
    cells = _in_turn(lambda name, number: None if number == 3 else 1.0, tmp_path).cells
    failed = [cell for cell in cells if cell.trouble]
    assert {(cell.repetition, cell.trouble, cell.cost, cell.requests) for cell in failed} == {
        (3, "no request was answered", None, None)
    }
    assert len(cells) - len(failed) == 14


def test_in_turn_who_cannot_wait_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    cells = _in_turn(lambda name, number: 1.0, tmp_path, ("amped", "h2o", "lighttpd")).cells
    missing, polling, *measured = cells
    assert (missing.competitor, missing.trouble) == ("h2o", "h2o is not installed")
    assert polling.competitor == "lighttpd"
    assert polling.trouble is not None
    used = re.fullmatch(r"it uses (.+) % of the core while it is idle, and cannot wait its turn", polling.trouble)
    assert used is not None
    assert float(used[1]) > IDLE_FRACTION_MAX * 100
    assert [cell.competitor for cell in measured] == ["amped"] * 8


def test_in_turn_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    def interrupted(name: str, number: int) -> float:
        if number == 5:
            raise KeyboardInterrupt
        return 1.0

    record = _in_turn(interrupted, tmp_path)
    assert not record.run["complete"]
    assert len(Record(tmp_path, record.run, resume=True).cells) == 10


def test_ratios_are_of_medians() -> None:
    found = cells("keep-alive-500B", amped=4.0, nginx=6.0, h2o=5.0, null_epoll=3.2)
    assert verdict(found, "keep-alive-500B", "nginx") == (round(4 / 6, 6), "met")
    assert verdict(found, "keep-alive-500B", "best peer") == (0.8, "met")
    assert verdict(found, "keep-alive-500B", "null") == (1.25, "not met")
    assert verdict(found, "clients-5000", "nginx") == (None, "not measured")


def test_a_connection_per_request_is_judged_by_the_best_architecture() -> None:
    found = cells("close-500B", amped=20.0, sped=10.0, nginx=15.0)
    assert verdict(found, "close-500B", "nginx") == (round(10 / 15, 6), "met")


def test_a_server_with_errors_is_no_best_peer_and_meets_nothing() -> None:
    found = cells("keep-alive-500B", amped=4.0, nginx=6.0)
    wrong = Cell("keep-alive-500B", "h2o", 0, cpu_seconds_per_request=1e-6, trouble="5 of 10 requests failed")
    assert verdict([*found, wrong], "keep-alive-500B", "best peer") == (round(4 / 6, 6), "met")
    ours = Cell("keep-alive-500B", "amped", 3, cpu_seconds_per_request=1e-6, trouble="bodies of 7 bytes")
    assert verdict([*found, ours], "keep-alive-500B", "nginx") == (None, "not measured")


def test_nothing_is_compared_with_a_reference_that_had_errors() -> None:
    found = cells("keep-alive-500KB", amped=4.0, nginx=6.0)
    wrong = Cell("keep-alive-500KB", "nginx", 3, trouble="1 of 10 requests failed")
    assert verdict([*found, wrong], "keep-alive-500KB", "nginx") == (None, "not measured")


def test_the_cost_of_the_log_is_against_the_same_server_without() -> None:
    found = cells("keep-alive-500B", amped=4.0) + cells("access-log", amped=4.6)
    assert verdict(found, "access-log", "the same without a log") == (1.15, "not met")


def test_idle_memory_is_growth_by_connection() -> None:
    growth = Growth(10, 2, 1000, 9000, 800, 5800)
    assert (growth.resident_bytes_per_connection, growth.proportional_bytes_per_connection) == (800.0, 500.0)
    found = [Cell("idle", "amped", 0, memory=growth)]
    assert verdict(found, "idle", "user memory per connection") == (500.0, "met")


def test_tls_is_judged_beside_those_that_speak_it() -> None:
    found = cells("http2-500B-10", amped=9.0, nginx=25.0, h2o=6.0) + cells("https-500B", amped=8.0, nginx=10.0, h2o=9.0)
    assert verdict(found, "http2-500B-10", "h2o") == (1.5, "not met")
    assert verdict(found, "https-500B", "best peer") == (round(8 / 9, 6), "not met")
    plain, log, secure = (
        next(each for each in conditions.CONDITIONS if each.name == name)
        for name in ("keep-alive-500B", "access-log", "http2-500B-1")
    )
    takes = {each.name: [each.takes(where) for where in (plain, log, secure)] for each in competitors()}
    assert takes["amped"] == takes["nginx"] == [True, True, True]
    assert takes["h2o"] == takes["caddy"] == [True, False, True]
    assert takes["sped"] == takes["lighttpd"] == takes["null-epoll"] == [True, False, False]


def test_what_h2load_says_is_counted() -> None:
    said = "requests: 90 total, 90 started, 88 done, 80 succeeded, 10 failed, 3 errored, 2 timeout\n"
    assert h2load.counts(said) == (80, 10)
    with pytest.raises(CouldNotRun, match="no numbers of requests: nothing"):
        h2load.counts("nothing")


def test_cpu_time_is_of_all_processes_and_threads() -> None:
    began = h2load.cpu_seconds([os.getpid()])
    thread = Thread(target=lambda: sum(range(1_000_000)))
    thread.start()
    sum(range(1_000_000))
    assert h2load.cpu_seconds([os.getpid()]) > began
    thread.join()


def test_a_ratio_needs_both() -> None:
    (table,) = tables(cells("idle", amped=1.0), conditions.CONDITIONS, EVERYBODY)
    assert ratio(table.row("amped"), table.row("nginx")) is None


def test_a_record_is_read_back_and_refuses_other_settings(tmp_path: Path) -> None:
    record = Record(tmp_path, RUN, resume=False)
    loaded = cells("keep-alive-5KB", amped=4.0)[0]
    idle = Cell("idle", "amped", 0, memory=Growth(1, 1, 1, 2, 1, 2))
    record.add(loaded)
    record.add(idle)
    again = Record(tmp_path, RUN, resume=True)
    assert again.cells == [loaded, idle]
    assert again.done == {("keep-alive-5KB", "amped", 0), ("idle", "amped", 0)}
    with pytest.raises(CouldNotRun, match=r"duration_seconds = 2\.0"):
        Record(tmp_path, RUN | {"duration_seconds": 3.0}, resume=True)
    assert Record(tmp_path, RUN, resume=False).cells == []


def test_the_page_marks_what_it_does_not_hide() -> None:
    found = cells("keep-alive-500B", amped=4.0, nginx=6.0, null_epoll=3.0)
    found.append(Cell("keep-alive-500B", "h2o", 0, trouble="h2o is not installed"))
    found.append(Cell("keep-alive-500B", "sped", 0, cpu_seconds_per_request=5e-6, limited_because="it was busy"))
    found.append(Cell("keep-alive-500B", "amped", 3, cpu_seconds_per_request=4e-6, core_steal_fraction=0.05))
    measured = tables(found, conditions.CONDITIONS, EVERYBODY)
    text = page(RUN, measured, tables_of(found), [])
    assert "| amped ‡ | Sojourn | 4.00 [3.60–4.40] |" in text
    assert "- ‡ amped, 500 B, keep-alive, 64 clients: the hypervisor took up to 5 % of the server's core" in text
    assert "- ✗ h2o, 500 B, keep-alive, 64 clients: h2o is not installed" in text
    assert "| sped † |" in text
    assert "| 5 KB, keep-alive, 64 clients | `amped` | nginx | ≤ 0.80 | – | not measured |" in text
    assert "one \\| two" in text
    order = [text.index(f"\n| {name} |") for name in ("null-epoll", "amped ‡", "sped †", "nginx", "h2o ✗")]
    assert order == sorted(order)
    assert "Incomplete" not in text
    assert "Disturbed" not in text
    assert "used 40 % of the machine" in page(RUN | {"busy_fraction": 0.4}, measured, tables_of(found), [])
    assert "**Incomplete**" in page(RUN | {"complete": False}, measured, tables_of(found), [])


def test_the_plots_are_images_with_every_server_in_the_legend() -> None:
    found = [
        cell
        for name in ("keep-alive-500B", "keep-alive-5KB", "clients-5000")
        for cell in cells(name, amped=4.0, nginx=6.0, h2o=5.0, null_epoll=3.0)
    ]
    drawn = charts(tables_of(found), tables(found, conditions.CONDITIONS, EVERYBODY))
    assert [chart.identifier for chart in drawn] == ["cost-by-size", "ratio-by-size", "cost-by-clients"]
    texts = [each.text for each in ElementTree.fromstring(image(drawn[0])).iter("{http://www.w3.org/2000/svg}text")]
    assert {"nginx", "h2o", "null responder", "Sojourn, amped (default)", "document size", "500 B"} <= set(texts)


def test_names_select() -> None:
    assert [each.name for each in chosen("keep-alive-5*B,idle", conditions.CONDITIONS, "condition")] == [
        *(f"keep-alive-{size}" for size in ("500B", "5KB", "50KB", "500KB", "5MB")),
        "idle",
    ]
    assert chosen(None, conditions.CONDITIONS, "condition") == list(conditions.CONDITIONS)
    with pytest.raises(CouldNotRun, match="no condition is named nothing"):
        chosen("idle,nothing", conditions.CONDITIONS, "condition")


def test_cells_are_lines_of_json() -> None:
    cell = Cell("idle", "amped", 0, memory=Growth(1, 1, 1, 2, 1, 2))
    assert Cell.of_json(json.loads(json.dumps(cell.as_json()))) == cell
