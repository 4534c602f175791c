"""The page of an assessment of an application: the answer, response times and CPU use against load, demands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sojourn.applications.summary import ERRORS_MAX, SUMMARY, ApplicationSummary, Model, StepFigures
from sojourn.applications.verdicts import objective_in_words
from sojourn.failure import CouldNotRun
from sojourn.planning.system_document import SystemDocument
from sojourn.report.application.terminal import sentences
from sojourn.report.chart import Axis, Chart, Point, Series
from sojourn.report.drawing import figure
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.scales import linear
from sojourn.report.tables import texts
from sojourn.report.what_if.section import Limit, Measured, MeasuredPoint, Question, what_if, without_calculator
from sojourn.results.records import Interval
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

REPORT = "report.html"
_CLASS = re.compile(r"^\[classes\.[^]]*\]  # (.*)$", re.MULTILINE)
"""A class of the model's system file, with the endpoint that it is."""


def write_report(folder: RunFolder) -> Path | None:
    """Draws the page from the folder alone; returns its path."""
    folder.write_text(REPORT, page(read_summary(folder)))
    return folder.written(REPORT)


def read_summary(folder: RunFolder) -> ApplicationSummary:
    """The summary in a run's folder.

    Raises:
        CouldNotRun: another version of sojourn wrote it.
    """
    file = folder.path / SUMMARY
    try:
        return ApplicationSummary.model_validate_json(file.read_text())
    except ValueError as error:
        raise CouldNotRun(
            f"{file} does not fit this version: {error}",
            "run sojourn assess again, or use the version named in the file",
        ) from error


def page(summary: ApplicationSummary) -> str:
    """The page as text."""
    steps = sorted(
        (step for step in summary.steps if step.tells_the_knee), key=lambda step: step.offered_requests_per_second
    )
    answer = [element("p", line) for line in sentences(summary)]
    answer += [element("p", objective_in_words(each, summary)) for each in summary.objectives]
    answer += [element("p", f"Warning: {warning}", class_="missing") for warning in summary.warnings]
    if not summary.complete:
        answer.insert(0, element("p", f"Incomplete: {summary.incomplete_because}", class_="missing"))
    calculator = _what_if(summary)
    main = join(
        element("section", element("h2", "Answer"), answer, id="answer"),
        element(
            "section",
            element("h2", "Rising load of the log's mix"),
            element("div", [figure(chart) for chart in charts(summary, steps)], class_="plots"),
            _steps(summary, steps),
            id="load",
        )
        if steps
        else None,
        _changes(summary),
        calculator,
        _held_out(summary),
        _demands(summary),
        _server_timing(steps),
        _endpoints(summary),
        _tiers(summary),
    )
    subtitle = f"{summary.target} · {summary.started_at}"
    return shell(
        "application",
        summary.log_name,
        subtitle,
        main,
        summary.sojourn_version,
        (SUMMARY, "targets"),
        calculates=calculator is not None,
    )


def _what_if(summary: ApplicationSummary) -> Markup | None:
    """The calculator for the model's system file, at the required rate; None without a model."""
    model = summary.model
    if model is None:
        return None
    if any(model.meets(what) is False for what in ERRORS_MAX):
        return without_calculator(
            "There is no calculator: the model's response times are too far from those measured at loads that "
            "it was not fitted on."
        )
    document = SystemDocument.parse(model.system_file, "the model's system file")
    names = dict(zip((each.name for each in document.system.classes), _CLASS.findall(model.system_file), strict=True))
    rate = summary.required_requests_per_second or summary.peak_requests_per_second
    if rate:
        # The model's file has the log's shares as rates, 1 request/s together.
        document = SystemDocument.parse(document.set(f"traffic={rate!r}").text, document.source)
    missing = {
        name: limit
        for name, limit in model.limits_requests_per_second.items()
        if name.partition(" of ")[0] not in ("cores", "processes") and name not in _places(model)
    }
    first = min(missing, key=lambda name: missing[name], default=None)
    note = "The system file has the cores, the CPU time that each tier uses of them per request, and waits."
    if first is not None:
        note += (
            f" It leaves out {first}, which can take {missing[first]:,.4g} requests/s: beyond that there is no answer "
            "here, and close below it response times are longer. What more of that gives is among the changes above."
        )
    if not model.believed:
        note += (
            " How exact its response times are is not decided: the steps were too short to tell its errors from chance."
        )
    single = len(document.system.classes) == 1
    present = sum(each.rate_per_second or 0.0 for each in document.system.classes)
    points = [
        MeasuredPoint(
            step.offered_requests_per_second / (1.0 if single else present),
            step.response_time_mean_seconds,
            step.response_time_p95_seconds,
            None,
        )
        for step in sorted(summary.steps, key=lambda step: step.offered_requests_per_second)
        if step.tells_the_knee and step.failed_because is None
    ]
    path = f"class.{document.system.classes[0].name}.rate" if single else "traffic"
    question = Question(
        measured=Measured(path, points) if points else None,
        limit=None if first is None else Limit(first, missing[first]),
        note=note,
        names=names,
    )
    return what_if(document, question)


