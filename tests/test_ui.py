"""`sojourn ui`: the file that it edits, its list of runs, and what a person does with the page."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from browser import Page, chromium
from conftest import CHROMIUM, REPOSITORY, SOJOURN, run
from sojourn.failure import CouldNotRun
from sojourn.report.ui.edited_file import EditedFile
from sojourn.report.ui.server import EditorPage
from sojourn.report.what_if import section

SYSTEMS = sorted((REPOSITORY / "studies" / "systems").glob("*.toml"))
SITE = REPOSITORY / "studies" / "systems" / "public-site.toml"
MODELS = files("sojourn.report.what_if").joinpath(section.MODELS)
SYSTEM = """\
# A comment that stays.
[stations.web]
discipline = "ps"   # all at once
demand = "10ms"

[classes.all]
rate = "50/s"
route = ["web"]
"""

built = pytest.mark.skipif(not MODELS.is_file(), reason="this compiler cannot build WebAssembly: see scripts/wasm")
in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")


@pytest.fixture
def system(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(SYSTEM)
    return path


@contextmanager
def page_of(path: Path | None, folder: Path) -> Iterator[EditorPage]:
    with EditorPage(EditedFile(path, folder), folder / "runs") as page:
        yield page


def ask(
    page: EditorPage, place: str, method: str = "GET", body: str | None = None, token: str | None = None, **fields: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Asks the page; the token is its own unless another is given."""
    address = urlsplit(page.address)
    query = address.query if token is None else f"token={token}"
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.request(method, f"{place}{'&' if '?' in place else '?'}{query}", body, fields)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def save(page: EditorPage, text: str, version: str, name: str = "shop.toml") -> tuple[int, dict[str, Any]]:
    body = json.dumps({"text": text, "version": version, "name": name})
    status, _, content = ask(page, "/file", "PUT", body)
    return status, json.loads(content)


def opened(page: EditorPage) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(page, "/file")[2])
    return found


def test_every_place_needs_the_token_and_the_own_name(system: Path, tmp_path: Path) -> None:
    with page_of(system, tmp_path) as page:
        for place in ("/", "/file", "/runs", "/report?run=a", "/compare?first=a&second=b", "/models.wasm"):
            assert ask(page, place, token="guessed")[0] == 403, place
        assert ask(page, "/", Host="attacker.example:80")[0] == 403
        assert ask(page, "/file", "PUT", json.dumps({"text": "", "version": "", "name": ""}), token="x")[0] == 403
        assert ask(page, "/other")[0] == 404
        assert system.read_text() == SYSTEM


def test_a_page_loads_nothing_from_elsewhere(system: Path, tmp_path: Path) -> None:
    with page_of(system, tmp_path) as page:
        status, headers, content = ask(page, "/")
        assert status == 200
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert b"src=" not in content.replace(b"default-src", b"")


