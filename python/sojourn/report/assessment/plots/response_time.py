"""Response time against offered load: the measured steps, the models over them, the knee and the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sojourn.assessment.summary import Prediction, Step
from sojourn.report.assessment.plots import against_load
from sojourn.report.assessment.run import Run
from sojourn.report.chart import Axis, Chart, Guide, Line, Mark, Missing, Series
from sojourn.report.scales import logarithmic
from sojourn.results.records import Spread
from sojourn.text import format

IDENTIFIER = "plot-response-time"
TITLE = "Response time against offered load"
CAPTION = (
    "Marks: median over repetitions; bars: smallest and largest repetition. Curves join what each model says"
    " at the measured steps and end where it has no steady state. Time to first byte counts from the moment"
    " the request was due."
)


def response_time(run: Run) -> Chart | Missing:
    """Mean and p95 response time and p95 time to first byte, measured and predicted."""
    steps = run.summary.steps
    if not steps:
        return against_load.no_steps(IDENTIFIER, TITLE, run)
    series = [
        _measured("p95 response time", 2, "square", steps, lambda step: step.response_time_p95_seconds),
        _measured("p95 time to first byte", 3, "triangle", steps, lambda step: step.time_to_first_byte_p95_seconds),
        _measured("mean response time", 1, "disc", steps, lambda step: step.response_time_mean_seconds),
        *_models(steps),
    ]
    target = run.summary.settings.target_p95_seconds
    line = Guide("y", target, f"target: p95 time to first byte {format.seconds(target)}")
    # Half of the smallest value leaves room for the knee's label below the marks.
    times = [bound for each in series for point in each.points if point for bound in point.extent]
    return Chart(
        IDENTIFIER,
        TITLE,
        CAPTION,
        against_load.offered_load(run.summary),
        Axis("response time", logarithmic([*times, min([*times, target]) / 2, target]), format.seconds),
        [each for each in series if any(each.points)],
        guides=[*against_load.knee(run.summary), line],
        traits=against_load.TRAITS,
        shape="wide",
    )


def _measured(name: str, colour: int, mark: Mark, steps: list[Step], spread: Callable[[Step], Spread]) -> Series:
    points = [against_load.measured(step, spread(step), format.seconds) for step in steps]
    return Series(name, colour, points, mark=mark)


def _models(steps: list[Step]) -> Iterator[Series]:
    solvers: list[tuple[str, Line, Callable[[Step], Prediction | None]]] = [
        ("closed form", "dashed", lambda step: step.closed_form),
        ("simulation", "dotted", lambda step: step.simulation),
    ]
    times: list[tuple[str, int, Callable[[Prediction], float | None]]] = [
        ("p95 response time", 2, lambda prediction: prediction.response_time_p95_seconds),
        ("mean response time", 1, lambda prediction: prediction.response_time_mean_seconds),
    ]
    for name, colour, time in times:
        for solver, line, of in solvers:
            values = [time(said) if (said := of(step)) else None for step in steps]
            points = [
                against_load.predicted(step, value, format.seconds) for step, value in zip(steps, values, strict=True)
            ]
            yield Series(f"{name}, {solver}", colour, points, line=line)
