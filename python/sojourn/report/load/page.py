"""The page of a load run, with the shell, plots and tables of the capacity report."""

from __future__ import annotations

from importlib.resources import files
from string import Template

from sojourn.loading import metrics
from sojourn.loading.folder import LoadRun
from sojourn.report.assessment import measurement_tables
from sojourn.report.drawing import figure
from sojourn.report.load import tables
from sojourn.report.load.plots import SECTIONS
from sojourn.report.load.server_plots import SERVER
from sojourn.report.load.terminal import PERCENTILES, offered
from sojourn.report.load.undisturbed import undisturbed
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.tables import where_time_goes
from sojourn.text import format

_FACTS = {
    **{name: f"Response time, {name}" for name in PERCENTILES},
    "error_rate": "Failed",
    "server.cpu_per_request": "Server CPU",
}
"""Metrics on the first screen with short names; tooltips explain them."""


def page(run: LoadRun) -> str:
    template = Template(files("sojourn.report.load").joinpath("report.html").read_text())
    plots = {
        name: element("div", [figure(plot(run)) for plot in row], class_="plots") for name, row in SECTIONS.items()
    }
    main = template.substitute(
        answer=_first_screen(run),
        thresholds=tables.thresholds(run) or "",
        over_time=plots["over_time"],
        undisturbed=undisturbed(run) or "",
        distribution=plots["distribution"],
        steps=tables.steps(run) or "",
        latencies=join(tables.latencies(run), tables.webstone(run)),
        names=tables.names(run) or "",
        sizes=tables.sizes(run),
        errors=tables.errors(run),
        machines=tables.machines(run) or "",
        saturation=where_time_goes(run.result.record.saturation),
        server_over_time=server_plots(run),
        probe=tables.probe(run) or "",
        resources=element("div", tables.generator(run), tables.server(run), class_="columns"),
        environment=element(
            "div", tables.plan(run), measurement_tables.environment_table(run.environment or None), class_="columns"
        ),
    )
    record = run.result.of_requests
    subtitle = f"{record.connection} connections · measured for {format.duration(record.duration_seconds)}"
    sources = ("result.json", "latency/steps.hlog", "latency/intervals.hlog", "timeline.parquet", "environment.json")
    return shell(f"{record.tool} report", record.url, subtitle, Markup(main), record.version, sources)


def server_plots(run: LoadRun) -> Markup | str:
    """The plots of a probed server; empty if it was not probed."""
    if run.result.recording is None:
        return ""
    return element("div", [figure(plot(run)) for plot in SERVER], class_="plots")


def _first_screen(run: LoadRun) -> Markup:
    value = format.number(run.result.requests_per_second, 4)
    bound = (
        element("span", "the generator's, not the server's: ", class_="bound") if run.result.limited_because else None
    )
    number = element("p", bound, element("strong", value), " requests/s answered", class_="number")
    load = element("p", f"offered: {offered(run.result)}", class_="interval")
    interval = metrics.find("rps").estimate(run.result)
    said = _between("rps", interval.low, interval.high)
    rows = [_fact(run, name, label) for name, label in _FACTS.items()]
    interval_text = element("p", said, class_="interval") if said else None
    left = element("div", number, interval_text, load, class_="headline")
    facts = element("div", element("dl", [row for row in rows if row]), class_="facts")
    return join(marks(run), element("div", left, facts, class_="answer"), warnings(run))


def _fact(run: LoadRun, name: str, label: str) -> Markup | None:
    metric = metrics.find(name)
    found = metric.estimate(run.result)
    if found.value != found.value:
        return None
    said = _between(name, found.low, found.high)
    per = " per request" if name.endswith("per_request") else ""
    value = element("dd", metric.write(found.value) + per, element("small", said) if said else None)
    return element("div", element("dt", label), value, title=metric.help)


def _between(name: str, low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    write = metrics.find(name).write
    return f"95 %: {write(low)} to {write(high)}"


def marks(run: LoadRun) -> list[Markup]:
    """Warnings above the figures: a generator limit, an incomplete run."""
    found = []
    because = run.result.limited_because
    if because:
        said = f"{because}. These figures say what the generator can do, not the server."
        found.append(_mark("grave", "The generator was the limit", said))
    if not run.result.complete:
        found.append(_mark("grave", "Incomplete run", f"{run.result.record.stopped_because}."))
    return found


def _mark(class_: str, title: str, text: str) -> Markup:
    return element("p", element("strong", f"{title}:"), " ", text, class_=f"notice {class_}", role="alert")


def warnings(run: LoadRun) -> Markup | None:
    """Conditions that make the figures doubtful but not void."""
    found = run.result.record.warnings
    if not found:
        return None
    heading = element("h2", f"{len(found)} warning" + ("s" if len(found) > 1 else ""))
    return element("div", heading, element("ul", [element("li", each) for each in found]), class_="warnings")
