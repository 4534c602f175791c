"""Predicted against measured capacity of each change: on the diagonal the prediction was right."""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.assessment.summary import Verification
from sojourn.report.assessment.run import Run
from sojourn.report.chart import Axis, Chart, Mark, Missing, Point, Series
from sojourn.report.scales import logarithmic
from sojourn.text import format

IDENTIFIER = "plot-verification"
TITLE = "Capacity after a change, predicted against measured"
CAPTION = (
    "One mark per change; its bar is the predicted interval. On the line the prediction was right; above it, too high."
)
MARKS: tuple[Mark, ...] = ("disc", "square", "triangle", "diamond", "down")


def verification(run: Run) -> Chart | Missing:
    """The changes whose capacity was both predicted and measured."""
    series = list(_marks(run.summary.verification or []))
    if not series:
        return Missing(IDENTIFIER, TITLE, "no change was measured completely")
    points = [point for each in series for point in each.points if point]
    bounds = [bound for point in points for bound in (point.x, *point.extent)]
    low, high = 0.8 * min(bounds), 1.25 * max(bounds)
    diagonal = Series("predicted as measured", 3, [Point(low, low), Point(high, high)], line="dashed")
    return Chart(
        IDENTIFIER,
        TITLE,
        CAPTION,
        Axis("measured capacity, requests/s", logarithmic([low, high]), format.number),
        Axis("predicted capacity, requests/s", logarithmic([low, high]), format.number),
        [diagonal, *series],
        traits={"hollow": "disturbed, or measured as a lower bound"},
        shape="wide",
    )


def _marks(made: list[Verification]) -> Iterator[Series]:
    for index, each in enumerate(made):
        predicted, knee = each.predicted_capacity_requests_per_second, each.measured_knee
        if predicted is None or knee is None or knee.requests_per_second <= 0:
            continue
        doubtful = knee.is_lower_bound or bool(each.disturbed_because)
        said = f"{each.change}: {format.rate(predicted.estimate)}, measured {format.rate(knee.requests_per_second)}"
        point = Point(
            knee.requests_per_second,
            predicted.estimate,
            said,
            predicted.low,
            predicted.high,
            "hollow" if doubtful else "plain",
        )
        yield Series(each.change, 1 + index % 3, [point], mark=MARKS[index % len(MARKS)])
