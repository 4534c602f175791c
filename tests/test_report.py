"""The report of a run, and its summary on the terminal, on example data."""

import html
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from example_run import example_characteristics, example_summary, example_timeline, write_bare_example, write_example
from sojourn.assessment.summary import Summary
from sojourn.commands import join_probe
from sojourn.commands.formats import Format
from sojourn.report.assessment.log_tables import figures, import_figures
from sojourn.report.assessment.page import write_report
from sojourn.report.assessment.terminal import print_summary, print_trace
from sojourn.report.scales import Linear, Logarithmic
from sojourn.results.records import Spread
from sojourn.text import format
from sojourn.workload.characteristics import Characteristics, LogImport

PLOTS = (
    *("plot-response-time", "plot-throughput", "plot-utilisation", "plot-demand", "plot-sizes", "plot-popularity"),
    *("plot-rhythm", "plot-timeline-throughput", "plot-timeline-response-time", "plot-timeline-cpu"),
    "plot-timeline-lost",
)
TABLES = (
    *("table-log", "table-import", "table-malformed", "table-steps", "table-demand", "table-model"),
    *("table-validation", "table-settings", "table-environment", "table-lost"),
)
HOSTILE = '<script>alert("log")</script>'


class Page(HTMLParser):
    """A page as its elements and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.source = path.read_text()
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.pieces))

    def identifiers(self) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get("id"))]


LOWER_BOUND = {
    "is_lower_bound": True,
    "lower_bound_because": "the load generator reached its own limit before the server did",
    "high_requests_per_second": None,
    "bottleneck": None,
    "bottleneck_because": "the load generator reached its own limit before the server did; give it more cores",
}


def report(path: Path, **changes: Any) -> Page:
    return Page(write_report(write_example(path, **changes)))


def terminal(summary: Summary, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_summary(summary, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_answer_is_on_the_page(tmp_path: Path) -> None:
    page = report(tmp_path / "run")
    for said in (
        "12,300 requests/s",
        "with p95 time to first byte within 200 ms",
        "12,000 to 12,500: 3 repetitions found 12,000 to 12,500",
        "while the server CPU was full: 98 %",
        "128× the log's busiest minute (96 requests/s)",
        "15,900+29 %",
        "The machine is virtual",
    ):
        assert said in page.text
    assert "at least" not in page.text.split("Under rising load")[0]


@pytest.mark.parametrize("identifier", [*PLOTS, *TABLES])
def test_every_plot_and_table_is_on_the_page_once(tmp_path: Path, identifier: str) -> None:
    assert report(tmp_path / "run").identifiers().count(identifier) == 1


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    page = report(tmp_path / "run")
    assert "http://" not in page.source
    assert "https://" not in page.source
    for _, attributes in page.elements:
        for name in ("src", "href", "xlink:href", "data", "action", "poster", "srcset"):
            assert (attributes.get(name) or "data:").startswith("data:")
    assert not re.search(r"@import|url\((?!#)", page.source)


def test_the_page_stays_small(tmp_path: Path) -> None:
    assert len(report(tmp_path / "run").source.encode()) < 700_000


def test_names_from_the_log_stay_text(tmp_path: Path) -> None:
    imported = example_summary().log_import
    imported["malformed_examples"] = [{"line": 1, "message": HOSTILE, "text": HOSTILE + "\x00"}]
    page = report(tmp_path / "run", log_name=HOSTILE, log_import=imported, warnings=[HOSTILE])
    assert page.source.count("<script") == 1
    assert page.text.count(HOSTILE) == 4


def test_a_run_that_ended_at_once_says_what_is_missing(tmp_path: Path) -> None:
    page = Page(write_report(write_bare_example(tmp_path / "run")))
    assert "Incomplete run: interrupted" in page.text
    assert "No answer" in page.text
    assert page.text.count("Not measured: ") >= len(PLOTS)
    assert not [tag for tag, attributes in page.elements if tag == "svg" and attributes.get("class") == "plot"]
    assert set(PLOTS) <= set(page.identifiers())


def test_what_weakens_the_answer_is_loud(tmp_path: Path) -> None:
    summary = example_summary()
    assert summary.knee is not None
    assert summary.answer is not None
    page = report(
        tmp_path / "run",
        complete=False,
        incomplete_because="the server stopped",
        knee=summary.knee.model_copy(update={"reason": "generator", "is_lower_bound": True}),
        answer=summary.answer.model_copy(update=LOWER_BOUND),
        steps=[step.model_copy(update={"generator_limited": True}) for step in summary.steps],
    )
    first_screen = page.text.split("Under rising load")[0]
    assert "Incomplete run: the server stopped" in first_screen
    assert "Generator limited: the load generator reached its own limit" in first_screen
    assert "at least 12,300 requests/s" in first_screen
    assert any("crossed" in (attributes.get("class") or "") for _, attributes in page.elements)


def test_parts_that_are_missing_one_by_one(tmp_path: Path) -> None:
    steps = [
        step.model_copy(
            update={
                **dict.fromkeys(("server_cpu_fraction", "server_core_busy_fraction", "closed_form", "simulation")),
                **dict.fromkeys(("closed_form_error", "simulation_error")),
            }
        )
        for step in example_summary().steps
    ]
    for name, value in [("demand_fit", None), ("model", None), ("knee", None), ("system", None), ("steps", steps)]:
        page = report(tmp_path / name, **{name: value})
        assert set(PLOTS) <= set(page.identifiers())
    assert "Not measured: server's processes, server's core." in page.text


def test_a_timeline_without_the_server_says_so(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "run")
    rows = [row | {"server_cpu_fraction": None, "step": None} for row in example_timeline()]
    folder.write_table("timeline.parquet", rows)
    (folder.path / "points.parquet").unlink()
    text = Page(write_report(folder)).text
    assert "Not measured: server." in text
    assert "Not measured: offered." in text


def test_the_lost_time_of_each_core_is_on_the_page(tmp_path: Path) -> None:
    # 8 of 40 windows lose time, one of them 30 ms: 44 ms of 4 s. The first row of a climb has no length.
    server = _rows(report(tmp_path / "run"), "table-lost")["server"]
    assert server[:2] == ["1.1 %", "30 ms"]
    assert server[2] == "20 %"
    assert _rows(report(tmp_path / "again"), "table-lost")["generator"][:2] == ["0 %", "0 s"]


def test_the_times_of_the_log_stand_beside_the_measured_ones(tmp_path: Path) -> None:
    def times(seconds: float) -> dict[str, float]:
        names = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
        return {"count": 9, **{name: seconds * (1 + place) for place, name in enumerate(names)}}

    logged = {
        "request_time_seconds": times(0.1),
        "upstream_time_seconds": None,
        "paths": [
            {"host": "", "path": HOSTILE, "request_time_seconds": times(1.0), "upstream_time_seconds": times(0.5)}
        ],
    }
    assert "table-logged-times" not in report(tmp_path / "none").identifiers()
    page = report(tmp_path / "run", characteristics={**example_characteristics(), "request_times": logged})
    rows = _rows(page, "table-logged-times")
    nearest = min(example_summary().steps, key=lambda step: step.offered_requests_per_second)
    measured = f"measured at {format.rate(nearest.offered_requests_per_second)}"
    assert [*rows] == ["log: all requests", measured, f"log: {HOSTILE}", f"log: {HOSTILE}, upstream"]
    assert rows["log: all requests"][1:5] == ["100 ms", "200 ms", "300 ms", "400 ms"]
    assert rows[measured][1] == format.seconds(nearest.response_time_mean_seconds.median)
    assert rows[measured][4] == format.seconds(nearest.response_time_p95_seconds.median)
    without = report(tmp_path / "bare", characteristics={"request_times": logged}, steps=[])
    assert "Nothing to compare them with was measured" in without.text


def _rows(page: Page, identifier: str) -> dict[str, list[str]]:
    """The cells of a table's rows by the row's name."""
    table = page.source.split(f'id="{identifier}"', 1)[1].split("</table>", 1)[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tbody>", 1)[1].split("<tr>")[1:]]
    return {html.unescape(first): rest for first, *rest in cells}


def test_a_step_without_an_answer_is_not_drawn_as_fast() -> None:
    never = Spread(median=float("inf"), minimum=float("inf"), maximum=float("inf"))
    summary = example_summary()
    dead = summary.steps[-1].model_copy(update={"response_time_mean_seconds": never})
    assert "∞ s" in terminal(summary.model_copy(update={"steps": [*summary.steps[:-1], dead]}))


def test_the_terminal_summary_fits_a_screen() -> None:
    summary = example_summary()
    assert summary.knee is not None
    assert summary.answer is not None
    worst = summary.model_copy(
        update={
            "complete": False,
            "incomplete_because": "interrupted",
            "warnings": ["A long warning. " * 20 + "Its end."] * 5,
            "knee": summary.knee.model_copy(update={"reason": "generator", "is_lower_bound": True}),
            "answer": summary.answer.model_copy(update=LOWER_BOUND),
        }
    )
    assert terminal(worst).count("Its end.") == 5
    for text in (terminal(summary), terminal(worst)):
        lines = text.splitlines()
        assert len([line for line in lines if "ong warning" not in line and "Its end" not in line]) <= 25
        assert max(map(len, lines)) <= 80
        assert "12,300 requests/s with p95 time to first byte within 200 ms" in text.replace("\n", " ")
        assert "\x1b" not in text
    assert "INCOMPLETE: interrupted" in terminal(worst)
    assert "LOWER BOUND" in terminal(worst)


def test_the_terminal_says_that_there_is_no_answer() -> None:
    summary = example_summary().model_copy(update={"answer": None, "steps": [], "knee": None})
    assert "No answer" in terminal(summary)


def test_a_log_on_the_terminal_cannot_command_it() -> None:
    console = Console(file=io.StringIO(), width=80)
    imported = example_summary().log_import
    imported["malformed_examples"] = [{"line": 7, "message": "too few fields", "text": "\x1b[2J[bold]x"}]
    print_trace("example.log", imported, example_summary().characteristics, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "Requests per connection" in text
    assert "line 7: too few fields: \\x1b[2J[bold]x" in text


def test_json_of_a_joined_assessment_is_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_example(tmp_path / "run")
    monkeypatch.setattr("sojourn.commands.join_probe.files.read", lambda path: None)
    monkeypatch.setattr("sojourn.commands.join_probe.merge", lambda plain, recorded, offset_seconds: plain)
    join_probe._join(folder.path, Path("server.parquet"), "0", Format.json)
    assert json.loads(capsys.readouterr().out)["log_name"] == "example.log.gz"


def test_the_figures_of_a_log_have_the_names_that_the_native_half_gives(small_log: Path) -> None:
    native = pytest.importorskip("sojourn._native", reason="the native half is not built")
    trace = native.import_log(str(small_log))
    imported, log = LogImport(trace.report()), Characteristics(trace.characterise())
    for name, figure in [*import_figures(imported), *figures(log)]:
        assert figure != format.NOT_MEASURED, name
    assert log.size_distribution()
    assert log.popularity()
    assert log.daily_rhythm()
    assert log.popularity_slope() is not None
    assert log.log_normal() is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format.rate(12_345.6), "12,300 requests/s"),
        (format.number(0.0004567), "0.000457"),
        (format.number(1_234_567), "1,230,000"),
        (format.seconds(0.0034), "3.4 ms"),
        (format.seconds(0.0009997), "1 ms"),
        (format.seconds(0.0), "0 s"),
        (format.size(1_258_291), "1.2 MiB"),
        (format.size(0), "0 B"),
        (format.bandwidth(1e8), "100 Mbit/s"),
        (format.percent(0.943), "94 %"),
        (format.percent(0.996), "99.6 %"),
        (format.percent(0.99996), "99.996 %"),
        (format.percent(-0.997), "-99.7 %"),
        (format.percent(1 - 1e-12), "100 %"),
        (format.percent(1.0), "100 %"),
        (format.percent(1.2345), "123 %"),
        (format.error(-0.0312), "−3.1 %"),
        (format.factor(128.06), "128×"),
        (format.duration(221.4), "3 min 41 s"),
        (format.number(None), "–"),
    ],
)
def test_figures_as_people_read_them(text: str, expected: str) -> None:
    assert text == expected


def test_ticks_are_round_and_within_the_axis() -> None:
    assert Linear(0, 15_600).ticks(7) == [0, 5_000, 10_000, 15_000]
    assert Linear(0, 20_400, thousand=1024).ticks(4) == [0, 5 * 1024, 10 * 1024, 15 * 1024]
    assert Linear(0, 0.02, thousand=1024).ticks(2) == [0, 0.01, 0.02]
    assert Logarithmic(0.9e-3, 12).ticks(5) == pytest.approx([1e-3, 1e-2, 1e-1, 1, 10])
    assert Logarithmic(400, 2_000_000, base=2).ticks(7) == [2**power for power in (10, 12, 14, 16, 18, 20)]
