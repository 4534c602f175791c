"""The page of a capacity search: the result and all its runs, drawn from `search.json` alone."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from pathlib import Path

from sojourn import __version__
from sojourn.loading import folder, metrics
from sojourn.loading.record import SearchRecord
from sojourn.loading.search import Found, Trial
from sojourn.loading.threshold import Threshold
from sojourn.report.chart import Axis, Chart, Guide, Missing, Point, Series, Trait
from sojourn.report.drawing import figure
from sojourn.report.load.terminal import answer
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.scales import Scale, linear, logarithmic
from sojourn.report.tables import grid, pairs, where_time_goes
from sojourn.results import writing
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

NAME = "report.html"
_ENDINGS = {"generator": "the generator saturates first", "not reached": "no load failed"}
_TRAITS: dict[Trait, str] = {"crossed": "failed", "hollow": "void: the generator was the limit"}


def write_report(run: RunFolder) -> Path | None:
    """Writes the report of the search in a folder and returns its path; None if it could not be written."""
    if run.written(folder.SEARCH) is None:
        writing.missed(run.path / NAME, f"there is no whole {folder.SEARCH} to draw it from")
        return None
    run.write_text(NAME, page(read(run)))
    return run.written(NAME)


def read(run: RunFolder) -> SearchRecord:
    """The search in a folder."""
    return SearchRecord.model_validate_json((run.path / folder.SEARCH).read_text())


def page(search: SearchRecord) -> str:
    found = found_of(search)
    unit = search.unit
    conditions = " and ".join(search.thresholds)
    plots = [_runs(found, search), _shares(found, unit)]
    main = join(
        element("section", _first_screen(found, unit, conditions), id="answer"),
        element(
            "section",
            element("h2", "The evidence"),
            element("div", [figure(plot) for plot in plots], class_="plots"),
            where_time_goes(search.saturation) if search.saturation else None,
            _trials(found, unit),
            id="evidence",
        ),
        element("section", element("h2", "What was asked for"), _plan(search), id="environment"),
    )
    title = f"The largest load with {conditions}"
    subtitle = f"{len(found.trials)} runs · {_ENDINGS.get(found.ending, found.ending)}"
    return shell("load search", title, subtitle, Markup(main), __version__, (folder.SEARCH, "point-001.json"))


def found_of(search: SearchRecord) -> Found:
    """The result of a stored search."""
    trials = [
        Trial(
            each.load,
            each.passed,
            each.void_because,
            {name: math.nan if value is None else value for name, value in each.values.items()},
            each.phase,
        )
        for each in search.trials
    ]
    return Found(search.ending, search.capacity, search.low, search.high, trials)


def _first_screen(found: Found, unit: str, conditions: str) -> Markup:
    number = found.capacity if found.capacity is not None else found.low
    if number is None:
        shown = element("p", element("strong", "none passed"), class_="number")
    else:
        bound = None if found.capacity is not None else element("span", "at least ", class_="bound")
        shown = element("p", bound, element("strong", format.number(number, 4)), f" {unit}", class_="number")
    said = element("p", answer(found, unit), class_="interval")
    marks = []
    if found.ending == "generator":
        text = "the server's limit is not known" + ("." if number is None else "; the figure is a lower bound.")
        marks.append(element("p", element("strong", "The generator saturates first: "), text, class_="notice grave"))
    return join(marks, shown, element("p", f"{conditions}.", class_="condition"), said)


def _runs(found: Found, search: SearchRecord) -> Chart | Missing:
    """The measurements of every run by load."""
    identifier, title = "plot-runs", "Every run"
    if not search.conditions:
        return Missing(identifier, title, "an older version wrote it, without its threshold's parts")
    asked = search.conditions[0]
    threshold = Threshold(metrics.find(asked.metric), asked.operator, asked.limit)
    metric = threshold.metric
    points = [
        Point(trial.load, trial.values[metric.name], _said(trial, search.unit, metric.write), trait=_trait(trial))
        for trial in sorted(found.trials, key=operator.attrgetter("load"))
        if not math.isnan(trial.values.get(metric.name, math.nan))
    ]
    if not points:
        return Missing(identifier, title, "no run measured it")
    values = [point.y for point in points] + [threshold.limit]
    scale = logarithmic(values) if metric.quantity == "time" else linear(values)
    guides = [Guide("y", threshold.limit, str(threshold)), *_capacity(found)]
    return Chart(
        identifier,
        title,
        "A mark is a run. The shaded band is the capacity's 95 % interval.",
        Axis(search.unit, _loads(found), format.number),
        Axis(metric.name, scale, metric.write),
        [Series(metric.name, 1, points, mark="disc")],
        guides=guides,
        traits=_TRAITS,
        shape="wide",
    )


def _shares(found: Found, unit: str) -> Chart | Missing:
    """The pass rate by load."""
    identifier, title = "plot-shares", "Share of runs that passed"
    fractions = found.pass_fractions
    if not fractions:
        return Missing(identifier, title, "no run counts")
    measured = [
        Point(load, passed / runs, f"{passed} of {runs} at {format.number(load, 4)} {unit}")
        for load, runs, passed, _ in fractions
    ]
    fitted = [Point(load, share) for load, _, _, share in fractions]
    return Chart(
        identifier,
        title,
        "Marks: the runs at one load. Line: the same made monotone, assuming only that more load is never better.",
        Axis(unit, _loads(found), format.number),
        Axis("passed", linear([0.0, 1.0]), format.percent),
        [Series("runs", 1, measured, mark="disc"), Series("monotone", 2, fitted, line="dashed")],
        guides=_capacity(found),
        shape="wide",
    )


def _capacity(found: Found) -> list[Guide]:
    if found.capacity is None:
        return []
    return [Guide("x", found.capacity, format.number(found.capacity, 4), found.low, found.high)]


def _loads(found: Found) -> Scale:
    loads = [trial.load for trial in found.trials]
    return linear(loads, low=min(loads) * 0.9)


def _said(trial: Trial, unit: str, write: Callable[[float], str]) -> str:
    value = write(next(iter(trial.values.values())))
    return f"{value} at {format.number(trial.load, 4)} {unit}"


def _trait(trial: Trial) -> Trait:
    return "hollow" if trial.void_because else "plain" if trial.passed else "crossed"


def _trials(found: Found, unit: str) -> Markup:
    names = list(found.trials[0].values) if found.trials else []
    rows = [
        (
            str(number),
            trial.phase,
            format.number(trial.load, 4),
            *(metrics.find(name).write(trial.values.get(name)) for name in names),
            trial.void_because or ("pass" if trial.passed else "fail"),
        )
        for number, trial in enumerate(found.trials, 1)
    ]
    return grid("table-trials", "In the order of the search", [("Run", "Phase", unit, *names, "Verdict")], rows)


def _plan(search: SearchRecord) -> Markup:
    rows = [("Thresholds", ", ".join(search.thresholds)), ("Options", " ".join(search.options))]
    return pairs("table-plan", "The plan", [*rows, ("Varied", search.varied)])
