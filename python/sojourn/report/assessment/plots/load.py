"""Throughput and utilisation against offered load."""

from __future__ import annotations

from collections.abc import Callable

from sojourn.assessment.summary import Prediction, Step
from sojourn.report.assessment.plots import against_load
from sojourn.report.assessment.run import Run
from sojourn.report.chart import Axis, Chart, Line, Mark, Missing, Point, Series
from sojourn.report.scales import linear
from sojourn.results.records import Spread
from sojourn.text import format


def throughput(run: Run) -> Chart | Missing:
    """Answered against offered requests, with both models."""
    identifier, title = "plot-throughput", "Throughput against offered load"
    steps = run.summary.steps
    if not steps:
        return against_load.no_steps(identifier, title, run)
    measured = [against_load.measured(step, step.requests_per_second, format.rate) for step in steps]
    ends = [0.0, max(step.offered_requests_per_second for step in steps)]
    series = [
        Series("all of the offered load", 0, [Point(end, end) for end in ends], line="solid"),
        _predicted("closed form", 2, "dashed", steps, lambda step: step.closed_form),
        _predicted("simulation", 4, "dotted", steps, lambda step: step.simulation),
        Series("measured", 1, measured, mark="disc"),
    ]
    values = [point.y for each in series for point in each.points if point]
    return Chart(
        identifier,
        title,
        "Marks: median over repetitions; bars: smallest and largest repetition.",
        against_load.offered_load(run.summary),
        Axis("throughput (requests/s)", linear(values), format.number),
        [each for each in series if any(each.points)],
        guides=against_load.knee(run.summary),
        traits=against_load.TRAITS,
    )


def utilisation(run: Run) -> Chart | Missing:
    """Utilisation of the server, its core and the generator."""
    identifier, title = "plot-utilisation", "Utilisation against offered load"
    steps = run.summary.steps
    if not steps:
        return against_load.no_steps(identifier, title, run)
    series = [
        _busy("server's processes", 1, "disc", steps, lambda step: step.server_cpu_fraction),
        _busy("server's core", 2, "square", steps, lambda step: step.server_core_busy_fraction),
        _busy("generator", 4, "diamond", steps, lambda step: step.generator_cpu_fraction),
    ]
    caption = "CPU time over elapsed time; 100 % is one core. The core counts all that ran on it, the kernel too."
    missing = [each.name for each in series if not any(each.points)]
    if missing:
        caption += f" Not measured: {', '.join(missing)}."
    highest = max((point.y for each in series for point in each.points if point), default=1.0)
    return Chart(
        identifier,
        title,
        caption,
        against_load.offered_load(run.summary),
        Axis("utilisation", linear([], 0.0, max(1.05, highest * 1.05)), format.percent),
        [each for each in series if any(each.points)],
        guides=against_load.knee(run.summary),
        traits=against_load.TRAITS,
    )


def _predicted(
    name: str, colour: int, line: Line, steps: list[Step], prediction: Callable[[Step], Prediction | None]
) -> Series:
    said = [(step, prediction(step)) for step in steps]
    points = [
        against_load.predicted(step, each.requests_per_second if each else None, format.rate) for step, each in said
    ]
    return Series(name, colour, points, line=line)


def _busy(name: str, colour: int, mark: Mark, steps: list[Step], spread: Callable[[Step], Spread | None]) -> Series:
    known = [(step, spread(step)) for step in steps]
    points = [against_load.measured(step, each, format.percent) if each else None for step, each in known]
    return Series(name, colour, points, mark=mark, line="solid")
