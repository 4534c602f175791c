"""Files with what no file should have: each is read right, or refused in words that name it. Never a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
import pytest

from sojourn.calibration.fit import Options
from sojourn.calibration.kinds import fit_table
from sojourn.calibration.tables import Table
from sojourn.failure import CouldNotRun
from sojourn.loading import folder
from sojourn.planning.system_document import SystemDocument
from sojourn.text.toml import read_text

SYSTEM = """
[stations.server]
discipline = "ps"
demand = {demand}
[classes.page]
rate = "{rate}/s"
latency = "{latency}s"
route = ["server"]
"""
TABLE = "size_bytes,demand_seconds\n100,1e-3\n1000,2e-3\n10000,1e-2\n"


def system(demand: str = '"10ms"', rate: object = 50, latency: object = 0) -> str:
    return SYSTEM.format(demand=demand, rate=rate, latency=latency)


def file(tmp_path: Path, name: str, raw: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_carriage_returns_say_nothing(tmp_path: Path, encoding: str, end: str) -> None:
    def written(name: str, text: str) -> Path:
        return file(tmp_path, name, text.replace("\n", end).encode(encoding))

    assert SystemDocument.read(written("system.toml", system())).system.classes[0].name == "page"
    assert fit_table(Table.read(written("sizes.csv", TABLE)), Options()).points == 3
    with pytest.raises(CouldNotRun, match="Field required"):
        folder.read(written("result.json", "{}\n"))


@pytest.mark.parametrize(
    "text",
    ["\ufeff\ufeff" + system(), system(demand='{ law = "exponential",\n  mean = "10ms" }')],
    ids=["marks", "lines"],
)
def test_what_only_one_parser_takes_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CouldNotRun, match=r"system.toml.* line "):
        SystemDocument.read(file(tmp_path, "system.toml", text))


@pytest.mark.parametrize("name", ["system.toml", "sizes.csv", "sizes.json"])
def test_utf_16_is_named(tmp_path: Path, name: str) -> None:
    path = file(tmp_path, name, TABLE.encode("utf-16"))
    with pytest.raises(CouldNotRun, match="is text in UTF-16"):
        read_text(path, "") if path.suffix == ".toml" else Table.read(path)


@pytest.mark.parametrize("raw", [b"", b"\0" * 100, bytes(range(256)), b"\xef\xbb\xbf", b"[" * 5000, b"\n\n"])
@pytest.mark.parametrize("name", ["system.toml", "table.csv", "table.json", "table.parquet", "result.json"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, raw: bytes, name: str) -> None:
    path = file(tmp_path, name, raw)
    read = {"system.toml": SystemDocument.read, "result.json": folder.read}.get(name)
    with pytest.raises(CouldNotRun, match=name):
        read(path) if read is not None else fit_table(Table.read(path), Options())


@pytest.mark.parametrize(
    "demand",
    [
        '"1e308s"',
        '{ law = "log-normal", mu = 0, sigma = 100, unit = "s" }',
        '{ law = "log-normal", mu = 1000, sigma = 1, unit = "s" }',
        '{ law = "exponential", mean = "1s", scale = 1e308 }',
    ],
)
def test_demands_beyond_all_numbers_are_refused(tmp_path: Path, demand: str) -> None:
    with pytest.raises(CouldNotRun, match=r"system.toml.*(is too large|must be 0, or from)"):
        SystemDocument.read(file(tmp_path, "system.toml", system(demand)))


def test_requests_at_one_instant_are_refused() -> None:
    frame = polars.DataFrame({"accepted_at_seconds": np.zeros(300), "ended_at_seconds": np.arange(1.0, 301.0)})
    with pytest.raises(CouldNotRun, match="accepted at one time"):
        fit_table(Table(Path("requests.csv"), frame), Options())


def served(sizes: np.ndarray) -> Table:
    accepted = np.arange(1.0, len(sizes) + 1)
    ended = accepted + 0.01 + 1e-6 * sizes + 0.001 * np.random.default_rng(1).random(len(sizes))
    times = {"accepted_at_seconds": accepted, "ended_at_seconds": ended, "size_bytes": sizes}
    return Table(Path("requests.csv"), polars.DataFrame(times))


@pytest.mark.parametrize(
    "sizes", [[1000] * 200, [1000] * 100 + [5000] * 100, [1000] * 300 + [9000, 20_000]], ids=["one", "two", "rare"]
)
def test_requests_of_few_sizes_are_fitted(sizes: list[int]) -> None:
    assert fit_table(served(np.array(sizes)), Options()).system_text()


def test_sizes_without_a_request_are_left_out_and_only_such_are_refused() -> None:
    def table(requests: list[int]) -> Table:
        columns = {"size_bytes": [1e3, 1e4, 1e5], "demand_seconds": [0.001, 0.002, 0.01], "requests": requests}
        return Table(Path("sizes.csv"), polars.DataFrame(columns))

    assert SystemDocument.parse(fit_table(table([10, 0, 5]), Options()).system_text(), "fitted").system
    with pytest.raises(CouldNotRun, match="no row has a request"):
        fit_table(table([0, 0, 0]), Options())
