"""The answer of an assessment as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

from sojourn.applications.diagnosis import in_words
from sojourn.applications.summary import ApplicationSummary, StepFigures
from sojourn.applications.verdicts import rates
from sojourn.text import format

ENDPOINTS_MAX = 12
"""That are shown."""
SIGNS = {True: "✅", False: "❌", None: "❔"}


def markdown(summary: ApplicationSummary) -> str:
    """Verdicts, capacity, bottleneck and the endpoints at the load that is required."""
    lines = [f"### {SIGNS[not summary.has_failed]} Capacity of {_cell(summary.target)}", ""]
    if summary.knee is not None:
        bound = "at least " if summary.knee.is_lower_bound else ""
        lines.append(f"**{bound}{rates(summary.knee.requests_per_second)} requests/s**")
        if summary.bottleneck is not None:
            lines[-1] += f"; bottleneck: {_cell(in_words(summary.bottleneck))}"
    if not summary.complete:
        lines.append(f"**Incomplete**: {_cell(summary.incomplete_because or '')}")
    lines += ["", "| | | |", "|---|---|---|"]
    lines += [f"| {SIGNS[each.passed]} | {_cell(each.name)} | {_cell(each.because)} |" for each in summary.verdicts]
    if summary.comparison is not None and summary.comparison.differences:
        lines += ["", f"The runs differ also in {_cell(', '.join(summary.comparison.differences))}."]
    step = _shown_step(summary)
    if step is not None:
        lines += ["", f"At {step.offered_requests_per_second:,.4g} requests/s:", ""]
        lines += ["| request | 1/s | mean | p95 | p99 | failed |", "|---|--:|--:|--:|--:|--:|"]
        lines += [
            f"| {_cell(each.name)} | {each.requests_per_second:,.4g} "
            f"| {format.seconds(each.response_time_mean_seconds)} "
            f"| {format.seconds(each.response_time_p95_seconds)} | {format.seconds(each.response_time_p99_seconds)} "
            f"| {each.failures + each.unfinished} |"
            for each in sorted(step.endpoints, key=lambda each: -each.offered_requests_per_second)[:ENDPOINTS_MAX]
        ]
    lines += ["", f"<sub>sojourn {summary.sojourn_version}, {summary.started_at}</sub>", ""]
    return "\n".join(lines)


def _shown_step(summary: ApplicationSummary) -> StepFigures | None:
    """The step of the log's mix nearest to the load that is required, or to the capacity."""
    required = summary.required_requests_per_second
    knee = None if summary.knee is None else summary.knee.requests_per_second.low
    wanted = min((each for each in (required, knee) if each), default=None)
    steps = [each for each in summary.steps if each.tells_the_knee and each.failed_because is None]
    if wanted is None or not steps:
        return None
    return min(steps, key=lambda each: abs(each.offered_requests_per_second - wanted))


def _cell(text: str) -> str:
    """A text that neither ends a cell of the table nor is markup of its own."""
    one_line = " ".join(text.split()).replace("\\", "\\\\")
    for sign in "|*_<>[]`":
        one_line = one_line.replace(sign, f"\\{sign}")
    return one_line
