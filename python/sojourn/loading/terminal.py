"""A load run on the terminal: what was answered, how fast, how sure, and whether to believe it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from sojourn.loading import metrics
from sojourn.loading.result import LoadResult
from sojourn.loading.threshold import Verdict
from sojourn.report import format
from sojourn.terminal import print_pairs, table

LATENCIES = (
    ("response time", "response_time_seconds"),
    ("  from when it was sent", "response_time_sent_seconds"),
    ("time to first byte", "time_to_first_byte_seconds"),
    ("  from when it was due", "time_to_first_byte_intended_seconds"),
    ("transfer", "transfer_time_seconds"),
    ("connect", "connect_time_seconds"),
    ("generator's lateness", "send_lag_seconds"),
)
"""Rows of the table of latencies, by the result's keys; those that a result does not hold are left out."""
_WITH_INTERVAL = ("rps", "p50", "p99")


def print_result(result: LoadResult, console: Console) -> None:
    """The run in a screenful."""
    record = result.record
    print_marks(result, console)
    console.print(Text(f"{record['url']}, {record['connection']}", style="dim"), soft_wrap=True)
    answered = (
        f"{format.rate(result.requests_per_second, 4)}, {format.bandwidth(8 * (record['bytes_per_second'] or 0))}"
    )
    counts = f"{result.requests:,} requests in {format.duration(record['duration_seconds'])}"
    failed = f"{result.errors:,} failed, {record['unfinished']:,} unfinished"
    console.print(Text(answered, style="bold"), Text(f"{counts}; {failed}"), highlight=False)
    for cause, count in record["errors_by_cause"].items():
        console.print(Text(f"  {count:,} {cause.replace('_', ' ')}", style="red"))
    times = table("", "mean", "p50", "p90", "p99", "p99.9", "max")
    for name, key in LATENCIES:
        summary = record.get(key)
        if isinstance(summary, dict) and summary["count"]:
            figures = (summary[each] for each in ("mean", "p50", "p90", "p99", "p999", "max"))
            times.add_row(Text(name), *map(format.seconds, figures))
    console.print(times)
    _print_intervals(result, console)
    _print_machines(result, console)
    for warning in record.get("warnings", ()):
        console.print(Text(f"warning: {warning}", style="yellow"))


def print_marks(result: LoadResult, console: Console) -> None:
    """What nobody may miss."""
    because = result.limited_because
    if because:
        text = f"THE GENERATOR WAS THE LIMIT, not the server: {because}. These are the generator's figures."
        console.print(Text(text, style="bold yellow"))
    if not result.complete:
        console.print(Text(f"NOT COMPLETE: {result.record['stopped_because']}", style="bold red"))


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """A line per threshold."""
    for verdict in verdicts:
        console.print(Text(str(verdict), style="green" if verdict.passed else "bold red"), soft_wrap=True)


def _print_intervals(result: LoadResult, console: Console) -> None:
    rows = []
    for name in _WITH_INTERVAL:
        metric = metrics.find(name)
        found = metric.estimate(result)
        if found.low is not None:
            said = f"{metric.write(found.value)} (95 %: {metric.write(found.low)} to {metric.write(found.high)})"
            rows.append((name, said))
    generator = result.record["generator"]
    rows.append(("generator", f"{format.percent(generator['cpu_fraction'])} of a core"))
    print_pairs(rows, console)


def _print_machines(result: LoadResult, console: Console) -> None:
    machines = result.record.get("machines")
    if not machines:
        return
    rows = table("machine", "share", "requests/s", "generator", "clock apart")
    rows.add_column("")
    for each in machines:
        figures = (
            format.percent(each["share"]),
            format.number(each["requests_per_second"], 4),
            format.percent(each["generator_cpu_fraction"]),
            format.seconds(each["clock_offset_seconds"]),
        )
        rows.add_row(Text(each["host"]), *figures, Text(each["failed_because"] or "", style="bold red"))
    console.print(rows)
