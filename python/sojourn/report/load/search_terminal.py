"""A search on the terminal: a line per run, then what was found and on what evidence."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sojourn.loading import metrics
from sojourn.loading.load_search import LoadSearch
from sojourn.loading.search import Found, Trial
from sojourn.report.load.terminal import print_saturation
from sojourn.report.terminal import table
from sojourn.text import format

_ENDINGS = {
    "out of time": "the time was over before the interval was as narrow as wanted",
    "interrupted": "interrupted; this is what was known by then",
}


def said(trial: Trial, found: Found, unit: str) -> Text:
    """One run, and what is known after it."""
    values = ", ".join(f"{name} {metrics.find(name).write(value)}" for name, value in trial.values.items())
    verdict, style = (
        ("void", "yellow") if trial.void_because else ("pass", "green") if trial.passed else ("fail", "red")
    )
    known = f"   capacity {_between(found)}" if found.capacity is not None else ""
    line = Text(f"{len(found.trials):3}  {format.number(trial.load, 4):>8} {unit}  ")
    return line.append(verdict, style=style).append(f"  {values}{known}", style="dim")


def print_found(found: Found, search: LoadSearch, console: Console) -> None:
    """The answer, then the runs by load."""
    conditions = " and ".join(str(each) for each in search.thresholds)
    console.print(Text(f"largest load with {conditions}", style="dim"), soft_wrap=True)
    console.print(Text(answer(found, search.unit), style="bold"), soft_wrap=True)
    if found.ending in _ENDINGS:
        console.print(Text(_ENDINGS[found.ending], style="yellow"))
    rows = table(search.unit, "runs", "passed", "share, monotone")
    for load, runs, passed, share in found.pass_fractions:
        rows.add_row(format.number(load, 4), str(runs), str(passed), format.percent(share))
    console.print(rows)
    print_saturation(search.as_json(found), console)
    void = [trial for trial in found.trials if trial.void_because]
    if void:
        text = f"{len(void)} runs are void: the generator was the limit: {void[-1].void_because}"
        console.print(Text(text, style="yellow"), soft_wrap=True)


def answer(found: Found, unit: str) -> str:
    """What was found, in one sentence that claims no more than it may."""
    if found.capacity is not None:
        return f"{format.number(found.capacity, 4)} {unit} ({_between(found)}, 95 %)"
    at_least = None if found.low is None else f"at least {format.number(found.low, 4)} {unit}"
    if found.ending == "generator":
        return f"{at_least or 'nothing passed'}: the generator gives first, the server's limit is not known"
    if found.ending == "never passed":
        return "no load passed: even the smallest that was tried failed"
    return f"{at_least or 'nothing passed yet'}: no load failed, so the limit was not met"


def _between(found: Found) -> str:
    return f"{format.number(found.low, 4)} to {format.number(found.high, 4)}"
