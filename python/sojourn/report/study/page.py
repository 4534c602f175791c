"""The page of a study, with its summary and plots."""

from __future__ import annotations

from pathlib import Path

from sojourn import __version__
from sojourn.machine.environment import Environment
from sojourn.report.assessment.measurement_tables import written
from sojourn.report.chart import Missing
from sojourn.report.drawing import figure
from sojourn.report.image import write_images
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.study.charts import charts
from sojourn.report.tables import grid, pairs, texts
from sojourn.study.cells import Cell
from sojourn.study.checks import Verdict
from sojourn.study.document import Study
from sojourn.study.figures import Figure
from sojourn.study.finding_counts import counted
from sojourn.study.findings import Findings
from sojourn.study.folder import DOCUMENT, ENVIRONMENTS, REPORT, SUMMARY, StudyFolder
from sojourn.study.sources import citation
from sojourn.text import format

_SOURCES = (DOCUMENT, ENVIRONMENTS, "points.parquet", SUMMARY)


def write(folder: StudyFolder, findings: Findings) -> Path | None:
    """Writes the summary, the plots and the page; returns the page's path."""
    folder.write_table()
    drawn = charts(findings.study, findings.cells)
    write_images(folder.run, [chart for chart in drawn if not isinstance(chart, Missing)])
    environments = folder.environments()
    main = join(
        _notes(findings, environments),
        element("section", element("h2", "Verdicts"), _verdicts(findings), id="verdicts"),
        element("section", element("h2", "Figures"), element("div", map(figure, drawn), class_="plots"), id="figures"),
        _printed(findings),
        _lines(findings),
        _cells(findings),
        _machine(findings, environments),
    )
    study = findings.study
    source = study.source if (full := citation(study.source)) is None else f"{study.source}: {full}"
    folder.run.write_text(
        REPORT,
        shell(f"study {study.name}", study.title, f"{source}. {study.question}", main, __version__, _SOURCES),
    )
    folder.run.write_json(SUMMARY, findings.as_json())
    return folder.run.written(REPORT)


def _notes(findings: Findings, environments: list[Environment]) -> Markup | None:
    notes = []
    if findings.given_up:
        why = "A trial without verdicts" if findings.study.tried else "Shortened to fit a time"
        notes.append(f"{why}: {'; '.join(findings.given_up)}.")
    if findings.points < findings.planned:
        notes.append(f"{findings.points:,} of {findings.planned:,} points were measured; the same command resumes.")
    if findings.repeated:
        notes.append(
            f"{findings.repeated:,} points were measured beyond the planned repetitions, to decide what was open."
        )
    notes += [f"{name} was left out: {because}" for name, because in findings.missing.items()]
    notes += [f"{number:,} points failed: {because}" for because, number in findings.failed.items()]
    notes += [
        f"At {number:,} points the server had its whole core: {because}"
        for because, number in findings.unlimited.items()
    ]
    if len(environments) > 1:
        notes.append("It was measured in several runs whose machine or settings differ: see the machine below.")
    if findings.study.differs:
        notes.append(findings.study.differs)
    return element("section", [element("p", note, class_="missing") for note in notes]) if notes else None


def _verdicts(findings: Findings) -> Markup:
    rows = [
        (
            each.says,
            join(
                element("strong", f"{each}"),
                element("span", f" ({each.evidence}). {each.metric}: {each.why}."),
                [element("p", f"{_sentence(said)}.", class_="note") for said in notes_of(each)],
            ),
        )
        for each in findings.verdicts
    ]
    found = [(each.finding, each.evidence) for each in findings.verdicts]
    once = "By 95 % intervals over the repetitions"
    often = "Intervals widen with each look, so that all looks together have an error of 5 %"
    note = (
        f"{'; '.join(counted(found))}. {often if findings.study.until_decided else once}; not decided: the "
        "interval crosses the bound, or cannot be trusted; not enough points: some are missing, or it was only a trial."
    )
    return pairs("table-verdicts", "The source's findings on this machine", rows, note)


def notes_of(verdict: Verdict) -> list[str]:
    """Explanations of a verdict, or the cost of deciding it."""
    return [*verdict.because, *([verdict.to_decide] if verdict.to_decide else [])]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _printed(findings: Findings) -> Markup | None:
    rows = []
    for each in findings.study.printed:
        metric = findings.study.figure(each.metric)
        for cell in findings.cells.where(each.at):
            found = cell.estimate(each.metric)
            ours = None if found is None else metric.write(found.value)
            named = ", ".join(f"{name} {value}" for name, value in cell.settings.items())
            rows.append([named, each.metric, metric.write(each.value), ours, each.where_printed])
    if not rows:
        return None
    head = ["point", "metric", "printed", "here", "where"]
    return element("section", grid("table-printed", "Printed values beside ours", [head], rows), id="printed")


def _lines(findings: Findings) -> Markup | None:
    rows = []
    for each in findings.lines:
        printed = each.fit.printed
        said = None if printed is None else f"{printed.intercept:g} {printed.slope:+g} y"
        rows.append([each.fit.says, each.fit.metric, f"y = {each.fit.along}", said, each.said])
    if not rows:
        return None
    head = ["line", "metric", "along", "printed", "here"]
    return element("section", texts("table-fits", "Fitted lines", head, rows), id="fits")


def _cells(findings: Findings) -> Markup:
    shown = [findings.study.figure(name) for name in findings.study.metrics()]
    factors = findings.study.names()
    rows = []
    for cell in findings.cells.cells:
        figures = [_figure(metric, cell) for metric in shown]
        remarks = dict.fromkeys(remark for metric in shown if (remark := cell.untrusted_because(metric.name)))
        rows.append(
            [*(str(cell.settings[name]) for name in factors), str(len(cell.records)), *figures, "; ".join(remarks)]
        )
    head = [*factors, "points", *(each.name for each in shown), "remark"]
    return element("section", grid("table-cells", "All cells", [head], rows), id="cells")


def _figure(metric: Figure, cell: Cell) -> str:
    found = cell.estimate(metric.name)
    if found is None:
        return metric.write(None)
    interval = "" if found.low is None else f" ({metric.write(found.low)} to {metric.write(found.high)})"
    return metric.write(found.value) + interval


def _machine(findings: Findings, environments: list[Environment]) -> Markup:
    rows = [(f"version of {name}", version) for name, version in findings.cells.versions.items()]
    for place, machine in enumerate(environments, 1):
        rows += [
            (f"{name.replace('_', ' ')}{f' ({place})' if place > 1 else ''}", written(name, value))
            for name, value in machine.items()
            if place == 1 or environments[0].get(name) != value
        ]
    rows.append(("each point", _each_point(findings.study)))
    return element(
        "section", element("h2", "Machine"), pairs("table-machine", "Where it was measured", rows), id="machine"
    )


def _each_point(study: Study) -> str:
    said = []
    if study.workload is not None:
        said.append(f"{study.warm_up_seconds:g} s of warm-up, {study.duration_seconds:g} s measured, seed {study.seed}")
    if study.model is not None:
        width = format.percent(study.model.half_width)
        said.append(f"solved for {study.model.system}; simulated until the mean is known to {width}, seed {study.seed}")
    return "; the model's ".join(said) or "one run of its program"
