"""The steps of rising load: measured and predicted figures, with each prediction's error."""

from __future__ import annotations

from sojourn.assessment.summary import Prediction, PredictionError, Step
from sojourn.report.assessment import wording
from sojourn.report.assessment.run import Run
from sojourn.report.markup import Markup, element, join
from sojourn.report.tables import Row, absent, grid
from sojourn.text import format

TITLE = "Steps of rising load, measured beside predicted"
HEAD: tuple[Row, ...] = (
    (
        *("Offered", "Throughput", None, "p95 first byte", "Mean response time", None, None),
        *("p95 response time", None, None, "Errors", "CPU", None, "Marks"),
    ),
    (
        *("requests/s", "measured", "predicted", "measured", "measured", "closed form", "simulation"),
        *("measured", "closed form", "simulation", "", "server", "generator", ""),
    ),
)
NOTE = (
    "Measured figures are medians over repetitions. Beside each prediction its error: predicted minus"
    " measured, relative to measured. Response times are those over the windows of 0.1 s in which nobody else took"
    " either core, with the step as it was beside them; predictions are for an undisturbed core."
    " The simulation is given the requests that each repetition sent, and is looked at in the same windows."
    " Throughput is predicted by the closed form. A dash: not measured,"
    " or the model has no steady state there."
)


def steps(run: Run) -> Markup:
    """The table, or the reason for its absence."""
    if not run.summary.steps:
        because = f"no step of rising load was finished: {run.because_incomplete}"
        return absent("table-steps", TITLE, because)
    marks = wording.step_marks_legend(run.summary.steps)
    note = f"{NOTE} Marks: {marks}." if marks else NOTE
    return grid("table-steps", TITLE, HEAD, [_row(step) for step in run.summary.steps], note)


def _row(step: Step) -> Row:
    closed_mean, closed_p95 = _response_times(step.closed_form, step.closed_form_error)
    simulated_mean, simulated_p95 = _response_times(step.simulation, step.simulation_error)
    return (
        format.number(step.offered_requests_per_second, 4),
        format.number(step.requests_per_second.median, 4),
        _throughput(step.closed_form, step.closed_form_error),
        format.seconds(step.time_to_first_byte_p95_seconds.median),
        _twice(step.mean_for_model, step.response_time_mean_seconds.median),
        closed_mean,
        simulated_mean,
        _twice(step.p95_for_model, step.response_time_p95_seconds.median),
        closed_p95,
        simulated_p95,
        format.percent(step.error_fraction.median),
        format.percent(step.server_cpu_fraction.median if step.server_cpu_fraction else None),
        format.percent(step.generator_cpu_fraction.median),
        " ".join(wording.step_marks(step)),
    )


def _twice(undisturbed: float, as_it_was: float) -> str:
    if undisturbed == as_it_was:
        return format.seconds(as_it_was)
    return join(format.seconds(undisturbed), element("small", f"as it was {format.seconds(as_it_was)}"))


def _throughput(said: Prediction | None, error: PredictionError | None) -> str:
    if said is None:
        return format.NOT_MEASURED
    return _beside(format.number(said.requests_per_second, 4), error.requests_per_second if error else None)


def _response_times(said: Prediction | None, error: PredictionError | None) -> tuple[str, str]:
    if said is None:
        return format.NOT_MEASURED, format.NOT_MEASURED
    mean = _beside(format.seconds(said.response_time_mean_seconds), error.response_time_mean if error else None)
    p95 = _beside(format.seconds(said.response_time_p95_seconds), error.response_time_p95 if error else None)
    return mean, p95


def _beside(prediction: str, error: float | None) -> str:
    return prediction if error is None else join(prediction, element("small", format.error(error)))
