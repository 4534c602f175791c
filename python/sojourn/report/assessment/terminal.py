"""Prints an assessment's answer in at most a screenful, and the characteristics of a log.

It uses the same sentences as the report, and is readable without colour and at 80 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sojourn.assessment.summary import Answer, Prediction, PredictionError, Step, Summary
from sojourn.report.assessment import log_tables, wording
from sojourn.report.assessment.verification import print_verification
from sojourn.report.terminal import print_pairs
from sojourn.text import format
from sojourn.workload.characteristics import Characteristics, LoggedTimes, LogImport

STEPS_SHOWN_MAX = 8
"""The most steps shown, so that the answer stays on the screen; the highest loads are nearest to the knee."""
TIMES_SHOWN_MAX = 12
"""The most paths shown, by total time; the JSON has more."""

Solver = tuple[str, Callable[[Step], Prediction | None], Callable[[Step], PredictionError | None]]


def print_summary(summary: Summary, console: Console) -> None:
    """The answer of an assessment in at most 25 lines."""
    if not summary.complete:
        because = summary.incomplete_because or "the reason was not recorded"
        console.print(Text(f"INCOMPLETE: {because}", style="bold red"))
    if summary.answer is None:
        console.print(Text("No answer", style="bold"))
        console.print(Text(wording.no_answer(summary)))
    else:
        _print_answer(summary.answer, summary, console)
    if summary.steps:
        _print_steps(summary.steps, console)
    if summary.verification is not None:
        print_verification(summary.verification, console)
    withheld = [wording.withheld(each) for each in summary.answer.withheld] if summary.answer else []
    for warning in [*summary.warnings, *withheld]:
        console.print(Text(f"warning: {warning}", style="yellow"))


def print_trace(
    log: str, imported: Mapping[str, object], characteristics: Mapping[str, object], console: Console
) -> None:
    """Prints a log's import, then its figures."""
    console.print(Text(log, style="bold"))
    facts, figures = LogImport(imported), Characteristics(characteristics)
    # Without a kept request, as in a log of dynamic requests only, there are no figures.
    kept = log_tables.figures(figures) if figures.figure("requests") else []
    print_pairs([*log_tables.import_figures(facts), *kept], console)
    _print_times(figures.request_times(), console)
    for warning in facts.warnings():
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    for line, message, text in facts.malformed_examples():
        console.print(Text(f"line {line}: {message}: {text}", style="dim"), soft_wrap=True)


def _print_times(times: list[LoggedTimes], console: Console) -> None:
    """Prints logged request durations, including those of dynamic requests."""
    if not times:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("response time in the log", overflow="fold")
    for heading in ("requests", "mean", "p50", "p95", "p99", "max"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in times[:TIMES_SHOWN_MAX]:
        seconds = (each.mean, each.p50, each.p95, each.p99, each.max)
        name = log_tables.shortened(each.name)
        table.add_row(Text(name), format.count(each.count), *(format.seconds(time) for time in seconds))
    console.print(table)
    if len(times) > TIMES_SHOWN_MAX:
        console.print(Text(f"further rows with --format json: {len(times) - TIMES_SHOWN_MAX}", style="dim"))


def _print_answer(answer: Answer, summary: Summary, console: Console) -> None:
    bound = "at least " if answer.is_lower_bound else ""
    rate = Text(f"{bound}{format.rate(answer.largest_rate_requests_per_second)}", style="bold")
    console.print(rate.append(f" {wording.target(summary.settings)}", style="not bold"))
    because = wording.lower_bound(summary)
    if because:
        console.print(Text(f"LOWER BOUND: {because}", style="bold yellow"))
    doubling = [
        f"{each.resource} {format.rate(each.requests_per_second)} ({wording.gain(each.gain_fraction)})"
        for each in answer.doubling
    ]
    rows = [
        ("capacity", wording.interval(answer)),
        ("bottleneck", f"{wording.bottleneck(answer)}: {answer.bottleneck_because}"),
        ("next", answer.next_bottleneck or "not measured"),
        ("headroom", wording.headroom(answer)),
        ("covers", wording.covers(answer)),
        ("doubled", "\n".join(doubling) or "not measured"),
    ]
    logged = wording.logged_times(summary)
    if logged is not None:
        rows.append(("response", logged))
    print_pairs(rows, console)


def _print_steps(steps: list[Step], console: Console) -> None:
    shown = steps[-STEPS_SHOWN_MAX:]
    name, said, error = _solver(steps)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("offered", "answered", "p95 TTFB", "mean R", name, "error", "server CPU"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for step in shown:
        prediction, wrong = said(step), error(step)
        cpu = step.server_cpu_fraction
        table.add_row(
            format.number(step.offered_requests_per_second, 4),
            format.number(step.requests_per_second.median, 4),
            format.seconds(step.time_to_first_byte_p95_seconds.median),
            format.seconds(step.mean_for_model),
            format.seconds(prediction.response_time_mean_seconds if prediction else None),
            format.error(wrong.response_time_mean if wrong else None),
            format.percent(cpu.median if cpu else None),
            " ".join(wording.step_marks(step)),
        )
    console.print(table)
    legend = [each for each in [wording.step_marks_legend(shown), wording.windows(steps)] if each]
    if len(shown) < len(steps):
        legend.append(f"lower steps in the report: {len(steps) - len(shown)}")
    if legend:
        console.print(Text(", ".join(legend), style="dim"))


def _solver(steps: Iterable[Step]) -> Solver:
    # The simulation uses the log's own arrivals; without it the closed form is shown.
    if any(step.simulation for step in steps):
        return "simulated", lambda step: step.simulation, lambda step: step.simulation_error
    return "predicted", lambda step: step.closed_form, lambda step: step.closed_form_error
