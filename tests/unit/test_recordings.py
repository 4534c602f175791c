"""Recordings of browsers (HAR) as logs: what of one is a request of the site, and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.applications import requests
from sojourn.failure import CouldNotRun
from sojourn.workload import recordings
from sojourn.workload.log import LogOptions


def entry(second: int, url: str, method: str = "GET", status: int = 200, **more: Any) -> dict[str, Any]:
    response = {"status": status, "bodySize": 500, "content": {"size": 1500}, **more}
    started = f"2026-11-25T10:00:{second:02d}.250+01:00"
    return {"startedDateTime": started, "time": 120.5, "request": {"method": method, "url": url}, "response": response}


def recording(folder: Path, *entries: dict[str, Any]) -> str:
    path = folder / "site.har"
    path.write_text("\ufeff" + json.dumps({"log": {"version": "1.2", "entries": entries}}), encoding="utf-8")
    return str(path)


def test_a_recording_is_read_as_a_log_of_its_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recording(
        tmp_path,
        entry(3, "https://shop.test/cart/add", "POST", 302),
        entry(0, "https://shop.test/"),
        entry(1, "https://cdn.test/a.js"),
        entry(2, "https://shop.test/search?q=a%20b#top", bodySize=-1),
        entry(4, "https://shop.test/blocked", status=0),
    )
    log = requests.read(path, LogOptions())
    found = {(row.method, row.target): row for row in log.rows}
    assert set(found) == {("GET", "/"), ("GET", "/search?q=a%20b"), ("POST", "/cart/add")}
    assert found["POST", "/cart/add"].status == 302
    assert found["GET", "/"].bytes == 500
    assert found["GET", "/search?q=a%20b"].bytes == 1500, "what was sent is not known, the content is"
    assert found["GET", "/"].request_seconds == pytest.approx(0.1205)
    assert log.duration_seconds == pytest.approx(3.0, abs=1.0)
    assert "1 requests to hosts other than shop.test" in capsys.readouterr().err


def test_whole_seconds_are_as_precise_as_the_others(tmp_path: Path) -> None:
    whole = {**entry(0, "https://shop.test/"), "startedDateTime": "2026-11-25T10:00:00+01:00", "time": 0}
    log = Path(recordings.as_log(recording(tmp_path, whole))).read_text(encoding="utf-8")
    assert ".000000" in json.loads(log)["timestamp"]


@pytest.mark.parametrize(
    "text",
    ['{"log": {', '{"log": {}}', '{"log": {"entries": []}}', '{"log": {"entries": [{}]}}', '{"log": {"entries": 7}}'],
)
def test_damaged_recordings_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.har"
    path.write_text(text)
    assert recordings.is_recording(str(path))
    with pytest.raises(CouldNotRun, match="recording"):
        recordings.as_log(str(path))


def test_lines_of_container_runtimes_are_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "json.log"
    path.write_text('{"log": "GET / 200", "stream": "stdout"}\n')
    assert not recordings.is_recording(str(path))
    assert not recordings.is_recording(str(tmp_path / "none"))