def _places(model: Model) -> list[str]:
    """The limits by places, as the model's limits call them: `4 workers of app` is `workers of app`."""
    return [each.partition(" ")[2] for each in model.places]


def charts(summary: ApplicationSummary, steps: Sequence[StepFigures]) -> list[Chart]:
    """Response times, and the CPU time of each tier, against the load."""
    highest = max(step.offered_requests_per_second for step in steps)
    load = Axis("offered requests/s", linear([0.0, highest]), lambda value: f"{value:,.0f}")
    series = []
    for place, (name, values) in enumerate(
        (
            ("mean", [step.response_time_mean_seconds for step in steps]),
            ("p95", [step.response_time_p95_seconds for step in steps]),
            ("model's mean", [step.predicted_response_time_mean_seconds for step in steps]),
        )
    ):
        points = _points(steps, [None if value is None else value * 1e3 for value in values], "ms")
        if points:
            series.append(Series(name, place, points, mark="disc" if place < 2 else "diamond"))
    top = max((point.y for each in series for point in each.points if point is not None), default=1.0)
    times = Axis("response time, ms", linear([0.0, top]), lambda value: f"{value:,.4g}")
    used = [
        Series(
            tier.name, place, _points(steps, [step.tiers[tier.name].cpu_cores for step in steps], "cores"), mark="disc"
        )
        for place, tier in enumerate(summary.tiers)
    ]
    most = max((point.y for each in used for point in each.points if point is not None), default=1.0)
    cores = Axis("cores in use", linear([0.0, most]), lambda value: f"{value:,.3g}")
    return [
        Chart("plot-response-times", "Response times", "Each mark is a step of the log's mix.", load, times, series),
        Chart(
            "plot-cpu",
            "CPU by tier",
            "Each mark is a step of the log's mix.",
            load,
            cores,
            [each for each in used if each.points],
        ),
    ]


def _points(steps: Sequence[StepFigures], values: Sequence[float | None], unit: str) -> list[Point]:
    return [
        Point(
            step.offered_requests_per_second, value, f"{value:,.4g} {unit} at {step.offered_requests_per_second:,.1f}/s"
        )
        for step, value in zip(steps, values, strict=True)
        if value is not None
    ]


def _steps(summary: ApplicationSummary, steps: Sequence[StepFigures]) -> Markup:
    tiers = [tier.name for tier in summary.tiers]
    head = [
        "offered/s",
        "answered/s",
        "mean",
        "p95",
        "failed",
        *(f"{tier}, cores" for tier in tiers),
        "CPU time lost",
        "beyond the knee",
    ]
    rows = [
        [
            f"{step.offered_requests_per_second:,.1f}",
            f"{step.requests_per_second:,.1f}",
            format.seconds(step.response_time_mean_seconds),
            format.seconds(step.response_time_p95_seconds),
            format.percent(step.failed_fraction),
            *(format.number(step.tiers[tier].cpu_cores) for tier in tiers),
            format.seconds(step.stalled_cpu_seconds),
            step.failed_because or "",
        ]
        for step in steps
    ]
    return texts("table-steps", "Steps", head, rows)


