"""Fills the page's template with the first screen, the plots and the tables of a run.

The page is one offline file: it contains style and script, draws its plots as SVG, and loads nothing.
"""

from __future__ import annotations

import math
from importlib.resources import files
from pathlib import Path
from string import Template

from sojourn.report.assessment import log_tables, logged_times, measurement_tables
from sojourn.report.assessment.answer import first_screen
from sojourn.report.assessment.lost_time import lost_time
from sojourn.report.assessment.plots import SECTIONS
from sojourn.report.assessment.run import Run
from sojourn.report.assessment.steps_table import steps
from sojourn.report.assessment.verification import verified
from sojourn.report.drawing import figure
from sojourn.report.markup import Markup, element, shell
from sojourn.report.tables import where_time_goes
from sojourn.report.what_if.section import Measured, MeasuredPoint, Question, what_if
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

NAME = "report.html"


def write_report(folder: RunFolder) -> Path | None:
    """Writes the run's report and returns its path; None if it could not be written."""
    folder.write_text(NAME, page(Run.read(folder)))
    return folder.written(NAME)


def page(run: Run) -> str:
    template = Template(files("sojourn.report.assessment").joinpath("report.html").read_text())
    plots = {
        name: element("div", [figure(plot(run)) for plot in row], class_="plots") for name, row in SECTIONS.items()
    }
    main = template.substitute(
        answer=first_screen(run),
        load=plots["load"],
        steps=steps(run),
        saturation=where_time_goes(run.summary.saturation),
        demand=plots["demand"],
        demand_points=_folded("Every closed-loop run", measurement_tables.demand_points(run)),
        model=_columns(measurement_tables.model(run), measurement_tables.validation(run)),
        what_if="" if run.system is None else what_if(run.system, _question(run)),
        verification=verified(run),
        log=plots["log"],
        log_tables=_columns(log_tables.table_one(run), log_tables.import_facts(run)),
        malformed=log_tables.malformed_lines(run) or "",
        logged_times=logged_times.table(run) or "",
        timeline=plots["timeline"],
        lost=lost_time(run),
        environment=_columns(measurement_tables.settings(run), measurement_tables.environment(run)),
    )
    sources = ("summary.json", "timeline.parquet", *(["system.toml"] if run.system else []), "environment.json")
    return shell(
        "capacity report",
        _title(run),
        _subtitle(run),
        Markup(main),
        run.summary.sojourn_version,
        sources,
        calculates=run.system is not None,
    )


def _question(run: Run) -> Question:
    """The calculator's question: steps that the generator limited say nothing about the server."""
    points = [
        MeasuredPoint(
            step.offered_requests_per_second,
            _finite(step.response_time_mean_seconds.median),
            _finite(step.response_time_p95_seconds.median),
            _finite(step.response_time_p99_seconds.median),
        )
        for step in run.summary.steps
        if not step.generator_limited
    ]
    return Question(measured=Measured("class.requests.rate", points) if points else None)


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _title(run: Run) -> str:
    system = run.summary.system
    server = f"{system.name} {system.version}" if system else run.summary.settings.server
    return f"{server} under {run.summary.log_name}"


def _subtitle(run: Run) -> str:
    summary, asked = run.summary, run.summary.settings
    facts = [
        summary.started_at.replace("T", " ").replace("+00:00", " UTC"),
        f"took {format.duration(summary.duration_seconds)}",
        f"{asked.repetitions} repetition" + ("s" if asked.repetitions > 1 else ""),
        f"architecture {asked.architecture}" if asked.architecture else None,
    ]
    return " · ".join(fact for fact in facts if fact)


def _columns(*parts: Markup) -> Markup:
    return element("div", *parts, class_="columns")


def _folded(title: str, content: Markup) -> Markup:
    return element("details", element("summary", title), content)
