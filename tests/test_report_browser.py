"""The report in a real browser: the answer and the drawn plots are there, and nothing went wrong."""

import json
import re
import struct
import subprocess
from pathlib import Path

import pytest

from conftest import CHROMIUM
from example_run import write_bare_example, write_example
from load_runs import simulated_run
from sojourn.loading import folder as load_folder
from sojourn.loading.search import Plan, Trial, search
from sojourn.report.assessment.page import write_report
from sojourn.report.load.search import write_report as write_search_report
from sojourn.report.load.writing import write_report as write_load_report
from sojourn.results.run_folder import RunFolder

QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--virtual-time-budget=2000", "--hide-scrollbars"),
    *("--enable-logging=stderr", "--log-level=0"),
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")


def browse(page: Path, profile: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", *arguments, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return done


def test_the_answer_and_the_plots_are_drawn(tmp_path: Path) -> None:
    page = write_report(write_example(tmp_path / "run"))
    document = browse(page, tmp_path / "profile", "--window-size=1280,800", "--dump-dom").stdout
    assert re.search(r"<strong>12,300</strong> requests/s", document)
    figures = re.findall(r'<figure id="(plot-[a-z-]+)".*?</figure>', document, re.DOTALL)
    assert len(figures) == 13
    for figure in re.findall(r"<figure .*?</figure>", document, re.DOTALL):
        if "Not measured: the timeline does not contain it" in figure:
            # The example was run without a probe.
            assert re.search(r'id="plot-timeline-(queue|memory)"', figure)
            continue
        assert re.search(r'<path d="M[^"]+" class="(mark|line)', figure)
        assert "NaN" not in figure


def test_a_bare_run_is_drawn_too(tmp_path: Path) -> None:
    page = write_report(write_bare_example(tmp_path / "run"))
    document = browse(page, tmp_path / "profile", "--dump-dom").stdout
    assert "No answer" in document
    assert 'svg class="plot' not in document


POINT_AT_THE_KNEE = """<script>
const plot = document.querySelector("#plot-response-time svg.for-wide"), box = plot.getBoundingClientRect();
const [x, y] = JSON.parse(plot.dataset.points)[0], scale = box.width / plot.viewBox.baseVal.width;
plot.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + x * scale, clientY: box.top + y * scale}));
</script>"""


def test_the_pointer_shows_exact_values(tmp_path: Path) -> None:
    page = write_report(write_example(tmp_path / "run"))
    page.write_text(page.read_text().replace("</body>", POINT_AT_THE_KNEE + "</body>"))
    document = browse(page, tmp_path / "profile", "--window-size=1280,800", "--dump-dom").stdout
    assert re.search(r'<div id="pointer"[^>]*>p95 response time: \d+ µs \(.* requests/s</div>', document)


@pytest.mark.parametrize("size", [(1280, 800), (600, 900)])
def test_the_first_screen_is_painted(tmp_path: Path, size: tuple[int, int]) -> None:
    page = write_report(write_example(tmp_path / "run"))
    picture = tmp_path / "first.png"
    browse(page, tmp_path / "profile", f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}")
    content = picture.read_bytes()
    assert struct.unpack(">II", content[16:24]) == size
    # A blank page of this size compresses to a few kilobytes.
    assert len(content) > 30_000


def test_a_load_run_is_drawn(tmp_path: Path) -> None:
    kept = RunFolder.create(tmp_path / "run")
    load_folder.write(kept, simulated_run(1, limited=True), ["--clients", "8"], [], {"kernel": "6.1"})
    page = write_load_report(kept.path)
    document = browse(page, tmp_path / "profile", "--window-size=1280,800", "--dump-dom").stdout
    assert "The generator was the limit" in document
    drawn = re.findall(r'<figure id="(plot-[a-z-]+)"', document)
    assert {"plot-throughput", "plot-latency", "plot-distribution"} <= set(drawn)
    for figure in re.findall(r'<figure id="plot-(?:throughput|latency|distribution)".*?</figure>', document, re.DOTALL):
        assert re.search(r'<path d="M[^"]+" class="line', figure)
        assert "NaN" not in figure


def test_a_search_is_drawn(tmp_path: Path) -> None:
    def measure(load: float) -> Trial:
        return Trial(load, load < 1000, None, {"p95": load * 1e-4, "error_rate": 0.0})

    found = search(measure, Plan(start=100))
    asked = {
        "varied": "rate", "unit": "requests/s", "options": ["--rate", "100"], "thresholds": ["p95 < 100 ms"],
        "conditions": [{"metric": "p95", "operator": "<", "limit": 0.1}],
    }  # fmt: skip
    (tmp_path / "search.json").write_text(json.dumps({**asked, **found.as_json()}))
    page = write_search_report(RunFolder(tmp_path))
    assert page is not None
    document = browse(page, tmp_path / "profile", "--dump-dom").stdout
    assert re.search(r"<strong>(99\d|1,0\d\d)[.\d]*</strong> requests/s", document)
    assert len(re.findall(r'<svg class="plot for-wide', document)) == 2