def _changes(summary: ApplicationSummary) -> Markup | None:
    rows = [
        [each.what, _range(each.capacity), f"{each.factor:.2f}", each.limited_by, each.cost or "", "", ""]
        for each in summary.changes
    ]
    rows += [
        [
            each.what,
            _range(each.predicted) if each.predicted is not None else each.not_predicted_because or "",
            "",
            each.limited_by or "",
            "",
            _range(each.measured) if each.measured is not None else each.not_measured_because or "",
            "" if each.error is None else f"{each.error:+.0%}",
        ]
        for each in summary.verification
    ]
    head = ["change", "predicted, requests/s", "times the knee", "then limited by", "cost", "measured", "error"]
    return texts("table-changes", "Changes", head, rows) if rows else None


def _held_out(summary: ApplicationSummary) -> Markup | None:
    if summary.model is None or not summary.model.held_out:
        return None
    rows = [
        [
            f"{each.offered_requests_per_second:,.1f}",
            each.endpoint,
            format.seconds(each.measured_mean_seconds),
            _with_chance(each.predicted_mean_seconds, each.measured_mean_known_to),
            format.seconds(each.measured_p95_seconds),
            _with_chance(each.predicted_p95_seconds, each.measured_p95_known_to),
        ]
        for each in summary.model.held_out
    ]
    head = ["offered/s", "endpoint", "mean, measured", "predicted ± chance", "p95, measured", "predicted ± chance"]
    return texts("table-held-out", "The model at loads that it was not fitted on", head, rows)


def _with_chance(predicted: float | None, known_to: float | None) -> str:
    """How far requests as many as were measured may be off by chance, if the model is right (95 %)."""
    return format.seconds(predicted) + (f" ± {known_to:.0%}" if known_to is not None else "")


def _range(interval: Interval) -> str:
    return f"{interval.estimate:,.4g} ({interval.low:,.4g} to {interval.high:,.4g})"


def _demands(summary: ApplicationSummary) -> Markup:
    rows = [
        [
            each.endpoint,
            each.tier,
            format.seconds(each.seconds.estimate) if each.identifiable else "not identifiable",
            f"{format.seconds(each.seconds.low)} to {format.seconds(each.seconds.high)}",
        ]
        for each in summary.demands
    ]
    return texts("table-demands", "CPU time per request", ["endpoint", "tier", "CPU time", "95 % interval"], rows)


def _server_timing(steps: Sequence[StepFigures]) -> Markup | None:
    """What the answers themselves say of their time, at the lowest load and at the highest that was taken."""
    taken = [step for step in steps if step.failed_because is None]
    ends = taken[:: len(taken) - 1] if len(taken) > 1 else taken
    rows = [
        [
            endpoint.name,
            metric,
            f"{step.offered_requests_per_second:,.1f}",
            format.seconds(said.mean),
            format.seconds(said.p95),
            format.seconds(endpoint.response_time_mean_seconds),
        ]
        for name in (each.name for each in (ends[0].endpoints if ends else ()))
        for step in ends
        for endpoint in step.endpoints
        if endpoint.name == name
        for metric, said in endpoint.server_timing_seconds.items()
    ]
    head = ["endpoint", "metric", "offered/s", "mean", "p95", "mean of all its response time"]
    return texts("table-server-timing", "What answers say of their time (Server-Timing)", head, rows) if rows else None


def _endpoints(summary: ApplicationSummary) -> Markup:
    rows = [
        [each.name, f"{each.requests:,}", format.percent(each.fraction), f"{each.targets:,}"]
        for each in summary.endpoints
    ]
    rows += [
        [f"left out: {each.why}", f"{each.requests:,}", format.percent(each.fraction), ""] for each in summary.left_out
    ]
    return texts("table-endpoints", "Endpoints", ["endpoint", "requests", "share", "targets"], rows)


def _tiers(summary: ApplicationSummary) -> Markup:
    rows = [
        [
            each.name,
            each.declared,
            each.command or "",
            ", ".join(map(str, each.cores)),
            "" if each.idle is None else format.percent(each.idle.cpu_cores.estimate),
            ""
            if each.idle is None
            else f"{format.percent(each.idle.cpu_cores.low)} to {format.percent(each.idle.cpu_cores.high)}",
        ]
        for each in summary.tiers
    ]
    head = ["tier", "declared", "runs", "cores", "CPU without a load, of a core", "95 % interval"]
    return texts("table-tiers", "Tiers", head, rows)
