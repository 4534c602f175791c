"""Several logs in one call: folders, patterns, what is no log, and that they are one log."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.workload.characteristics import Characteristics, LogImport
from sojourn.workload.log import LogOptions, import_log, import_log_to_file, require_log
from sojourn.workload.log_files import LogFile, find


def lines(first: int, last: int) -> bytes:
    """A request a second by one client, for ten documents."""
    line = '10.0.0.7 - - [21/Nov/2026:10:{}:{:02} +0000] "GET /{} HTTP/1.1" 200 {}\n'
    return "".join(line.format(10 + n // 60, n % 60, n % 10, 100 + n % 10) for n in range(first, last)).encode()


def imported(*logs: object) -> dict[str, Any]:
    first, *also = map(str, logs)
    return import_log(first, LogOptions(also=tuple(also)), 1, lambda done, total: None)[1]


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    """A log of two minutes, rotated three times, beside what else is found in such a folder."""
    folder = tmp_path / "logs"
    (folder / "old").mkdir(parents=True)
    (folder / "access.log").write_bytes(lines(90, 120))
    (folder / "access.log.1").write_bytes(lines(60, 90))
    (folder / "old" / "access.log.2.bz2").write_bytes(bz2.compress(lines(30, 60)))
    (folder / "old" / "access.log.3.xz").write_bytes(lzma.compress(lines(0, 30)))
    (folder / "README.gz").write_bytes(gzip.compress(b"not a log\n"))
    (folder / "error.log").touch()
    (folder / ".hidden").write_text("not looked at\n")
    return folder


def test_a_folder_is_the_log_that_was_rotated_in_it(rotated: Path) -> None:
    report = imported(rotated)
    assert (report["lines"], report["requests"], report["documents"]) == (120, 120, 10)
    assert report["sessions"] == 1, "the client never paused"
    assert report["out_of_order_lines"] == 0
    assert {Path(log["name"]).name: log["compression"] for log in report["logs"]} == {
        "access.log": "plain",
        "access.log.1": "plain",
        "access.log.2.bz2": "bzip2",
        "access.log.3.xz": "xz",
    }
    assert [Path(file["name"]).name for file in report["not_logs"]] == ["README.gz", "error.log"]
    said = dict(LogImport(report).logs())
    assert said[str(rotated / "README.gz")] == "skipped, no log: line 1: no [date] after the client"


def test_patterns_and_names_may_overlap(rotated: Path) -> None:
    report = imported(rotated / "access.log", rotated / "access.log*", f"{rotated}/**/*.xz")
    assert [Path(log["name"]).name for log in report["logs"]] == ["access.log", "access.log.1", "access.log.3.xz"]


def test_a_file_that_was_named_has_to_be_a_log(rotated: Path) -> None:
    with pytest.raises(CouldNotRun, match=r"README\.gz: none of the log's 1 lines"):
        imported(rotated / "access.log", rotated / "README.gz")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.log", tmp_path / "*.log", tmp_path):
        with pytest.raises(CouldNotRun, match="there is no file"):
            require_log(str(missing))


def test_a_trace_is_read_alone(rotated: Path, tmp_path: Path) -> None:
    trace = tmp_path / "some.trace"
    trace.write_bytes(b"SJTRACE3")
    with pytest.raises(CouldNotRun, match=r"some\.trace is a trace"):
        require_log(str(rotated), [str(trace)])


def test_one_log_is_called_by_no_name(rotated: Path) -> None:
    assert find([str(rotated / "access.log")]) == [LogFile(str(rotated / "access.log"), is_found=False)]
    assert imported(rotated / "access.log")["logs"] == []


def test_the_times_of_a_log_are_those_that_it_says(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    line = 'h [21/Nov/2026:10:00:{:02} +0000] "{} HTTP/1.1" 200 5 {} {}\n'
    static = [line.format(n, "GET /a.png", f"0.{n:03}", "-") for n in range(1, 21)]
    log.write_text("".join([*static, line.format(30, "GET /find?q", "2.000", "1.500, 0.250")]))
    log_format = (
        '$remote_addr [$time_local] "$request" $status $body_bytes_sent $request_time "$upstream_response_time"'
    )
    log.write_text(log.read_text().replace(" -\n", ' "-"\n').replace("1.500, 0.250", '"1.500, 0.250"'))
    options = LogOptions(log_format=log_format)
    trace, report = import_log(str(log), options, 1, lambda done, total: None)
    assert (report["requests"], report["malformed"]) == (20, 0)
    times = Characteristics(trace.characterise()).request_times()
    assert [each.name for each in times] == ["all requests", "upstream", "/find", "/find, upstream", "/a.png"]
    assert (times[0].count, times[0].p50, times[0].max) == (21, 0.011, 2.0)
    assert (times[1].count, times[1].mean) == (1, 1.75)
    assert times[4].mean == pytest.approx(0.0105)
    kept = tmp_path / "kept.trace"
    trace.save(str(kept))
    assert _native.StoredTrace.open(str(kept)).characterise() == trace.characterise()


def test_a_log_of_forms_alone_is_counted_but_makes_no_trace(tmp_path: Path) -> None:
    log = tmp_path / "forms.log"
    log.write_text('h - - [21/Nov/2026:10:00:00 +0000] "POST /form HTTP/1.1" 200 5\n' * 3)
    _, report = import_log_to_file(str(log), None, LogOptions(), 1, lambda done, total: None, may_be_empty=True)
    found = LogImport(report).coverage()
    assert found is not None
    assert (found.requests_all, found.requests_fraction, found.dynamic_fraction) == (3, 0.0, 1.0)
    assert "100 % of the requests are dynamic" in LogImport(report).warnings()[0]
    with pytest.raises(CouldNotRun, match="3 of another method"):
        import_log_to_file(str(log), tmp_path / "forms.trace", LogOptions(), 1, lambda done, total: None)
