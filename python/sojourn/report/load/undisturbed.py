"""Each step's figures twice: over all windows, and over those in which no other program took a core."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sojourn.engine.results import Summary, Unavailable, Undisturbed
from sojourn.loading.folder import LoadRun
from sojourn.loading.result import LoadResult
from sojourn.loading.steps import StepResult, steps_of
from sojourn.report.markup import Markup
from sojourn.report.tables import absent, grid
from sojourn.report.terminal import table
from sojourn.text import format

TITLE = "All windows, and undisturbed ones"
_HEAD = ("requests/s", "mean", "p50", "p90", "p95", "p99", "p99.9")


def undisturbed(run: LoadRun) -> Markup | None:
    """The table of the page, or the reason for its absence."""
    found = steps_of(run.result)
    if not found:
        return None
    because = _unavailable_because(found)
    if because is not None:
        return absent("table-undisturbed", TITLE, f"the undisturbed windows: {because}")
    rows = [
        (_name(step, found), *row, lost) for step in found for row, lost in zip(_twice(step), _lost(step), strict=True)
    ]
    note = (
        "Response times from the intended start. Windows of 0.1 s are undisturbed if neither core lost more than"
        f" {_limit(found)} to others, in them and in the 0.1 s before. Lost: by the server's and the generator's core."
    )
    return grid("table-undisturbed", TITLE, [("Step", "Windows", *_HEAD, "Lost")], rows, note)


def print_undisturbed(result: LoadResult, console: Console) -> None:
    """Prints the figures; nothing if the server was not observed or several machines generated the load."""
    found = steps_of(result)
    if not found:
        return
    because = _unavailable_because(found)
    if because is not None:
        if result.of_requests.machines or any(step.of_requests.server for step in found):
            console.print(Text(f"undisturbed windows: not known: {because}", style="dim"), soft_wrap=True)
        return
    rows = table("windows", *_HEAD)
    for step in found:
        for over, *figures in _twice(step):
            rows.add_row(over if len(found) == 1 else f"{step.number}: {over}", *figures)
    console.print(rows)


def _unavailable_because(steps: list[StepResult]) -> str | None:
    """The reason why no step has them; otherwise each row gives its own."""
    reasons = [each.unavailable for step in steps if isinstance(each := step.of_requests.undisturbed, Unavailable)]
    return reasons[0] if len(reasons) == len(steps) else None


def _name(step: StepResult, steps: list[StepResult]) -> str:
    return step.offered if len(steps) == 1 else f"{step.number}: {step.offered}"


def _twice(step: StepResult) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The windows and figures: over all, then over the undisturbed ones."""
    record = step.of_requests
    figures = _figures(record.requests_per_second, record.response_time_seconds)
    over = record.undisturbed
    if isinstance(over, Unavailable):
        return ("all", *figures), (f"undisturbed: {over.unavailable}", *[format.NOT_MEASURED] * len(_HEAD))
    # Windows without a response have no meaningful rate.
    rate = over.requests_per_second if over.requests else None
    return (
        (f"all {over.windows_total:,}", *figures),
        (f"{over.windows:,} undisturbed", *_figures(rate, over.response_time_seconds)),
    )


def _figures(rate: float | None, times: Summary) -> tuple[str, ...]:
    seconds = (times.mean, times.p50, times.p90, times.p95, times.p99, times.p999)
    return (format.number(rate, 4), *map(format.seconds, seconds))


def _lost(step: StepResult) -> tuple[str, str]:
    """The time that both cores lost over all windows."""
    over = step.of_requests.undisturbed
    if isinstance(over, Unavailable):
        return "", ""
    cores = (over.server_core, over.generator_core)
    return ", ".join(
        format.NOT_MEASURED if isinstance(core, Unavailable) else format.percent(core.lost_fraction) for core in cores
    ), ""


def _limit(steps: list[StepResult]) -> str:
    known = [each for step in steps if isinstance(each := step.of_requests.undisturbed, Undisturbed)]
    return format.seconds(max(each.lost_max_seconds for each in known))
