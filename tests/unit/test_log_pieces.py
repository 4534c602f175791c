"""Logs that are parsed elsewhere and collected here: the same trace, whatever is lost."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.cluster.tasks import InProcess, WorkerLost
from sojourn.failure import CouldNotRun
from sojourn.workload import log_pieces
from sojourn.workload.log import LogOptions, Parsing, Report, import_log_to_file
from sojourn.workload.log_pieces import OnWorkers


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    """Three logs of one site in a folder, with sessions across their borders, and a file that is no log."""
    folder = tmp_path / "logs"
    folder.mkdir()
    clock = [f"13:{n // 600:02}:{n // 10 % 60:02}" for n in range(9000)]
    lines = [
        f'10.0.0.{n % 23} - - [10/Oct/2000:{clock[n]} +0000] "GET /{n % 17} HTTP/1.0" 200 {n % 17}\n'
        for n in range(9000)
    ]
    lines[500] = "damaged\n"
    (folder / "access.log.2.gz").write_bytes(gzip.compress("".join(lines[:3000]).encode()))
    (folder / "access.log.1").write_text("".join(lines[3000:6000]))
    iis = ["#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes\n"]
    iis += [f"2000-10-10 {clock[n]} 10.0.0.{n % 23} GET /{n % 17} 200 9\n" for n in range(6000, 9000)]
    (folder / "access.log").write_text("".join(iis))
    (folder / "notes.txt").write_text("nothing of note\n")
    return folder


def imported(folder: Path, parsing: Parsing | None, options: LogOptions | None = None) -> tuple[bytes, Report]:
    logs = [str(folder / name) for name in ("access.log.2.gz", "access.log.1", "access.log")]
    options = options or LogOptions(also=[*logs[1:], str(folder)])
    trace = folder.parent / "trace"
    _, report = import_log_to_file(logs[0], trace, options, 1, lambda done, total: None, parsing=parsing)
    return trace.read_bytes(), report


def test_logs_parsed_elsewhere_give_the_same_trace(rotated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pieces, "PIECE_TEXT_BYTES", 1)
    expected = imported(rotated, None)
    assert expected[1]["not_logs"], "a file that is no log is among them"
    assert imported(rotated, OnWorkers(InProcess(), part_bytes=10_000)) == expected
    assert not log_pieces._kept, "what was fetched is dropped"
    selected = LogOptions(also=[str(rotated / "access.log")], statuses=["200"], paths=["/1*"], path_map=["/1=/one"])
    assert imported(rotated, OnWorkers(InProcess()), selected) == imported(rotated, None, selected)


class _Losing(InProcess):
    """Loses the worker at every second question."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, worker: str, function: Callable[..., object], *arguments: object) -> object:  # type: ignore[override]
        self.asked += 1
        if self.asked % 2:
            raise WorkerLost("it died")
        if self.asked % 4 == 2:
            log_pieces._kept.clear()
        return function(*arguments)


def test_what_is_lost_with_a_worker_is_parsed_again(rotated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = imported(rotated, None)
    tasks = _Losing()
    assert imported(rotated, OnWorkers(tasks)) == expected
    assert tasks.asked > 4
    monkeypatch.setattr(log_pieces, "LOSSES_MAX", 0)
    with pytest.raises(CouldNotRun, match="lost with their workers"):
        imported(rotated, OnWorkers(_Losing()))


def test_a_log_that_a_worker_does_not_have_is_an_error_with_a_cure(rotated: Path) -> None:
    log = rotated / "access.log.1"
    known = log_pieces.LogFile.described(str(log))
    options = LogOptions()
    with log.open("a") as file:
        file.write("a line more\n")
    assert log_pieces.parse_part(known, options, 0, 100), "a log may grow"
    log.write_text(log.read_text().replace("GET", "PUT"))
    with pytest.raises(CouldNotRun, match="is another file than here") as failure:
        log_pieces.parse_part(known, options, 0, 100)
    assert "under the same path" in str(failure.value.hint)
    log.unlink()
    with pytest.raises(CouldNotRun, match=r"cannot read .*access\.log\.1: No such file"):
        log_pieces.parse_whole(known, options, "key")
    with pytest.raises(CouldNotRun, match="standard input"):
        import_log_to_file("-", None, options, 1, lambda done, total: None, parsing=OnWorkers(InProcess()))


def test_a_full_disk_of_a_worker_is_said(rotated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, piece: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(log_pieces.tempfile, "TemporaryFile", Full)
    known = log_pieces.LogFile.described(str(rotated / "access.log.2.gz"))
    with pytest.raises(CouldNotRun, match=r"cannot keep the parsed lines of .*No space left") as failure:
        log_pieces.parse_whole(known, LogOptions(), "key")
    assert "TMPDIR" in str(failure.value.hint)
