"""The proxy benchmark's arithmetic and words, on cells that are made up."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from benchmarks.proxy import conditions, unique_paths, upstream
from benchmarks.proxy.cell import Cell
from benchmarks.proxy.page import TARGETS, page
from benchmarks.proxy.stored import Stored
from benchmarks.selection import chosen
from benchmarks.server.results import tables
from benchmarks.server.targets import Tables, judge
from server_benchmarks import RUN, competitor
from sojourn.failure import CouldNotRun
from sojourn.systems import Running

STORED = Stored(10, 1000, 11_000, 500, 2_500, 1.0)


EVERYBODY = [competitor("amped", "ours"), competitor("nginx", "peer"), competitor("squid", "peer")]
FOUND = [
    Cell("hit-500B", "amped", 0, cpu_seconds_per_request=3e-6),
    Cell("hit-500B", "nginx", 0, cpu_seconds_per_request=6e-6),
    Cell("hit-500B", "squid", 0, cpu_seconds_per_request=24e-6),
    Cell("pass-5KB", "amped", 0, cpu_seconds_per_request=30e-6, requests=6400, upstream_connections=64),
    Cell("pass-5KB", "nginx", 0, cpu_seconds_per_request=20e-6, requests=500, upstream_connections=500),
    Cell("store-500B", "amped", 0, stored=STORED),
    Cell("store-500B", "squid", 0, trouble="it forgot"),
]


def test_costs_are_compared_with_the_cheapest_peer_or_with_nginx() -> None:
    judged = judge(Tables(tables(FOUND, conditions.CONDITIONS, EVERYBODY), "amped"), TARGETS, conditions.CONDITIONS)
    words = {each.target.condition: (each.measured, each.word) for each in judged}
    assert words["hit-500B"] == (0.5, "met")
    assert words["pass-5KB"] == (1.5, "not met")
    assert words["hit-50KB"] == (None, "not measured")
    assert "1.50 <= 1     not met" in judged[5].line


def test_memory_is_of_processes_and_files() -> None:
    assert STORED.bytes_per_object == 1200
    assert FOUND[5].cost == 1200
    assert FOUND[5].said == "1200 B/answer"


def test_the_page_has_everything() -> None:
    measured = tables(FOUND, conditions.CONDITIONS, EVERYBODY)
    text = page(RUN, measured, Tables(measured, "amped"))
    assert "| 500 B, from memory | `amped` | best peer | ≤ 0.60 | 0.50 | met |" in text
    assert "| amped | 100 |" in text
    assert "| amped | Sojourn | 1,200 B | 1,000 B | 200 B |" in text
    assert "| squid ✗ |" in text
    assert "- ✗ squid, 50,000 answers of 500 B: it forgot" in text
    assert "$" not in text


def test_cells_are_lines_of_json() -> None:
    for cell in FOUND:
        assert Cell.of_json(json.loads(json.dumps(cell.as_json()))) == cell


def test_names_select() -> None:
    assert [each.name for each in chosen("hit-5*B,store-*", conditions.CONDITIONS, "condition")] == [
        *(f"hit-{size}" for size in conditions.SIZES),
        "store-500B",
    ]
    assert [each.title for each in chosen("hit-500B,hit-50KB", conditions.CONDITIONS, "condition")] == [
        "500 B, from memory",
        "50 KB, from memory",
    ]
    with pytest.raises(CouldNotRun, match="no condition is named nothing"):
        chosen("nothing", conditions.CONDITIONS, "condition")


def test_no_request_is_made_twice(tmp_path: Path) -> None:
    number = unique_paths.sessions(1200.5)
    assert number == 5
    assert unique_paths.sessions(1200.5, clients=64) == 128
    asked: list[str] = []
    # Two turns.
    for first in (0, number):
        options = unique_paths.write(tmp_path / "log", number, "5KB", 5000, first)
        assert options == ["--session-log", str(tmp_path / "log")]
        sessions = [each.splitlines() for each in (tmp_path / "log").read_text().split("\n\n")]
        assert [len(each) for each in sessions] == [unique_paths.SESSION_REQUESTS] * number
        asked += [line for each in sessions for line in each]
    assert len(set(asked)) == len(asked) == 2500
    assert asked[7] == "/7/5KB size=5000"


def test_connections_are_counted_on_one_side() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = Running(f"http://127.0.0.1:{listener.getsockname()[1]}", "", [], None, [])
        assert upstream.connections(origin) == 0
        clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        served = [listener.accept()[0] for _ in clients]
        assert upstream.connections(origin) == 3
        # One that the client ends waits on its side, one that the origin ends on the origin's.
        for first, second in ((clients[0], served[0]), (served[1], clients[1])):
            first.close()
            second.close()
        # Until the last acknowledgement has come, which a busy kernel may put off, both sides have one.
        deadline = time.monotonic() + 30
        while upstream.connections(origin) != 3:
            assert time.monotonic() < deadline, upstream.connections(origin)
        for each in (*clients, *served):
            each.close()
