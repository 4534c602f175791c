"""The answer of an application's assessment, in at most a screenful."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sojourn.applications import baseline
from sojourn.applications.climb import idle_in_words
from sojourn.applications.diagnosis import in_words
from sojourn.applications.summary import ERRORS_MAX, ApplicationSummary, Model
from sojourn.applications.verdicts import objective_in_words, rates
from sojourn.applications.verification.execution import in_words as verified_in_words
from sojourn.results.records import Interval
from sojourn.text import format

MET = {True: "met", False: "missed", None: "not decided"}


def print_application(summary: ApplicationSummary, console: Console) -> None:
    """Prints the answer (capacity, bottleneck, effect of changes), then the cost of each endpoint."""
    if not summary.complete:
        console.print(Text(f"INCOMPLETE: {summary.incomplete_because}", style="bold red"))
    for line in sentences(summary):
        console.print(Text(line), soft_wrap=True)
    for objective in summary.objectives:
        style = {True: "green", False: "bold red", None: "yellow"}[objective.holds]
        console.print(Text(objective_in_words(objective, summary), style=style), soft_wrap=True)
    others = [each for each in summary.verdicts if each.passed is False and each.name == "abandoned requests"]
    for verdict in others:
        console.print(Text(f"FAILS  {verdict.because}", style="bold red"), soft_wrap=True)
    for change in summary.comparison.changes if summary.comparison is not None else ():
        console.print(Text(baseline.in_words(change), style="bold red" if change.fell else ""), soft_wrap=True)
    if summary.demands:
        console.print()
        console.print(demand_table(summary))
        if not all(each.identifiable for each in summary.demands):
            console.print(
                "?: not identifiable: it cannot be told from others, from zero, or from what the tier uses when idle",
                highlight=False,
            )
    for warning in summary.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def sentences(summary: ApplicationSummary) -> list[str]:
    """The answer in full sentences."""
    of = (
        f"the flows of {summary.scenario_name}"
        if summary.scenario_name is not None
        else f"{format.percent(summary.covered_fraction)} of the requests of {summary.log_name}"
    )
    users = f", by {summary.login.users} users who are logged in" if summary.login is not None else ""
    visits = f", in {summary.sessions} of its sessions" if summary.sessions is not None else ""
    said = [f"{summary.target}, loaded with {of} ({len(summary.endpoints)} endpoints){visits}{users}"]
    if summary.knee is not None:
        bound = "at least " if summary.knee.is_lower_bound else ""
        said.append(f"capacity:   {bound}{rates(summary.knee.requests_per_second)} requests/s of this mix")
        if summary.knee.users is not None:
            said.append(
                f"            as many as {bound}{_people(summary.knee.users)} users make with their think times"
            )
        if summary.peak_requests_per_second is not None:
            said.append(f"            the log's busiest minute: {format.rate(summary.peak_requests_per_second)}")
    if summary.bottleneck is not None:
        said.append(f"bottleneck: {in_words(summary.bottleneck)}")
    if summary.next_bottleneck is not None:
        said.append(f"next:       {in_words(summary.next_bottleneck)}")
    idle = idle_in_words(summary.tiers)
    if idle:
        said.append(f"idle:       without a load, of a core: {idle}")
    for change in summary.changes:
        cost = f", for {change.cost}" if change.cost is not None else ""
        said.append(f"change:     {change.what}: {rates(change.capacity)} requests/s (x{change.factor:.2f}){cost}")
    said += [f"verified:   {each.what}: {verified_in_words(each)}" for each in summary.verification]
    if summary.model is not None and summary.model.errors:
        said += _errors_in_words(summary.model)
    return said


def _errors_in_words(model: Model) -> list[str]:
    loads = len({each.offered_requests_per_second for each in model.held_out})
    off = ", ".join(f"{what} {error:.0%}" for what, error in model.errors.items())
    said = [f"model:      off by {off}: medians over endpoints at {loads} loads that it did not see"]
    own = [
        f"{what} {part.low:.0%} to {part.high:.0%} (aim {ERRORS_MAX[what]:.0%}: {MET[model.meets(what)]})"
        for what, part in model.errors_beyond_chance.items()
    ]
    if own:
        said.append(f"            beyond chance: {', '.join(own)}")
    return said


def demand_table(summary: ApplicationSummary) -> Table:
    """CPU time by endpoint and tier, in milliseconds."""
    tiers = list(dict.fromkeys(each.tier for each in summary.demands))
    table = Table(box=None, pad_edge=False)
    table.add_column("CPU ms per request", overflow="fold")
    for tier in tiers:
        table.add_column(tier, justify="right", no_wrap=True)
    by_both = {(each.endpoint, each.tier): each for each in summary.demands}
    for endpoint in summary.endpoints:
        cells = []
        for tier in tiers:
            demand = by_both.get((endpoint.name, tier))
            if demand is None:
                cells.append("")
            elif not demand.identifiable:
                cells.append(f"? (≤ {_milliseconds(demand.seconds.high)})")
            else:
                low, high = _milliseconds(demand.seconds.low), _milliseconds(demand.seconds.high)
                cells.append(f"{_milliseconds(demand.seconds.estimate)} ({low}–{high})")
        table.add_row(endpoint.name, *cells)
    return table


def _people(interval: Interval) -> str:
    """A number of users with its interval."""
    if interval.low == interval.high:
        return format.count(interval.estimate)
    return f"{format.count(interval.estimate)} ({format.count(interval.low)} to {format.count(interval.high)})"


def _milliseconds(seconds: float) -> str:
    return format.number(seconds * 1e3, 2)
