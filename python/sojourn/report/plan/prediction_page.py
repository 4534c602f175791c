"""The page of a prediction: every solver's answer side by side, the refusals with their reasons, and the calculator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sojourn import __version__
from sojourn.machine.environment import describe
from sojourn.planning.prediction import Predicted
from sojourn.planning.system_document import SystemDocument
from sojourn.queueing import ResponseTime, Simulation
from sojourn.queueing.results import SolverAnswer
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.plan.wording import with_interval
from sojourn.report.tables import grid, texts
from sojourn.report.what_if.section import Question, what_if
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

RESULT = "prediction.json"
REPORT = "report.html"
SOURCES = (RESULT, "system.toml", "environment.json")


def _time(seconds: float | None, half_width: float | None) -> str:
    return "" if seconds is None else with_interval(seconds, half_width)


STATISTICS: dict[str, Callable[[ResponseTime], str]] = {
    "mean": lambda times: _time(times["mean"], times.get("mean_half_width")),
    "p50": lambda times: _time(times.get("p50"), times.get("p50_half_width")),
    "p95": lambda times: _time(times.get("p95"), times.get("p95_half_width")),
    "p99": lambda times: _time(times.get("p99"), times.get("p99_half_width")),
}


def write(path: Path, result: Predicted, document: SystemDocument) -> Path | None:
    """Writes the run's folder and returns the report's path; a folder that holds a run is refused."""
    folder = RunFolder.create(path, holds=(RESULT, "plan.json"), inside=".")
    folder.write_json(RESULT, result)
    folder.write_json("environment.json", describe())
    folder.write_text("system.toml", document.text)
    folder.write_text(REPORT, page(result, document))
    return folder.written(REPORT)


def page(result: Predicted, document: SystemDocument) -> str:
    """The page as text."""
    answers: dict[str, SolverAnswer | Simulation] = {
        name: outcome["answer"] for name, outcome in result["solvers"].items() if outcome["answer"]
    }
    if result["simulation"]:
        answers["simulation"] = result["simulation"]
    seed = result["simulation"]["seed"] if result["simulation"] else 1
    main = join(
        element("section", _answer(result), id="answer"),
        what_if(document, Question(seed=seed)),
        element("section", element("h2", "The solvers' answers"), *_tables(result, answers), id="solvers"),
        element("section", element("h2", "The system"), element("pre", document.text), id="system"),
    )
    subtitle = " · ".join(result["settings"]) or document.description or document.source
    return shell("prediction", result["system"], subtitle, main, __version__, SOURCES, calculates=True)


def _answer(result: Predicted) -> Markup:
    times, bottleneck = result["response_time_seconds"], result["bottleneck"]
    value = "no answer" if result["by"] is None else format.seconds(times["mean"])
    tails = [f"{name} {format.seconds(times[name])}" for name in ("p50", "p95", "p99") if times[name] is not None]
    said = "Every solver refused; the reasons are below." if result["by"] is None else f"By {result['by']}."
    left = element(
        "div",
        element("p", element("strong", value), class_="number none"),
        element("p", f"Mean response time{': ' * bool(tails)}{', '.join(tails)}", class_="condition"),
        element("p", said, class_="interval"),
    )
    facts = [
        ("Bottleneck", bottleneck["station"] or "none: no station is limited by itself"),
        ("Next", bottleneck["next"] or "no other station is limited"),
        ("Saturation", _saturation(bottleneck["saturation_throughput_per_second"])),
    ]
    if bottleneck["growth_factor_max"]:
        facts.append(("Room", f"open traffic can grow {format.factor(bottleneck['growth_factor_max'])}"))
    if result["bounds"]:
        facts.append(("N*", f"{format.number(result['bounds']['saturation_users'])} users"))
    listed = element("dl", [element("div", element("dt", name), element("dd", fact)) for name, fact in facts])
    return element("div", left, element("div", listed, class_="facts"), class_="answer")


def _saturation(per_second: float | None) -> str:
    return "not by a station alone" if per_second is None else f"at {format.number(per_second)} jobs/s"


def _tables(result: Predicted, answers: dict[str, SolverAnswer | Simulation]) -> Iterator[Markup]:
    if answers:
        head = ["", *answers]
        classes = next(iter(answers.values()))["classes"]
        rows = [
            [
                f"{name}, {statistic}",
                *(shown(each["classes"][name]["response_time_seconds"]) for each in answers.values()),
            ]
            for name in classes
            for statistic, shown in STATISTICS.items()
        ]
        yield grid("table-response-times", "Response times by class", [head], rows)
        stations = next(iter(answers.values()))["stations"]
        used = [
            [name, *(format.percent(each["stations"][name]["utilisation"]) for each in answers.values())]
            for name in stations
        ]
        yield grid("table-utilisations", "Utilisation by station", [head], used)
    solvers = [
        (name, each["answer"]["means"] if each["answer"] else "refused", each["refusal"] or each["basis"])
        for name, each in result["solvers"].items()
    ]
    yield texts("table-solvers", "What each solver assumes, or why it refused", ["solver", "means", ""], solvers)
