"""What the report and the terminal say of changes that were made, on example data."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from example_run import example_summary, write_example
from sojourn.assessment.summary import Knee, Prediction, PredictionError, Verification, VerifiedLoad
from sojourn.report.assessment.page import write_report
from sojourn.report.assessment.terminal import print_summary
from sojourn.results.records import Interval


def made(change: str, measured: float, *, disturbed: bool = False, bound: bool = False) -> Verification:
    """6,150 requests/s were predicted."""
    said = Prediction(requests_per_second=3075, response_time_mean_seconds=2e-4, response_time_p95_seconds=5e-4)
    load = VerifiedLoad(
        offered_requests_per_second=3075,
        fraction_of_predicted_capacity=0.5,
        predicted=said,
        measured=said.model_copy(update={"response_time_mean_seconds": 4e-4}),
        error=PredictionError(requests_per_second=0.0, response_time_mean=-0.5, response_time_p95=0.0),
    )
    return Verification(
        change=change,
        says=f"{change}, in words",
        unmade_because=None,
        basis="half of what was assessed",
        predicted_capacity_requests_per_second=Interval(estimate=6150, low=6000, high=6300),
        measured_knee=Knee(
            requests_per_second=measured,
            low=measured,
            high=measured,
            per_repetition=[measured],
            reason="generator" if bound else "throughput",
            is_lower_bound=bound,
        ),
        capacity_error=None if bound else 6150 / measured - 1,
        response_time_mean_error=-0.5,
        response_time_p95_error=0.0,
        loads=[load],
        disturbed_because=["Other processes used 40 % of the server's core."] if disturbed else [],
        verdict="disturbed" if disturbed else "missed",
        missed=["mean response time at 50 % of the predicted capacity: −50.0 %, 35.0 points beyond the aim of 15%"],
    )


MADE = [
    made("half-processor", 5900),
    made("nginx", 6500, disturbed=True),
    made("quarter-processor", 3000, bound=True),
    Verification(change="slow-line", says="a slower line", unmade_because="the link needs root"),
]


def test_the_page_has_predicted_beside_measured(tmp_path: Path) -> None:
    page = write_report(write_example(tmp_path / "run", verification=MADE)).read_text()
    for said in (
        "6,150 [6,000, 6,300]",
        "5,900",
        "+4.2 %",
        "≥ 3,000",
        "−50.0 %",
        "half-processor, in words",
        "half of what was assessed",
        "Disturbed: Other processes used 40 %",
        "Missed: mean response time at 50 %",
        "Not measured: the link needs root",
        'id="plot-verification"',
        'id="table-verification"',
    ):
        assert said in page


def test_without_changes_the_page_has_no_such_section(tmp_path: Path) -> None:
    assert "verification" not in write_report(write_example(tmp_path / "run")).read_text()


def test_a_plot_of_changes_that_were_not_measured_says_so(tmp_path: Path) -> None:
    page = write_report(write_example(tmp_path / "run", verification=MADE[-1:])).read_text()
    assert "no change was measured completely" in page


def test_the_terminal_has_a_line_for_each(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    print_summary(example_summary().model_copy(update={"verification": MADE}), console)
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    (half,) = (line.split() for line in said.splitlines() if line.startswith("half-processor"))
    assert half == ["half-processor", "6,150", "5,900", "+4.2", "%", "−50.0", "%", "+0.0", "%", "missed"]
    assert "≥ 3,000" in said
    assert "not made: slow-line: the link needs root" in said
    assert "disturbed: errors of measurements beside other work are no verdict" in said
