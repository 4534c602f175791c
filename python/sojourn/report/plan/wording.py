"""Sentences of a plan that the terminal and the report share."""

from __future__ import annotations

import math

from sojourn.planning.answers import CheapestMix, Doubling, Growth, LargestTraffic, LeverAnswer, Plan
from sojourn.text import format


def with_interval(seconds: float | None, half_width: float | None) -> str:
    """A time with its 95 % half-width; overload if there is none, or if more is refused than allowed."""
    if seconds is None or not math.isfinite(seconds):
        return "overloaded"
    return format.seconds(seconds) + (f" ± {format.seconds(half_width)}" if half_width else "")


def verdict(plan: Plan) -> str:
    """Says whether the system meets the target as it is."""
    if plan.now.unstable_station is not None:
        return f"not met: {plan.now.unstable_station} is overloaded"
    value = with_interval(plan.now.confirmed_seconds, plan.now.half_width_seconds)
    lost = "" if plan.loss_max is None else f", {format.percent(plan.now.loss_probability)} rejected"
    return f"{'met' if plan.now.met else 'not met'}: {value}{lost}"


def floor(plan: Plan) -> str:
    """The part of the response time that no limited station's speed reduces."""
    if plan.floor_seconds == 0:
        return "none: nothing remains if the stations are fast enough"
    seconds = format.seconds(plan.floor_seconds)
    if plan.reachable:
        return f"{seconds} remain however fast the stations are, because of {plan.floor_because}"
    return (
        f"impossible by faster stations: {seconds} remain however fast they are, because of {plan.floor_because}; "
        f"the best reachable value is {seconds}, the target {format.seconds(plan.limit_seconds)}"
    )


def needed(lever: LeverAnswer) -> str:
    """The value of a parameter that meets the target."""
    if lever.needed_text is not None:
        return lever.needed_text
    if not math.isfinite(lever.confirmed_seconds):
        return "not enough: still overloaded"
    return f"not enough: {format.seconds(lever.confirmed_seconds)} at best, with {lever.best_text}"


def largest_traffic(traffic: LargestTraffic) -> str:
    """The largest traffic within the target."""
    if traffic.factor is None:
        return f"none: {with_interval(traffic.confirmed_seconds, None)} even with hardly any traffic"
    rate = format.number(traffic.throughput_per_second)
    lost = f" served, {format.percent(traffic.loss_probability)} rejected" if traffic.loss_probability else ""
    return f"{format.factor(traffic.factor)} of this load, {rate} jobs/s{lost}"


def doubled_traffic(doubling: Doubling) -> str:
    """The largest traffic with twice as much of one resource."""
    factor = doubling.largest_traffic_factor
    return "none" if factor is None else format.factor(factor)


def change(doubling: Doubling) -> str:
    """The change of the metric, relative to now."""
    if not math.isfinite(doubling.seconds):
        return "still overloaded"
    return "" if math.isnan(doubling.change_fraction) else format.error(doubling.change_fraction)


def growth(answer: Growth) -> list[tuple[str, str]]:
    """The dates on which the target is missed and a station saturates."""
    rate = f"+{format.percent(answer.fraction_per_year)}/year from {answer.start}"
    rows = [("target missed on", _day(answer, answer.target_missed_on, answer.traffic_factor_at_target))]
    if answer.saturated_station is not None:
        date = _day(answer, answer.saturated_on, answer.traffic_factor_at_saturation)
        rows.append((f"{answer.saturated_station} saturated on", date))
    return [("growth", rate), *rows]


def cheapest(mix: CheapestMix) -> str:
    """The cheapest mix within the target, or a statement that there is none."""
    if mix.cheapest is None:
        return f"none of the {mix.evaluated:,} mixes meets the target"
    value = with_interval(mix.confirmed_seconds, mix.half_width_seconds)
    return f"{format.number(mix.cheapest.cost, 4)} for {mix.cheapest.text}: {value} ({mix.confirmed_by})"


def methods(plan: Plan) -> str:
    """The solvers and simulations that computed the figures."""
    by = ", ".join(sorted({lever.searched_by for lever in plan.levers}))
    confirmed = {plan.now.confirmed_by, plan.largest_traffic.confirmed_by, *(each.confirmed_by for each in plan.levers)}
    if "simulation" not in confirmed:
        return f"Searched with {by}, which is exact for this target."
    some = "every value needed" if len(confirmed) == 1 else "what no solver computes exactly"
    return (
        f"Searched with {by}; {some} is confirmed by simulation of a million jobs with other random numbers "
        f"(seed {plan.seed}; {plan.simulations:,} simulations in all)."
    )


def _day(answer: Growth, date: str | None, factor: float | None) -> str:
    if factor is None:
        return "always: it is missed under any traffic"
    if date is None:
        return "not within 200 years"
    return f"{'already' if date == answer.start else date}, at {format.factor(factor)} of this traffic"
