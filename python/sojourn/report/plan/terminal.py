"""Prints plans on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sojourn.planning.answers import Mix, Plan
from sojourn.report.plan import wording
from sojourn.report.terminal import print_pairs, table
from sojourn.text import format


def print_plan(plan: Plan, console: Console) -> None:
    """Prints the verdict, the changes that meet the target, the gain from doubling, and the other requested answers."""
    console.print(Text(f"{plan.system}: {plan.target}", style="bold"))
    for setting in plan.settings:
        console.print(Text(f"with {setting}", style="dim"))
    first = f"{plan.bottleneck}, at {format.number(plan.saturation_throughput_per_second)} jobs/s"
    rows = [
        ("now", wording.verdict(plan)),
        ("floor", wording.floor(plan)),
        ("bottleneck", first if plan.bottleneck else "none: no station is limited by itself"),
        ("next", plan.next_bottleneck or "no other station is limited"),
        ("largest traffic", wording.largest_traffic(plan.largest_traffic)),
    ]
    print_pairs(rows, console)
    _print_levers(plan, console)
    _print_doubling(plan, console)
    if plan.mix is not None:
        _print_mix(plan, console)
    if plan.growth is not None:
        print_pairs(wording.growth(plan.growth), console)
    console.print(Text("never validated", style="bold"))
    for each in plan.never_validated:
        console.print(Text(f"  {each}"))
    console.print(Text(wording.methods(plan), style="dim"))


def _print_levers(plan: Plan, console: Console) -> None:
    shown = table("any one of these", "now", "needed", plan.metric.split(" ")[0], "searched with")
    shown.columns[2].justify = "left"
    for lever in plan.levers:
        value = wording.with_interval(lever.confirmed_seconds, lever.half_width_seconds) if lever.needed else ""
        shown.add_row(Text(lever.label), lever.present_text, wording.needed(lever), value, lever.searched_by)
    console.print(shown)


def _print_doubling(plan: Plan, console: Console) -> None:
    shown = table("twice as much", plan.metric.split(" ")[0], "change", "largest traffic", "saturates at", "where")
    for each in plan.doubling:
        shown.add_row(
            Text(each.label),
            wording.with_interval(each.seconds, None),
            wording.change(each),
            wording.doubled_traffic(each),
            f"{format.number(each.saturation_throughput_per_second)}/s",
            each.bottleneck or "",
        )
    console.print(shown)
    for said in plan.not_doubled:
        console.print(Text(f"not doubled: {said}", style="dim"), soft_wrap=True)


def _print_mix(plan: Plan, console: Console) -> None:
    assert plan.mix is not None
    shown = table("cost", plan.metric.split(" ")[0], "mix")
    shown.columns[2].justify = "left"
    for mix in _spread(plan):
        shown.add_row(format.number(mix.cost, 4), format.seconds(mix.seconds), mix.text)
    console.print(shown)
    present = format.number(plan.mix.present_cost, 4)
    print_pairs([("cheapest", wording.cheapest(plan.mix)), ("as it is", f"costs {present}")], console)


FRONT_SHOWN_MAX = 8
"""The most mixes shown; the report has the whole front."""


def _spread(plan: Plan) -> list[Mix]:
    """Some mixes across the front, without overloaded ones."""
    assert plan.mix is not None
    front = plan.mix.front
    if len(front) <= FRONT_SHOWN_MAX:
        return front
    return [front[round(index * (len(front) - 1) / (FRONT_SHOWN_MAX - 1))] for index in range(FRONT_SHOWN_MAX)]
