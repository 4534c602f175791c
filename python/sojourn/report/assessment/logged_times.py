"""Response times recorded in the log, overall and by path, beside those measured with the static copy."""

from __future__ import annotations

from sojourn.assessment.summary import Step
from sojourn.report.assessment import wording
from sojourn.report.assessment.log_tables import shortened
from sojourn.report.assessment.run import Run
from sojourn.report.markup import Markup
from sojourn.report.tables import Row, grid
from sojourn.text import format

_HEAD = ("", "Requests", "Mean", "p50", "p90", "p95", "p99", "p99.9", "Max")
_NOTE = (
    "The log's times are its server's, over the clients' own lines and with its dynamic requests; the measured ones"
    " are those of the static copy, by its clients, at the step of rising load that is nearest to the log's busiest"
    " minute. Paths are not measured apart: their times are the log's alone."
)


def table(run: Run) -> Markup | None:
    """The rows of the log, then the measured ones; None if the log has no times."""
    times = run.characteristics.request_times()
    if not times:
        return None
    rows: list[Row] = []
    for each in times:
        seconds = (each.mean, each.p50, each.p90, each.p95, each.p99, each.p999, each.max)
        rows.append((f"log: {shortened(each.name)}", format.count(each.count), *map(format.seconds, seconds)))
    # Directly below the log's totals, for comparison.
    sums = sum(1 for each in times if each.name in ("all requests", "upstream"))
    step = wording.nearest_to_the_log(run.summary)
    if step is not None:
        rows[sums:sums] = _measured(step)
    because = "the load generator was the limit at every step" if run.summary.steps else run.because_incomplete
    note = _NOTE if step is not None else f"Nothing to compare them with was measured: {because}."
    return grid("table-logged-times", "Response times in the log, beside the measured ones", [_HEAD], rows, note)


def _measured(step: Step) -> list[Row]:
    load = format.rate(step.offered_requests_per_second)
    whole = (
        step.response_time_mean_seconds.median,
        step.response_time_p50_seconds.median,
        step.response_time_p90_seconds.median if step.response_time_p90_seconds else None,
        step.response_time_p95_seconds.median,
        step.response_time_p99_seconds.median,
        step.response_time_p999_seconds.median if step.response_time_p999_seconds else None,
        None,
    )
    rows: list[Row] = [(f"measured at {load}", "", *map(format.seconds, whole))]
    quiet = step.undisturbed
    if quiet is not None:
        mean, p95 = quiet.response_time_mean_seconds.median, quiet.response_time_p95_seconds.median
        figures = (mean, None, None, p95, None, None, None)
        rows.append((f"measured at {load}, undisturbed windows", "", *map(format.seconds, figures)))
    return rows
