"""The page of a plan: the verdict, changes that meet the target, effects of doubling, sweeps, cost and growth."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from sojourn import __version__
from sojourn.machine.environment import describe
from sojourn.planning.answers import Plan, as_json
from sojourn.planning.mix import price_of
from sojourn.planning.system_document import SystemDocument
from sojourn.report.chart import Chart
from sojourn.report.drawing import figure
from sojourn.report.image import write_images
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.plan import wording
from sojourn.report.plan.charts import costs, sweeps
from sojourn.report.tables import grid, pairs
from sojourn.report.what_if.section import Aim, Question, what_if
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

SOURCES = ("plan.json", "sweeps.parquet", "system.toml", "environment.json")


def page(plan: Plan, document: SystemDocument) -> str:
    main = join(
        element("section", _answer(plan), id="answer"),
        what_if(document, _question(plan)),
        _section("levers", "What would meet the target", _levers(plan), _methods(plan)),
        _section("doubling", "Twice as much of one resource", _doubling(plan)),
        _section("cost", "Cost", _mix(plan), _plots(costs(plan))) if plan.mix else None,
        _section("sweeps", "One parameter at a time", _plots(sweeps(plan))),
        _section("system", "The system", element("pre", document.text)),
    )
    settings = "".join(f" · {setting}" for setting in plan.settings)
    subtitle = f"seed {plan.seed} · {plan.simulations:,} simulations{settings}"
    return shell(
        "capacity plan", f"{plan.system}: {plan.target}", subtitle, main, __version__, SOURCES, calculates=True
    )


def _question(plan: Plan) -> Question:
    statistic, _, subject = plan.metric.partition(" ")
    of = subject.partition(" of ")[2] or None
    growth = plan.growth
    return Question(
        aim=Aim(statistic, plan.limit_seconds, of, plan.loss_max),
        growth_percent_per_month=None if growth is None else 100 * ((1 + growth.fraction_per_year) ** (1 / 12) - 1),
        start=None if growth is None else growth.start,
        prices={path: price_of(text) for path, text in plan.mix.priced.items()} if plan.mix else None,
        seed=plan.seed,
    )


def _section(identifier: str, title: str, *parts: Markup) -> Markup:
    return element("section", element("h2", title), *parts, id=identifier)


def _answer(plan: Plan) -> Markup:
    unstable = plan.now.unstable_station
    value = "overloaded" if unstable else format.seconds(plan.now.confirmed_seconds)
    number = element("p", element("strong", value), class_="number none")
    met = "The target is met" if plan.now.met else "The target is not met"
    condition = element("p", f"{met}: {plan.target}.", class_="condition")
    said = element("p", f"{plan.metric}, now: {wording.verdict(plan)}.", class_="interval")
    sentences = [f"{_first_capital(wording.floor(plan))}.", *_enough(plan)]
    left = element(
        "div", number, condition, said, element("div", [element("p", each) for each in sentences], class_="sentences")
    )
    return element("div", left, element("div", _facts(plan), class_="facts"), class_="answer")


def _enough(plan: Plan) -> list[str]:
    enough = [f"{each.label} {each.needed_text}" for each in plan.levers if each.needed_text]
    if not enough:
        return ["No single change meets the target."]
    return [f"Any one of these meets it: {'; '.join(enough)}."]


def _facts(plan: Plan) -> Markup:
    rate = format.number(plan.saturation_throughput_per_second)
    facts = [
        (
            "Bottleneck",
            f"{plan.bottleneck}, at {rate} jobs/s" if plan.bottleneck else "none: no station is limited by itself",
        ),
        ("Next", plan.next_bottleneck or "no other station is limited"),
        ("Traffic", wording.largest_traffic(plan.largest_traffic)),
    ]
    if plan.saturation_users is not None:
        facts.append(("N*", f"{format.number(plan.saturation_users)} users"))
    if plan.mix is not None:
        facts.append(("Cheapest", wording.cheapest(plan.mix)))
    if plan.growth is not None:
        facts += [(_first_capital(name), said) for name, said in wording.growth(plan.growth)]
    return element("dl", [element("div", element("dt", name), element("dd", said)) for name, said in facts])


def _levers(plan: Plan) -> Markup:
    rows = [
        (
            each.label,
            each.present_text,
            wording.needed(each),
            wording.with_interval(each.confirmed_seconds, each.half_width_seconds) if each.needed_text else "",
            each.searched_by,
        )
        for each in plan.levers
    ]
    head = ("any one of these", "now", "needed", plan.metric, "searched with")
    return grid("table-levers", "The smallest change of one parameter, everything else unchanged", [head], rows)


def _methods(plan: Plan) -> Markup:
    lacking = f"Never validated: {'; '.join(plan.never_validated)}."
    notes = [element("p", each, class_="note") for each in (lacking, wording.methods(plan))]
    return element("div", notes)


def _doubling(plan: Plan) -> Markup:
    rows = [
        (
            each.label,
            wording.with_interval(each.seconds, None),
            wording.change(each),
            wording.doubled_traffic(each),
            f"{format.number(each.saturation_throughput_per_second)}/s",
            each.bottleneck or "",
        )
        for each in plan.doubling
    ]
    head = ("twice as much", plan.metric, "change", "largest traffic", "saturates at", "where")
    note = "The largest traffic within the target, as a factor on this load."
    if plan.not_doubled:
        note += f" Not doubled: {'; '.join(plan.not_doubled)}."
    return grid("table-doubling", "What more of each resource gives", [head], rows, note)


def _mix(plan: Plan) -> Markup:
    assert plan.mix is not None
    prices = [(path, price) for path, price in plan.mix.priced.items()]
    rows = [*prices, ("as it is", format.number(plan.mix.present_cost, 4)), ("cheapest", wording.cheapest(plan.mix))]
    return pairs("table-cost", "Prices and the cheapest mix", rows)


def _plots(charts: Iterable[Chart]) -> Markup:
    return element("div", [figure(chart) for chart in charts], class_="plots")


def _first_capital(text: str) -> str:
    return text[:1].upper() + text[1:]


SUMMARY = "plan.json"
REPORT = "report.html"


def default_output(system: Path) -> Path:
    """`runs/plan-NAME`, with a number if it holds a plan; one that was cut short goes on there."""
    name = f"plan-{system.stem}"
    candidates = (Path("runs") / (name if count == 1 else f"{name}-{count}") for count in range(1, 10_000))
    return next(candidate for candidate in candidates if not (candidate / SUMMARY).exists())


def prepare(path: Path) -> RunFolder:
    """Creates the folder; refuses one that holds a run."""
    return RunFolder.create(path, holds=(SUMMARY,), inside="plots")


def write(folder: RunFolder, plan: Plan, document: SystemDocument) -> Path | None:
    """Writes everything and returns the report's path."""
    folder.write_json(SUMMARY, as_json(plan))
    folder.write_json("environment.json", describe())
    folder.write_text("system.toml", document.text)
    rows = (
        [{"parameter": sweep.parameter} | {name: as_json(value) for name, value in vars(point).items()}]
        for sweep in plan.sweeps
        for point in sweep.points
    )
    folder.write_table("sweeps.parquet", list(chain.from_iterable(rows)))
    write_images(folder, [*sweeps(plan), *costs(plan)])
    folder.write_text(REPORT, page(plan, document))
    return folder.written(REPORT)