def test_a_text_cannot_leave_its_place_in_the_page(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('name = "</script><script>window.broken = 1</script>"\n' + SYSTEM)
    with page_of(path, tmp_path) as page:
        assert b"</script><script>window" not in ask(page, "/")[2]


def test_what_is_saved_is_what_was_sent(system: Path, tmp_path: Path) -> None:
    with page_of(system, tmp_path) as page:
        before = opened(page)
        assert before["text"] == SYSTEM
        changed = SYSTEM.replace("50/s", "60/s")
        status, answer = save(page, changed, before["version"])
        assert (status, answer["problem"]) == (200, None)
        assert system.read_text() == changed
        # The version that was answered is good for the next save.
        assert save(page, SYSTEM, answer["version"])[0] == 200


def test_a_save_keeps_permissions_and_links(system: Path, tmp_path: Path) -> None:
    system.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(system)
    with page_of(link, tmp_path) as page:
        assert save(page, SYSTEM + "# more\n", opened(page)["version"])[0] == 200
    assert link.is_symlink()
    assert system.read_text().endswith("# more\n")
    assert system.stat().st_mode & 0o777 == 0o640


def test_a_file_that_changed_meanwhile_is_not_overwritten(system: Path, tmp_path: Path) -> None:
    with page_of(system, tmp_path) as page:
        before = opened(page)
        theirs = SYSTEM.replace("50/s", "70/s")
        system.write_text(theirs)
        status, answer = save(page, SYSTEM.replace("50/s", "60/s"), before["version"])
        assert (status, answer["text"]) == (409, theirs)
        assert system.read_text() == theirs
        # Who has seen that may overwrite it.
        assert save(page, SYSTEM, answer["version"])[0] == 200
        assert system.read_text() == SYSTEM
        system.unlink()
        assert save(page, SYSTEM, opened(page)["version"] or "old")[0] == 409


def test_a_file_with_an_error_is_saved_and_the_error_is_said(system: Path, tmp_path: Path) -> None:
    with page_of(system, tmp_path) as page:
        status, answer = save(page, SYSTEM.replace('["web"]', '["wbe"]'), opened(page)["version"])
        assert status == 200
        assert "line 8: unknown station `wbe`" in answer["problem"]


def test_a_new_file_gets_a_name_below_the_folder(tmp_path: Path) -> None:
    with page_of(None, tmp_path) as page:
        assert opened(page) == {"name": "system.toml", "text": "", "version": ""}
        for wrong in ("../a.toml", "/tmp/a.toml", "a.txt", "", ".toml", "a/b.toml"):
            status, answer = save(page, SYSTEM, "", wrong)
            assert status == 422, wrong
            assert "no name for a system file" in answer["said"]
        (tmp_path / "taken.toml").write_text("# theirs\n")
        assert save(page, SYSTEM, "", "taken.toml")[0] == 409
        assert save(page, SYSTEM, "", "mine.toml")[0] == 200
        assert (tmp_path / "mine.toml").read_text() == SYSTEM
        assert opened(page)["name"] == str(tmp_path / "mine.toml")


def test_what_is_no_file_is_refused(system: Path, tmp_path: Path) -> None:
    with page_of(system, tmp_path) as page:
        for body in ("", "{", "[]", json.dumps({"text": 1, "version": "", "name": ""})):
            assert ask(page, "/file", "PUT", body)[0] == 400
        assert save(page, "#" * (1 << 20) + "\n", opened(page)["version"])[0] == 422
        assert ask(page, "/file", "PUT", None, **{"Content-Length": "5000000"})[0] == 400
        assert system.read_text() == SYSTEM
    with pytest.raises(CouldNotRun, match="there is no folder"):
        EditedFile(tmp_path / "none" / "a.toml", tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xff")
    with pytest.raises(CouldNotRun, match="not text"):
        EditedFile(tmp_path / "binary.toml", tmp_path)


def load_run(folder: Path) -> None:
    done = run("load", "http://127.0.0.1:9/", "--duration", "100ms", "--clients", "1", "--output", folder)
    assert (folder / "result.json").is_file(), done.stderr


@pytest.mark.slow
def test_runs_are_listed_opened_and_compared(system: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with page_of(system, tmp_path) as page:
        assert b"No run in" in ask(page, "/runs")[2]
        load_run(folder / "a")
        alone = ask(page, "/runs")[2]
        # Nothing can be compared with one run.
        assert b"fewer than two" in alone
        assert b">first<" not in alone
        for name in ("b/1", "b/2"):
            load_run(folder / name)
        assert run("predict", SITE, "--output", folder / "site").returncode == 0
        listed = ask(page, "/runs")[2].decode()
        rows = dict(re.findall(r'<th scope="row">(?:<a [^>]*>)?([^<]+)(?:</a>)?</th><td>([^<]+)</td>', listed))
        assert rows == {"a": "load", "b": "repeated load", "b/1": "load", "b/2": "load", "site": "prediction"}
        assert listed.count('name="first"') == 4
        status, headers, report = ask(page, f"/report?run={quote('b/1', safe='')}")
        assert (status, report) == (200, (folder / "b/1/report.html").read_bytes())
        assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts")
        for wrong in ("../x", "nothing", "/etc", ""):
            assert ask(page, f"/report?run={quote(wrong, safe='')}")[0] == 404
        status, _, compared = ask(page, "/compare?first=a&second=b")
        assert status == 200
        assert b"verdict at 95 %" in compared
        assert ask(page, "/compare?first=a&second=site")[0] == 422
        assert ask(page, "/compare?first=../x&second=a")[0] == 422


def test_ctrl_c_ends_the_command(system: Path) -> None:
    with subprocess.Popen([str(SOJOURN), "ui", str(system)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert re.fullmatch(r"open: http://127\.0\.0\.1:\d+/\?token=\S+\n", line), line
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


# ---- In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.resize(1280, 900)
        yield page


def show(browser: Page, page: EditorPage) -> None:
    browser.complaints.clear()
    browser.open(page.address)
    browser.wait("!document.getElementById('editor').hidden")


def settled(browser: Page) -> None:
    browser.wait("document.getElementById('editor').dataset.state === 'done'")


def press(browser: Page, identifier: str) -> None:
    browser.evaluate(f"document.getElementById({json.dumps(identifier)}).click()")


def fill(browser: Page, label: str, text: str) -> None:
    """Types into the field of the panel with this label: what was there is replaced."""
    browser.evaluate(
        f"""(() => {{
            const label = [...document.querySelectorAll('#panel label')]
                .find((each) => each.textContent === {json.dumps(label)});
            const input = document.getElementById(label.htmlFor);
            input.focus();
            input.select();
        }})()"""
    )
    browser.type(text)


def choose(browser: Page, label: str, value: str, place: int = 0) -> None:
    """Chooses a value of the panel's choice with this label; with `place`, of a later one of them."""
    browser.evaluate(
        f"""(() => {{
            const label = [...document.querySelectorAll('#panel label')]
                .filter((each) => each.textContent === {json.dumps(label)}).at({place});
            const select = document.getElementById(label.htmlFor);
            select.value = {json.dumps(value)};
            select.dispatchEvent(new Event('change', {{ bubbles: true }}));
        }})()"""
    )


def middle(browser: Page, selector: str) -> tuple[float, float]:
    box = browser.evaluate(
        f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
        "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    return box[0], box[1]


def drag(browser: Page, from_: tuple[float, float], to: tuple[float, float]) -> None:
    def mouse(kind: str, at: tuple[float, float]) -> None:
        browser.send("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", buttons=1, clickCount=1)

    mouse("mousePressed", from_)
    for step in range(1, 6):
        mouse("mouseMoved", tuple(a + (b - a) * step / 5 for a, b in zip(from_, to, strict=True)))  # type: ignore[arg-type]
    mouse("mouseReleased", to)


def text_of(browser: Page, identifier: str) -> str:
    return str(browser.evaluate(f"document.getElementById({json.dumps(identifier)}).textContent"))


def means(path: Path) -> dict[str, float]:
    done = run("predict", path, "--format", "json")
    assert done.returncode == 0, done.stderr
    solvers = json.loads(done.stdout)
    answer = solvers["solvers"][solvers["by"]]["answer"]
    return {name: each["response_time_seconds"]["mean"] for name, each in answer["classes"].items()}


@built
@in_chromium
@pytest.mark.slow
def test_a_system_is_drawn_from_nothing_and_predicted(browser: Page, tmp_path: Path) -> None:
    with page_of(None, tmp_path) as page:
        show(browser, page)
        press(browser, "add-station")
        fill(browser, "Name", "web")
        browser.press("Tab")
        press(browser, "add-station")
        fill(browser, "Name", "database")
        browser.press("Tab")
        choose(browser, "Discipline", "fifo")
        choose(browser, "Service demand", "exponential")
        fill(browser, "Mean", "4ms")
        press(browser, "add-class")
        fill(browser, "Name", "buyers")
        browser.press("Tab")
        fill(browser, "Arrival rate", "60/s")
        # The class visits the station that was chosen; a line from its own dot puts another visit before that.
        drag(browser, middle(browser, ".source .port"), middle(browser, ".station[data-station=web] .title"))
        settled(browser)
        assert "web is the bottleneck, 60 % used." in text_of(browser, "sentence")
        assert browser.evaluate("document.querySelector('.station.bottleneck').dataset.station") == "web"
        times = json.loads(browser.evaluate("document.getElementById('editor').dataset.answer"))["buyers"]
        # PS and M/M/1: 1 / (1/S − λ) each.
        assert times["mean"] == pytest.approx(1 / (100 - 60) + 1 / (250 - 60))
        press(browser, "save")
        browser.wait("document.getElementById('said').textContent.startsWith('Saved')")
        assert means(tmp_path / "system.toml")["buyers"] == pytest.approx(times["mean"])
        native = json.loads(run("predict", tmp_path / "system.toml", "--format", "json").stdout)
        assert native["response_time_seconds"]["p95"] == pytest.approx(times["p95"], rel=1e-4)
        assert browser.complaints == []


@built
@in_chromium
@pytest.mark.slow
def test_an_edit_keeps_comments_is_undone_and_conflicts_are_said(browser: Page, system: Path, tmp_path: Path) -> None:
    with page_of(system, tmp_path) as page:
        show(browser, page)
        settled(browser)
        browser.evaluate("document.querySelector('.station').focus()")
        browser.press("Enter")
        fill(browser, "Servers", "0")
        assert "`servers` must be a whole number" in text_of(browser, "wrong")
        assert browser.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
        fill(browser, "Servers", "2")
        settled(browser)
        assert text_of(browser, "wrong") == "" or browser.evaluate("document.getElementById('wrong').hidden")
        press(browser, "undo")
        press(browser, "undo")
        settled(browser)
        assert browser.evaluate("document.getElementById('text').value") == SYSTEM
        assert text_of(browser, "state") == "saved"
        press(browser, "redo")
        edited = str(browser.evaluate("document.getElementById('text').value"))
        assert edited == SYSTEM.replace('demand = "10ms"\n', 'demand = "10ms"\nservers = 2\n')
        # Another program writes the file.
        theirs = SYSTEM.replace("50/s", "70/s")
        system.write_text(theirs)
        press(browser, "save")
        browser.wait("!document.getElementById('conflict').hidden")
        assert system.read_text() == theirs
        press(browser, "keep-mine")
        browser.wait("document.getElementById('said').textContent.startsWith('Saved')")
        assert system.read_text() == edited
        # A place in the drawing is kept in the file, and changes no answer.
        before = browser.evaluate("document.getElementById('editor').dataset.answer")
        drag(browser, middle(browser, ".station .title"), (600, 300))
        press(browser, "save")
        browser.wait("document.getElementById('said').textContent.startsWith('Saved')")
        assert re.search(r"\n\[drawing\]\nweb = \[\d+, \d+\]\n$", system.read_text())
        assert browser.evaluate("document.getElementById('editor').dataset.answer") == before
        # Browsers note the refusal; the page has said it.
        assert [each for each in browser.complaints if "409 (Conflict)" not in each] == []


@built
@in_chromium
@pytest.mark.slow
def test_a_visit_holds_places_of_several_stations(browser: Page, tmp_path: Path) -> None:
    path = tmp_path / "interpreter.toml"
    path.write_text(
        "".join(
            f'[stations.{name}]\ndiscipline = "fifo"\nservers = {servers}\ndemand = "{demand}"\n'
            for name, servers, demand in (("workers", 8, "0ms"), ("process", 2, "0ms"), ("cpu", 1, "10ms"))
        )
        + '[classes.all]\nrate = "10/s"\nroute = ["workers", "process", "cpu"]\n'
    )

    def route() -> str:
        settled(browser)
        return str(browser.evaluate("document.getElementById('text').value")).partition("route = ")[2].strip()

    with page_of(path, tmp_path) as page:
        show(browser, page)
        settled(browser)
        browser.evaluate("document.querySelector('.source').focus()")
        browser.press("Enter")
        choose(browser, "Holds a place meanwhile", "workers", 1)
        assert '{ station = "process", holds = "workers" }' in route()
        choose(browser, "Holds a place meanwhile", "process", 2)
        assert route().endswith('{ station = "cpu", holds = "process" }]')
        choose(browser, "And a place", "workers", -1)
        assert route().endswith('{ station = "cpu", holds = ["process", "workers"] }]')
        # By their names, also after a station has another.
        browser.evaluate("document.querySelector('.station[data-station=process]').focus()")
        browser.press("Enter")
        fill(browser, "Name", "interpreter")
        browser.press("Tab")
        assert route().endswith('holds = ["interpreter", "workers"] }]')
        browser.evaluate("document.querySelector('.source').focus()")
        browser.press("Enter")
        choose(browser, "Holds a place meanwhile", "", 2)
        assert route().endswith('{ station = "cpu", holds = "workers" }]')
        choose(browser, "Holds a place meanwhile", "", 2)
        choose(browser, "Holds a place meanwhile", "", 1)
        assert "holds" not in route()
        assert browser.complaints == []


@built
@in_chromium
@pytest.mark.slow
def test_every_example_is_opened_and_saved_without_a_change(browser: Page, tmp_path: Path) -> None:
    for original in SYSTEMS:
        path = tmp_path / original.name
        path.write_bytes(original.read_bytes())
        with page_of(path, tmp_path) as page:
            show(browser, page)
            # An edit and its opposite: the file is written, and says the same.
            browser.evaluate("document.querySelector('.station').focus()")
            browser.press("ArrowRight")
            browser.press("ArrowLeft")
            press(browser, "save")
            browser.wait("document.getElementById('said').textContent.startsWith('Saved')")
            assert text_of(browser, "said").endswith(".toml.")
            written = path.read_text()
            assert written.partition("\n[drawing]")[0].rstrip() == original.read_text().rstrip()
            assert means(path) == means(original)
            press(browser, "arrange")
            press(browser, "save")
            browser.wait("document.getElementById('state').textContent === 'saved'")
            assert path.read_bytes() == original.read_bytes()
            assert browser.complaints == []


@built
@in_chromium
@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, False), (400, True)])
def test_the_page_works_at_every_width_and_has_names(browser: Page, tmp_path: Path, width: int, dark: bool) -> None:
    browser.resize(width, 900, dark=dark)
    try:
        with page_of(SITE, tmp_path) as page:
            show(browser, page)
            settled(browser)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert "NaN" not in browser.evaluate("document.getElementById('editor').innerHTML")
            assert "undefined" not in browser.evaluate("document.getElementById('editor').innerText")
            for selector in (".source", ".station[data-station=web]"):
                browser.evaluate(f"document.querySelector('{selector}').focus()")
                browser.press("Enter")
                unnamed = browser.evaluate(
                    """[...document.querySelectorAll('input, select, textarea, button, .node[tabindex]')]
                        .filter((each) =>
                            !each.labels?.length && !each.getAttribute('aria-label') && !each.textContent.trim()
                        || each.matches('select') && !each.labels.length && !each.getAttribute('aria-label')
                    ).map((each) => each.outerHTML)"""
                )
                assert unnamed == []
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.complaints == []
    finally:
        browser.resize(1280, 900)


@built
@in_chromium
@pytest.mark.slow
def test_a_station_called_done_is_one_and_a_name_is_kept_when_the_drawing_is_clicked(
    browser: Page, tmp_path: Path
) -> None:
    with page_of(None, tmp_path) as page:
        show(browser, page)
        press(browser, "add-station")
        fill(browser, "Name", "done")
        # Where nothing is drawn.
        drag(browser, *[tuple(each + 5 for each in middle(browser, "svg .sink, svg"))] * 2)  # type: ignore[arg-type]
        names = browser.evaluate("[...document.querySelectorAll('.station')].map((each) => each.dataset.station)")
        assert names == ["done"]
        press(browser, "add-class")
        fill(browser, "Name", "buyers")
        browser.press("Tab")
        fill(browser, "Arrival rate", "60/s")
        browser.press("Tab")
        settled(browser)
        places = browser.evaluate(
            "['.station[data-station=done]', '.sink']"
            ".map((each) => document.querySelector(each).getAttribute('transform'))"
        )
        assert places[0] != places[1]
        # Ends at the station: another visit, not the end of the route.
        drag(browser, middle(browser, ".source .port"), middle(browser, ".station[data-station=done] .title"))
        settled(browser)
        assert "done is overloaded" in text_of(browser, "sentence")
        assert browser.complaints == []
