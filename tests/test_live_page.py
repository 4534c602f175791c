"""The live page of a run: who may read it, what it sends, and what a browser shows."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from browser import chromium
from conftest import CHROMIUM, SOJOURN
from sojourn.engine.progress import parse
from sojourn.failure import CouldNotRun
from sojourn.report.live.server import READERS_MAX, LivePage

LINE = {
    "progress": 0.25,
    "step": 0,
    "requests_per_second": 1234.5,
    "errors_per_second": 2.0,
    "in_flight": 7,
    "generator_cpu_fraction": 0.3,
    "time_to_first_byte_intended_seconds": {"p50": 0.001, "p95": 0.002, "p99": 0.004},
}


@pytest.fixture
def page() -> Iterator[LivePage]:
    with LivePage("sojourn load <b>http://localhost</b>") as found:
        yield found


def get(page: LivePage, path: str, **fields: str) -> http.client.HTTPResponse:
    place = urlsplit(page.address)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=10)
    connection.request("GET", path, headers=fields)
    return connection.getresponse()


def events(page: LivePage) -> str:
    return f"/events?{urlsplit(page.address).query}"


def test_the_page_needs_its_token_and_its_own_name(page: LivePage) -> None:
    query = urlsplit(page.address).query
    assert get(page, f"/?{query}").status == 200
    assert get(page, "/").status == 403
    assert get(page, "/?token=guessed").status == 403
    assert get(page, "/events").status == 403
    # A page of another site whose name was made to resolve to this machine.
    assert get(page, f"/?{query}", Host="attacker.example:80").status == 403
    assert get(page, f"/other?{query}").status == 404
    # At port 80 browsers leave it out.
    assert get(page, f"/?{query}", Host="127.0.0.1").status == 200
    assert get(page, f"/?{query}", Host="[").status == 400


def test_the_command_line_cannot_leave_its_place(page: LivePage) -> None:
    answer = get(page, f"/?{urlsplit(page.address).query}")
    assert b"&lt;b&gt;http://localhost" in answer.read()
    assert "default-src 'none'" in str(answer.getheader("Content-Security-Policy"))
    assert answer.getheader("Cache-Control") == "no-store"


def test_a_reader_gets_the_lines_before_and_after_and_the_end() -> None:
    with LivePage("sojourn load") as page:
        page(parse(json.dumps(LINE)))
        answer = get(page, events(page))
        first = answer.readline() + answer.readline() + answer.readline()
        assert first.startswith(b"id: 1\nevent: progress\ndata: ")
        line = json.loads(first.split(b"data: ")[1])
        assert line["requests_per_second"] == 1234.5
        assert 0 <= line["seconds"] < 10
        page(parse(json.dumps({**LINE, "progress": 0.5})))
        assert answer.readline() == b"\n"
        assert answer.readline() == b"id: 2\n"
        again = get(page, events(page), **{"Last-Event-ID": "1"})
        assert again.readline() == b"id: 2\n"
    rest = answer.read()
    assert rest.endswith(b'event: end\ndata: {"complete": true}\n\n')


def test_stages_and_tables_are_sent_and_only_the_last_is_kept(page: LivePage) -> None:
    page.begin_stage("import")
    page.update_stage(0.25, "a quarter")
    page.end_stage("1,000 requests")
    page.begin_stage("rising load")
    for count in range(3):
        page.table(f"{count} samples", [("counter", "now", ""), ("cpu_seconds", f"{count}", "▁")])
    answer = get(page, events(page))
    found = []
    while len(found) < 3:
        kind, data = [answer.readline().decode().partition(": ")[2] for _ in range(3)][1:]
        found.append((kind.strip(), json.loads(data)))
        answer.readline()
    assert [kind for kind, _ in found] == ["stage", "stage", "table"]
    first, second, table = (data for _, data in found)
    assert (first["name"], first["fraction"], first["detail"], first["ended"]) == (
        "import",
        1.0,
        "1,000 requests",
        True,
    )
    assert (second["number"], second["name"], second["ended"]) == (2, "rising load", False)
    assert table == {"title": "2 samples", "rows": [["counter", "now", ""], ["cpu_seconds", "2", "▁"]]}


def test_there_is_a_limit_of_readers(page: LivePage) -> None:
    page(parse(json.dumps(LINE)))
    readers = [get(page, events(page)) for _ in range(READERS_MAX)]
    assert [reader.status for reader in readers] == [200] * READERS_MAX
    refused = get(page, events(page))
    assert (refused.status, refused.read()) == (503, b"too many readers\n")


def test_a_port_in_use_is_refused(page: LivePage) -> None:
    port = urlsplit(page.address).port
    assert port is not None
    with pytest.raises(CouldNotRun, match=f"cannot serve the live page on port {port}"):
        LivePage("another", port)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")
def test_the_stages_and_tiers_of_an_assessment_are_seen_in_a_browser(page: LivePage, tmp_path: Path) -> None:
    page.begin_stage("tiers")
    page.end_stage("web: nginx, <i>db</i>: postgres")
    page.begin_stage("rising load")
    page.update_stage(None, "explore: 12 requests/s")
    for cores in (0.25, 0.5):
        page(parse(json.dumps({**LINE, "tiers": {"web": {"cpu_cores": cores}, "<i>db</i>": {"cpu_cores": 0.125}}})))
    with chromium(tmp_path / "profile") as browser:
        browser.resize(400, 900)
        browser.open(page.address)
        browser.wait("document.querySelectorAll('#cores svg.plot path.line').length === 3")
        assert browser.evaluate("document.getElementById('state').textContent") == "rising load: explore: 12 requests/s"
        stages = browser.evaluate("[...document.querySelectorAll('#stages li')].map((each) => each.innerText)")
        assert stages == ["tiers\nweb: nginx, <i>db</i>: postgres", "rising load\nexplore: 12 requests/s"]
        figures = browser.evaluate("document.getElementById('figures').innerText")
        assert "tier web\n0.5 cores" in figures
        assert "tier <i>db</i>\n0.125 cores" in figures
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400
        page.table("7: 1 s, 10 samples", [("counter", "now", ""), ("cpu_seconds", "<b>1</b> cores", "▁")])
        browser.wait("document.querySelectorAll('#table td').length === 2")
        assert browser.evaluate("document.querySelector('#table td').innerText") == "<b>1</b> cores"
        assert browser.complaints == []


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with one page."""
    site = tmp_path_factory.mktemp("site")
    (site / "index.html").write_text("hello")
    command = [str(SOJOURN), "serve", str(site), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = next(re.finditer(r"listening on (\S+)", server.stderr.readline()))
        yield f"http://{said[1]}/"
        server.terminate()


RATE, STAGES, TABLE = "#rate path.line", "#stages li", "#table td"
SHOWN = {
    "load URL --rate 200 --duration 6s": RATE,
    "replay LOG URL --paths original --scale 1": RATE,
    "probe --interval 100ms --duration 6s -- sleep 60": TABLE,
    "study flash/single-file --quick --output RUN": STAGES,
    "assess SMALL --effort quick --output RUN": STAGES,
}
"""By command, what its live page shows of it."""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")
@pytest.mark.parametrize("command", SHOWN, ids=lambda command: command.split()[0])
def test_a_run_is_seen_in_a_browser(command: str, serving: str, small_log: Path, tmp_path: Path) -> None:
    seconds = (f"21/Nov/2026:10:00:{second:02d} +0000" for second in range(8) for _ in range(20))
    (tmp_path / "own.log").write_text("".join(f'10.0.0.1 - - [{at}] "GET / HTTP/1.1" 200 5\n' for at in seconds))
    given = {"URL": serving, "LOG": str(tmp_path / "own.log"), "SMALL": str(small_log), "RUN": str(tmp_path / "run")}
    tool, *words = [given.get(word, word) for word in command.split()]
    with subprocess.Popen(
        [str(SOJOURN), tool, "--web", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        said = ""
        while (address := re.search(r"live: (http://127\.0\.0\.1:\d+/\?token=\S+)", said)) is None:
            said += (line := running.stderr.readline())
            assert line, said
        with chromium(tmp_path / "profile") as browser:
            browser.resize(400, 900, dark=True)
            browser.open(address[1])
            browser.wait(f"document.querySelectorAll({SHOWN[command]!r}).length > 0")
            if SHOWN[command] == RATE:
                assert "requests/s" in browser.evaluate("document.getElementById('figures').innerText")
            assert browser.evaluate("document.documentElement.scrollWidth") <= 400
            assert "NaN" not in browser.evaluate("document.body.innerHTML")
            if SHOWN[command] != STAGES:
                browser.wait("document.getElementById('state').textContent.startsWith('ended')")
            assert browser.complaints == []
        if SHOWN[command] == STAGES:
            # It was seen; the rest takes longer.
            running.terminate()
        output, errors = running.communicate(timeout=60)
        if SHOWN[command] != STAGES:
            assert running.returncode == 0, errors
        if SHOWN[command] == RATE:
            assert "requests/s" in output
