"""The plots of a plan: the metric against each swept parameter, and the Pareto front of cost against the metric."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sojourn.planning.answers import CheapestMix, Plan, Sweep, SweepPoint
from sojourn.planning.parameters import Kind, Parameter
from sojourn.report.chart import Axis, Chart, Guide, Point, Series
from sojourn.report.scales import Scale, linear, logarithmic
from sojourn.text import format

DECADE = 3.0
"""Values that span at least this factor are drawn on a logarithmic scale."""


def sweeps(plan: Plan) -> Iterator[Chart]:
    """The metric against each swept parameter."""
    for sweep in plan.sweeps:
        if any(math.isfinite(point.seconds) for point in sweep.points):
            yield _swept(plan, sweep)


def costs(plan: Plan) -> Iterator[Chart]:
    """Cost against the metric for the priced mixes; empty without prices."""
    if plan.mix is not None and plan.mix.front:
        yield _front(plan, plan.mix)


def _swept(plan: Plan, sweep: Sweep) -> Chart:
    swept = Parameter(sweep.parameter, _kind(sweep), sweep.unit, sweep.present)
    statistic = plan.metric.split(" ")[0]
    curves = [
        Series(
            plan.metric, 1, [_point(swept, point, point.seconds, statistic) for point in sweep.points], "disc", "solid"
        )
    ]
    if statistic != "mean":
        means = [_point(swept, point, point.mean_seconds, "mean") for point in sweep.points]
        curves.append(Series("mean response time of all classes", 2, means, "square", "dashed"))
    times = [bound for each in curves for point in each.points if point for bound in point.extent]
    values = [point.value for point in sweep.points]
    guides = [Guide("y", plan.limit_seconds, f"target: {format.seconds(plan.limit_seconds)}")]
    if min(values) <= sweep.present <= max(values):
        guides.append(Guide("x", sweep.present, "now"))
    by = " and ".join(sorted({point.by for point in sweep.points if math.isfinite(point.seconds)}))
    overloaded = sum(not math.isfinite(point.seconds) for point in sweep.points)
    caption = f"Everything else unchanged. By {by}."
    if overloaded:
        caption += f" {overloaded} of {len(sweep.points)} values are not drawn: a station would be overloaded."
    return Chart(
        f"plot-{sweep.parameter.replace('.', '-')}",
        f"{_capital(statistic)} against {sweep.label}",
        caption,
        Axis(_label(swept), _scale(swept, values), swept.text if sweep.kind != "quantity" else format.number),
        Axis(
            "response time" if statistic != "mean residence" else plan.metric,
            _times([*times, plan.limit_seconds]),
            format.seconds,
        ),
        curves,
        guides=guides,
    )


def _kind(sweep: Sweep) -> Kind:
    kinds: tuple[Kind, ...] = ("quantity", "count", "factor", "fraction")
    return next(kind for kind in kinds if kind == sweep.kind)


def _point(swept: Parameter, point: SweepPoint, seconds: float, name: str) -> Point | None:
    if not math.isfinite(seconds):
        return None
    text = f"{format.seconds(seconds)} with {swept.text(point.value)}"
    return Point(point.value, seconds, text)


def _label(swept: Parameter) -> str:
    match swept.kind:
        case "quantity":
            return f"{swept.label} ({swept.unit})"
        case "factor":
            return f"{swept.label} (factor)"
        case _:
            return swept.label


def _scale(swept: Parameter, values: list[float]) -> Scale:
    low, high = min(values), max(values)
    if swept.kind != "fraction" and low > 0 and high / low > DECADE:
        return logarithmic(values)
    return linear(values, low=low)


def _times(seconds: list[float]) -> Scale:
    # A logarithmic scale of less than a decade has few round values.
    return logarithmic(seconds) if max(seconds) / min(seconds) > DECADE else linear(seconds)


def _front(plan: Plan, mix: CheapestMix) -> Chart:
    points = [
        Point(each.cost, each.seconds, f"{format.seconds(each.seconds)} for {format.number(each.cost, 4)}: {each.text}")
        for each in mix.front
    ]
    curves = [Series("no mix is both cheaper and faster", 1, points, "disc", "solid", stepped=True)]
    if mix.cheapest is not None and mix.confirmed_seconds is not None:
        text = f"{format.seconds(mix.confirmed_seconds)} for {format.number(mix.cheapest.cost, 4)}: {mix.cheapest.text}"
        curves.append(
            Series(
                "the cheapest within the target", 3, [Point(mix.cheapest.cost, mix.confirmed_seconds, text)], "diamond"
            )
        )
    costs = [point.x for each in curves for point in each.points if point]
    times = [point.y for each in curves for point in each.points if point]
    prices = ", ".join(f"{path} at {price}" for path, price in mix.priced.items())
    guides = [Guide("y", plan.limit_seconds, f"target: {format.seconds(plan.limit_seconds)}")]
    if min(costs) <= mix.present_cost <= max(costs):
        guides.append(Guide("x", mix.present_cost, "as it is"))
    return Chart(
        "plot-cost",
        f"{_capital(plan.metric.split(' ')[0])} against cost",
        f"The front of {mix.evaluated:,} mixes of {prices}.",
        Axis("cost", logarithmic(costs), format.number),
        Axis(plan.metric, _times([*times, plan.limit_seconds]), format.seconds),
        curves,
        guides=guides,
        shape="wide",
    )


def _capital(text: str) -> str:
    return text if text[1:2].isdigit() else text.capitalize()
