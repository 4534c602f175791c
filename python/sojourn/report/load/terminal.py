"""A load run on the terminal: what was answered, how fast, how sure, and whether to believe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from sojourn.loading import metrics
from sojourn.loading.result import LoadResult
from sojourn.loading.steps import StepResult, steps_of
from sojourn.loading.threshold import Verdict
from sojourn.report.load.streams_terminal import print_streams
from sojourn.report.terminal import print_pairs, table
from sojourn.text import format

LATENCIES = (
    ("response time", "response_time_seconds"),
    ("  from when it was sent", "response_time_sent_seconds"),
    ("time to first byte", "time_to_first_byte_seconds"),
    ("  from when it was due", "time_to_first_byte_intended_seconds"),
    ("transfer", "transfer_time_seconds"),
    ("connect", "connect_time_seconds"),
    ("TLS handshake", "handshake_time_seconds"),
    ("generator's lateness", "send_lag_seconds"),
)
"""Rows of the table of latencies, by the result's keys; those that a result does not hold are left out."""
_WITH_INTERVAL = ("rps", "p50", "p99")
SERVER_METRICS = {
    "server.cpu_per_request": " of CPU per request",
    "server.cpu_user_per_request": " in user code",
    "server.cpu_system_per_request": " in the kernel",
}
"""What a request costs, and what is said after each figure."""
WEBSTONE = {
    "server_connection_rate_per_second": "server connection rate, 1/s",
    "server_error_rate_per_second": "server error rate, 1/s",
    "error_level_percent": "error level, %",
    "server_throughput_mebibit_per_second": "server thruput, Mbit/s (1024²)",
    "littles_load_factor": "Little's load factor",
    "average_response_time_ms": "average response time, ms",
    "average_client_throughput_mebibit_per_second": "average client thruput, Mbit/s (1024²)",
}
"""WebStone's figures by our keys, in its own words."""
STEP_METRICS = ("rps", "p50", "p99")
"""Columns of the table of steps."""


def print_result(result: LoadResult, console: Console) -> None:
    """The run in a screenful."""
    record = result.record
    print_marks(result, console)
    if result.is_streams:
        print_streams(result, console)
        print_saturation(record, console)
        return
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
    _print_webstone(result, console)
    _print_steps(result, console)
    _print_intervals(result, console)
    _print_server(result, console)
    print_saturation(result.record, console)
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


def _print_webstone(result: LoadResult, console: Console) -> None:
    found = result.record.get("webstone")
    if found:
        console.print(Text("by WebStone's definitions"))
        print_pairs([(said, format.number(found[key], 4)) for key, said in WEBSTONE.items()], console)


def _print_steps(result: LoadResult, console: Console) -> None:
    """Where there are several: each with its intervals, or why it has none."""
    steps = steps_of(result)
    if len(steps) < 2:
        return
    rows = table("step", "offered", *STEP_METRICS, "failed")
    rows.add_column("")
    for step in steps:
        figures = [between(name, step) for name in STEP_METRICS]
        failed = format.count(step.record["errors"])
        rows.add_row(str(step.number), step.offered, *figures, failed, Text(marks(step), style="dim"))
    console.print(rows)
    console.print(Text("± is half of the 95 % interval", style="dim"))


def between(name: str, step: StepResult) -> str:
    """A step's figure with half the width of its 95 % interval, where it has one."""
    metric = metrics.find(name)
    found = step.estimate(metric)
    if found.low is None or found.high is None:
        return metric.write(found.value)
    return f"{metric.write(found.value)} ± {format.percent((found.high - found.low) / 2 / found.value)}"


def marks(step: StepResult) -> str:
    """What has to be known of a step before its figures are used."""
    said = [step.no_interval_because]
    said += ["the generator was the limit" if step.record["generator"]["limited"] else None]
    said += [None if step.record.get("steady", True) or step.record.get("ramp") else "not steady"]
    return "; ".join(each for each in said if each)


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


def _print_server(result: LoadResult, console: Console) -> None:
    """What a request cost a probed server, in user code and in the kernel."""
    if "probe" not in result.record:
        return
    found = [
        f"{metrics.find(name).write(metrics.find(name).of_run(result))}{said}" for name, said in SERVER_METRICS.items()
    ]
    print_pairs([("server", ", ".join(found))], console)


def print_saturation(record: Mapping[str, Any], console: Console) -> None:
    """Where the time went, in one sentence."""
    if found := record.get("saturation"):
        console.print(Text(f"where the time goes: {found['sentence']}"), soft_wrap=True)


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
