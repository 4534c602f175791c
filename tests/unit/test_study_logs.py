"""The access logs of studies: files, the example, and parts of logs with published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.study.logs import is_made, log_file, trace_file


def test_a_part_of_a_published_log_is_made_once(tmp_path: Path) -> None:
    made = log_file("nyse at 0.5%", tmp_path)
    assert sum(1 for _ in made.open()) == 6_804
    written = made.stat().st_mtime_ns
    assert log_file("nyse at 0.5%", tmp_path) == made
    assert made.stat().st_mtime_ns == written
    assert [path.name for path in tmp_path.iterdir()] == [made.name]


def test_each_log_has_a_trace_of_its_own(tmp_path: Path) -> None:
    traces = [trace_file(log, tmp_path) for log in ("nyse at 0.5%", "nyse at 0.6%")]
    requests = [_native.StoredTrace.open(str(trace)).characterise()["table1"]["requests"] for trace in traces]
    assert requests == [6_804, 8_165]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("nasa at 2%", "there is no file nasa at 2%"),
        ("nyse at 200%", "is not a share"),
        ("nyse at 0.0001%", "no log can be"),
    ],
)
def test_logs_that_cannot_be_had(log: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match=expected):
        log_file(log, tmp_path)


def test_a_name_is_no_path() -> None:
    assert is_made("example")
    assert is_made("ircache")
    assert not is_made("access.log")
    assert not is_made("/var/log/nyse at 2%")
