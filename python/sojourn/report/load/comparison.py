"""Prints a comparison of load runs, and the figures of one group of repetitions."""

from __future__ import annotations

import math

from rich.console import Console
from rich.text import Text

from sojourn.loading import metrics
from sojourn.loading.comparison import METRICS, Comparison, Difference, Group, regressions
from sojourn.report.terminal import table
from sojourn.text import format

_STYLES = {"better": "green", "worse": "bold red"}


def print_comparison(comparison: Comparison, limit: float | None, console: Console) -> None:
    """Prints every metric with its verdict, then regressions beyond the limit."""
    for because in comparison.void_because:
        console.print(Text(f"NO VERDICT: {because}", style="bold red"), soft_wrap=True)
    rows = table("metric", "first", "second", "ratio")
    rows.add_column("verdict at 95 %")
    for each in comparison.differences:
        verdict = "void" if comparison.void_because else str(each)
        write = each.metric.write
        ratio = "–" if each.ratio != each.ratio else f"{each.ratio:.3f}"
        shown = Text(verdict, style=_STYLES.get(each.finding, ""))
        rows.add_row(Text(each.metric.name), write(each.first), write(each.second), ratio, shown)
    console.print(rows)
    if limit is not None and not comparison.void_because:
        for line in _said_of_regressions(comparison, limit):
            console.print(Text(line), soft_wrap=True)
    for warning in comparison.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def print_repetitions(group: Group, console: Console) -> None:
    """Prints every metric over the runs: the geometric mean with its interval, and the spread of single runs."""
    rows = table("metric", "mean of runs", "95 % interval", "a run deviates by")
    for name in METRICS:
        metric = metrics.find(name)
        value, spread = group.value(metric), group.between(metric)
        if math.isnan(value):
            continue
        found = group.interval(metric)
        bounds = "–" if found is None else f"{metric.write(found[0])} to {metric.write(found[1])}"
        deviation = "–" if spread is None else format.percent(math.expm1(math.sqrt(spread.variance)))
        rows.add_row(Text(name), metric.write(value), bounds, deviation)
    console.print(rows)


def _said_of_regressions(comparison: Comparison, limit: float) -> list[str]:
    by_kind: dict[str, list[Difference]] = {}
    for each, regression in zip(comparison.differences, regressions(comparison.differences, limit), strict=True):
        by_kind.setdefault(regression, []).append(each)

    def named(kind: str) -> str:
        return ", ".join(each.metric.name for each in by_kind.get(kind, []))

    beyond = f"worse by more than {format.percent(limit)}"
    lines = []
    if "shown" in by_kind:
        lines.append(f"shown to be {beyond}: {named('shown')}")
    if "excluded" in by_kind:
        lines.append(f"not {beyond}: {named('excluded')}")
    if "open" in by_kind:
        lines.append(f"cannot say whether {beyond}: {named('open')}")
        needed = [(comparison.repetitions_for(each, limit), each.metric.name) for each in by_kind["open"]]
        known = [f"{name} {count}" for count, name in needed if count is not None]
        if known:
            lines.append(f"alternate runs of each that would show it, as runs differ here: {', '.join(known)}")
    return lines
