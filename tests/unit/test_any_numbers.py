"""Whatever numbers a table or a system file holds, it is solved or refused in words, and never ends in a traceback."""

from __future__ import annotations

import math
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.calibration.fit import Options
from sojourn.calibration.kinds import fit_table
from sojourn.calibration.tables import Table
from sojourn.failure import CouldNotRun
from sojourn.planning.system_document import SystemDocument
from sojourn.queueing import predict, simulate
from sojourn.text import toml

EXTREMES = [0.0, -1.0, 5e-324, 1e-300, 1e-15, 1e-9, 0.5, 1.0, 1e9, 1e15, 1e16, 1e154, 1e308, math.inf, math.nan]
ANY = st.one_of(st.sampled_from(EXTREMES), st.floats())
PLAUSIBLE = st.floats(1e-15, 1e15)
CELLS = st.one_of(ANY, PLAUSIBLE, PLAUSIBLE, st.integers(1, 1000).map(float))
COLUMNS = {
    "sizes": ("size_bytes", "demand_seconds"),
    "weighted sizes": ("size_bytes", "demand_seconds", "requests"),
    "intervals": ("utilisation", "requests_per_second"),
    "mixed intervals": ("utilisation", "requests_per_second.a", "requests_per_second.b"),
    "scaling": ("clients", "requests_per_second"),
}


def fitted(frame: polars.DataFrame, path: Path) -> None:
    """Fits a table; what comes out must be a system file that can be solved."""
    try:
        found = fit_table(Table(Path("table.csv"), frame), Options())
    except CouldNotRun:
        return
    path.write_text(found.system_text())
    try:
        system = SystemDocument.read(path).system
    except CouldNotRun as error:
        raise AssertionError(f"a file was written that cannot be read: {error}") from error
    predict(system, percentiles=False)


@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_numbers_of_a_table_are_fitted_or_refused(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = data.draw(st.integers(1, 12))
    cells = data.draw(st.sampled_from([CELLS, PLAUSIBLE, st.floats(1e-3, 1.0), st.floats(1, 1e6)]))
    columns = {name: data.draw(st.lists(cells, min_size=rows, max_size=rows)) for name in COLUMNS[kind]}
    if kind.endswith("intervals") and data.draw(st.booleans()):
        columns["utilisation"] = data.draw(st.lists(st.floats(0, 1), min_size=rows, max_size=rows))
    fitted(polars.DataFrame(columns), tmp_path_factory.getbasetemp() / f"{kind}.toml")


SYSTEM = """
[document]
law = "log-normal"
mu = 7.8
sigma = 1.5
unit = "B"
[stations.backbone]
discipline = "is"
demand = { law = "erlang", mean = "195ms", stages = 4 }
[stations.web]
discipline = "lps"
r = 16
servers = 2
queue = 100
when_full = { retry = "1s", backoff = 2, retries = 6 }
demand = [{ below = "20KB", fixed = "5ms" }, { fixed = "3ms", per_byte = "0.1us/B" }]
[stations.line]
discipline = "ps"
rate = "15Mbit/s"
[stations.disk]
discipline = "ps"
speed = { alpha = 0.03, beta = 0.0004 }
demand = { law = "mixture", parts = [
    { law = "pareto", shape = 1.5, min = "1ms", max = "1s", weight = 1 },
    { law = "empirical", values = ["1ms", "2ms"], weights = [1, 2], weight = 2, scale = 2, shift = "1ms" },
] }
[stations.door]
discipline = "fifo"
servers = 3
capacity = 9
when_full = "refuse"
demand = { law = "hyper-exponential", mean = "1ms", scv = 4 }
[stations.curve]
discipline = "ps"
speed = [1, 1.8, 2.4]
demand = { law = "deterministic", value = "1ms" }
[classes.visitors]
rate = "5/s"
latency = "1ms"
[[classes.visitors.routes]]
name = "hit"
probability = 0.25
visits = ["backbone", { station = "web", demand = "1ms" }, "line"]
[[classes.visitors.routes]]
name = "miss"
probability = 0.75
visits = ["backbone", "disk", "curve"]
[classes.members]
users = 3
think_time = { law = "exponential", mean = "1s" }
route = ["line", "curve", "door"]
"""
UNITS = st.sampled_from(["", "s", "ms", "ns", "B", "KB", "/s", "/h", "s/B", "us/B", "bit/s", "Gbit/s"])
WRITTEN = st.builds(lambda number, unit: f"{number!r}{unit}", st.one_of(ANY, st.integers()), UNITS)
VALUES = st.one_of(
    ANY, WRITTEN, st.integers(), st.booleans(), st.text(max_size=5), st.just([]), st.just({}), st.just([1, "a"])
)


def leaves(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of everything in a system file, tables and lists too."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, each in inside for found in leaves(each, (*path, key))]


PATHS = leaves(tomllib.loads(SYSTEM))


def replaced(path: tuple[str | int, ...], value: object) -> str:
    """The system file with another value there."""
    content: Any = tomllib.loads(SYSTEM)
    table = content
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    return "".join(f"{toml.key(name)} = {toml.inline(value)}\n" for name, value in content.items())


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(PATHS), value=VALUES, mark=st.booleans())
def test_any_value_of_a_system_file_is_solved_or_refused(
    path: tuple[str | int, ...], value: object, mark: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_text(replaced(path, value), encoding="utf-8-sig" if mark else "utf-8")
    try:
        system = SystemDocument.read(file).system
    except CouldNotRun:
        return
    predict(system, percentiles=False)
    if system.unstable_station() is None:
        with suppress(ValueError):
            simulate(system, jobs_min=100, jobs_max=100)


def test_the_system_file_of_this_test_is_one(tmp_path: Path) -> None:
    file = tmp_path / "system.toml"
    file.write_text(SYSTEM)
    assert len(SystemDocument.read(file).system.stations) == 6
