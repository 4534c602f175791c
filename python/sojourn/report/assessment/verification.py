"""Verified changes: predicted and measured effects, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from sojourn.assessment.held_out import AIMS, UTILISATION_MAX
from sojourn.assessment.summary import Prediction, PredictionError, Verification, VerifiedLoad
from sojourn.report.assessment.plots.verification import verification as plot
from sojourn.report.assessment.run import Run
from sojourn.report.drawing import figure
from sojourn.report.markup import Markup, element
from sojourn.report.tables import Row, grid, texts
from sojourn.report.terminal import table
from sojourn.text import format

TITLE = "Changes that were made: predicted beside measured"
NOTE = (
    "Each prediction was in the run's folder before the change was measured; in brackets its interval. The error is"
    " predicted minus measured, relative to measured. Response times are compared at shares of the predicted capacity,"
    " in windows without other work. The unchanged server was measured at the same loads in alternation: where the"
    " model simulates the server alone, the error is of what the same model says for the requests that were sent, on a"
    f" machine as fast as that one showed it to be. Loads that fill {UTILISATION_MAX:.0%} or more are not judged."
    f" The aims: {', '.join(f'{aim.name} {aim.fraction:.0%}' for aim in AIMS)}."
)

HEAD = ("Change", "Figure", "Predicted", "Unchanged", "Model then", "Measured", "Error", "Verdict")


def verified(run: Run) -> Markup:
    """The section of the report; empty if no change was requested."""
    made = run.summary.verification
    if not made:
        return Markup("")
    head = (HEAD,)
    rows: list[Row] = [row for each in made for row in _rows(each)]
    why = [(each.change, each.says, _why(each)) for each in made]
    return element(
        "section",
        element("h2", "Predictions tried"),
        element("div", figure(plot(run)), class_="plots"),
        grid("table-verification", TITLE, head, rows, NOTE),
        texts("table-verification-basis", "What each prediction rests on", ("Change", "What it is", "Basis"), why),
        id="verification",
    )


def print_verification(made: Sequence[Verification], console: Console) -> None:
    """Prints a line per change, and the reason if one is doubtful or failed."""
    lines = table("changed", "predicted", "measured", "error", "mean R", "p95 R", "verdict")
    for each in made:
        if each.predicted_capacity_requests_per_second is None:
            continue
        lines.add_row(
            each.change,
            format.number(each.predicted_capacity_requests_per_second.estimate),
            _knee(each),
            format.error(each.capacity_error),
            format.error(each.response_time_mean_error),
            format.error(each.response_time_p95_error),
            each.verdict,
        )
    if lines.row_count:
        console.print(lines)
    for because in dict.fromkeys(each.unmade_because for each in made if each.unmade_because):
        names = ", ".join(each.change for each in made if each.unmade_because == because)
        console.print(Text(f"not made: {names}: {because}", style="dim"))
    if any(each.verdict == "disturbed" for each in made):
        console.print(Text("disturbed: errors of measurements beside other work are no verdict", style="dim"))


def _rows(made: Verification) -> Iterator[Row]:
    yield (
        made.change,
        "capacity, requests/s",
        _capacity(made),
        "",
        "",
        _knee(made),
        format.error(made.capacity_error),
        made.verdict,
    )
    for load in made.loads:
        at = f"at {format.percent(load.fraction_of_predicted_capacity)}"
        for name, figures, error in _figures(load):
            yield ("", f"{name} {at}", *figures, format.error(error), _unjudged(load))


def _unjudged(load: VerifiedLoad) -> str:
    is_full = load.error is not None and (load.utilisation or 0.0) >= UTILISATION_MAX
    return f"not judged: {format.percent(load.utilisation)} full" if is_full else ""


def _figures(load: VerifiedLoad) -> Iterator[tuple[str, tuple[str, ...], float | None]]:
    def times(of: Prediction | None) -> tuple[str, str]:
        if of is None:
            return format.NOT_MEASURED, format.NOT_MEASURED
        return format.seconds(of.response_time_mean_seconds), format.seconds(of.response_time_p95_seconds)

    means, p95s = zip(*map(times, (load.predicted, load.unchanged, load.judged, load.measured)), strict=True)
    yield "mean response time", means, _mean_error(load.error)
    yield "p95 response time", p95s, _p95_error(load.error)


def _capacity(made: Verification) -> str:
    interval = made.predicted_capacity_requests_per_second
    if interval is None:
        return format.NOT_MEASURED
    if interval.low == interval.high:
        return format.number(interval.estimate)
    return f"{format.number(interval.estimate)} [{format.number(interval.low)}, {format.number(interval.high)}]"


def _knee(made: Verification) -> str:
    knee = made.measured_knee
    if knee is None:
        return format.NOT_MEASURED
    return ("≥ " if knee.is_lower_bound else "") + format.number(knee.requests_per_second)


def _why(made: Verification) -> str:
    parts = [made.basis, made.unmade_because and f"Not measured: {made.unmade_because}"]
    parts += [f"Disturbed: {each}" for each in made.disturbed_because]
    parts += [f"Missed: {each}" for each in made.missed]
    parts += [f"Not decided: {each}" for each in made.undecided]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def _mean_error(error: PredictionError | None) -> float | None:
    return error.response_time_mean if error else None


def _p95_error(error: PredictionError | None) -> float | None:
    return error.response_time_p95 if error else None
