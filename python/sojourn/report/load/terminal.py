"""Prints a load run: answered requests, response times, confidence, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sojourn.engine.results import LoadRecord, Packets, Summary, Unavailable
from sojourn.loading import metrics, stream_metrics
from sojourn.loading.record import Saturation, SearchRecord
from sojourn.loading.result import LoadResult
from sojourn.loading.search import Found, Trial
from sojourn.loading.steps import StepResult, steps_of
from sojourn.loading.threshold import Verdict
from sojourn.report.load.undisturbed import print_undisturbed
from sojourn.report.terminal import print_pairs, table
from sojourn.text import format

LATENCIES: tuple[tuple[str, str, Callable[[LoadRecord], Summary]], ...] = (
    ("response time", "response time", lambda record: record.response_time_seconds),
    ("  since sent", "response time, from when it was sent", lambda record: record.response_time_sent_seconds),
    ("first byte", "time to first byte", lambda record: record.time_to_first_byte_seconds),
    (
        "  since due",
        "time to first byte, from when it was due",
        lambda record: record.time_to_first_byte_intended_seconds,
    ),
    ("transfer", "transfer", lambda record: record.transfer_time_seconds),
    ("connect", "connect", lambda record: record.connect_time_seconds),
    ("TLS handshake", "TLS handshake", lambda record: record.handshake_time_seconds),
    ("sent late by", "generator's lateness", lambda record: record.send_lag_seconds),
)
"""Rows of the latency table, short and full; rows without data are left out."""
PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9")
"""The percentiles shown in all tables."""
_WITH_INTERVAL = ("rps", *PERCENTILES)
SERVER_METRICS = {
    "server.cpu_per_request": " of CPU per request",
    "server.cpu_user_per_request": " in user code",
    "server.cpu_system_per_request": " in the kernel",
}
"""Costs of a request, with the text after each figure."""
WEBSTONE = {
    "server_connection_rate_per_second": "server connection rate, 1/s",
    "server_error_rate_per_second": "server error rate, 1/s",
    "error_level_percent": "error level, %",
    "server_throughput_mebibit_per_second": "server thruput, Mbit/s (1024²)",
    "littles_load_factor": "Little's load factor",
    "average_response_time_ms": "average response time, ms",
    "average_client_throughput_mebibit_per_second": "average client thruput, Mbit/s (1024²)",
}
"""WebStone's names for our keys."""
STEP_METRICS = ("rps", *PERCENTILES)
"""Columns of the step table."""


def print_result(result: LoadResult, console: Console) -> None:
    """Prints the run in at most a screenful."""
    print_marks(result, console)
    if result.is_streams:
        print_streams(result, console)
        _print_machines(result, console)
        print_saturation(result.record.saturation, console)
        return
    record = result.of_requests
    console.print(Text(f"{record.url}, {record.connection}", style="dim"), soft_wrap=True)
    console.print(Text(f"offered {offered(result)}"), soft_wrap=True)
    answered = (
        f"answered {format.rate(result.requests_per_second, 4)}, {format.bandwidth(8 * (record.bytes_per_second or 0))}"
    )
    counts = f"{result.requests:,} requests in {format.duration(record.duration_seconds)}"
    failed = f"{result.errors:,} failed, {record.unfinished:,} unfinished"
    console.print(Text(f"{answered}:", style="bold"), Text(f"{counts}; {failed}"), highlight=False)
    for cause, count in record.errors_by_cause.items():
        console.print(Text(f"  {count:,} {cause.replace('_', ' ')}", style="red"))
    left = [("redirections followed", record.redirects), ("abandoned: an earlier request had failed", record.abandoned)]
    for what, count in left:
        if count:
            console.print(Text(f"  {count:,} {what}"))
    times = table("", "mean", *PERCENTILES, "max")
    for name, _, of in LATENCIES:
        _add_times(times, name, of(record))
    console.print(times)
    _print_names(record, console)
    _print_webstone(result, console)
    _print_steps(result, console)
    print_undisturbed(result, console)
    _print_intervals(result, console)
    _print_server(result, console)
    print_saturation(record.saturation, console)
    _print_machines(result, console)
    for warning in record.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def offered(result: LoadResult) -> str:
    """The requested load; for several steps the first and the last."""
    steps = steps_of(result)
    said = [step.offered.replace("/s", " requests/s") for step in steps]
    if len(said) < 2:
        return said[0] if said else "nothing that was measured"
    return f"{said[0]} to {said[-1]} in {len(said)} steps"


def percentiles(summary: Summary) -> tuple[float | None, ...]:
    """The values of `PERCENTILES`."""
    return summary.p50, summary.p90, summary.p95, summary.p99, summary.p999


def _add_times(times: Table, name: str, summary: Summary | None) -> None:
    if summary is not None and summary.count:
        figures = (summary.mean, *percentiles(summary), summary.max)
        times.add_row(Text(name), *map(format.seconds, figures))


def print_marks(result: LoadResult, console: Console) -> None:
    """Prints warnings above the figures: a generator limit, an incomplete run."""
    because = result.limited_because
    if because:
        text = f"THE GENERATOR WAS THE LIMIT, not the server: {because}. These are the generator's figures."
        console.print(Text(text, style="bold yellow"))
    if not result.complete:
        console.print(Text(f"NOT COMPLETE: {result.record.stopped_because}", style="bold red"))
    if not result.is_streams and result.of_requests.failed_because:
        console.print(Text(f"FAILED: {result.of_requests.failed_because}", style="bold red"), soft_wrap=True)


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    for verdict in verdicts:
        console.print(Text(str(verdict), style="green" if verdict.passed else "bold red"), soft_wrap=True)


def _print_names(record: LoadRecord, console: Console) -> None:
    """Prints a scenario's requests with their results."""
    if not record.by_name:
        return
    if record.users is not None:
        rows = "" if record.users.rows is None else f", {record.users.rows:,} rows in their file"
        console.print(Text(f"{record.users.users:,} users{rows}"))
    rows_of_names = table("request", "requests", "per second", "failed", *PERCENTILES)
    for each in record.by_name:
        times = percentiles(each.response_time_seconds)
        rate = format.number(each.requests_per_second or 0.0, 3)
        figures = (f"{each.requests:,}", rate, f"{each.errors:,}", *map(format.seconds, times))
        rows_of_names.add_row(Text(each.name), *figures)
    console.print(rows_of_names)
    for each in record.by_name:
        kinds = {**each.errors_by_cause, "redirections": each.redirects, "abandoned": each.abandoned}
        said = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in kinds.items() if count)
        if said:
            console.print(Text(f"  {each.name}: {said}", style="dim"), soft_wrap=True)
        said = ", ".join(f"{name} {format.seconds(time.mean)}" for name, time in each.server_timing_seconds.items())
        if said:
            console.print(Text(f"  {each.name}: the server says, in the mean: {said}", style="dim"), soft_wrap=True)


def _print_webstone(result: LoadResult, console: Console) -> None:
    found = result.of_requests.webstone
    if found:
        console.print(Text("by WebStone's definitions"))
        print_pairs([(said, format.number(getattr(found, key), 4)) for key, said in WEBSTONE.items()], console)


def _print_steps(result: LoadResult, console: Console) -> None:
    """Prints each of several steps with its peculiarities."""
    steps = steps_of(result)
    if len(steps) < 2:
        return
    rows = table("step", "offered", *STEP_METRICS, "failed")
    for step in steps:
        # The report has the intervals; there is no room for them here.
        figures = [metric.write(step.estimate(metric).value) for metric in map(metrics.find, STEP_METRICS)]
        rows.add_row(str(step.number), step.offered, *figures, format.count(step.of_requests.errors))
    console.print(rows)
    for step in steps:
        if said := marks(step):
            console.print(Text(f"step {step.number}: {said}", style="dim"), soft_wrap=True)


def between(name: str, step: StepResult) -> str:
    """A step's figure with half the width of its 95 % interval, if it has one."""
    metric = metrics.find(name)
    found = step.estimate(metric)
    if found.low is None or found.high is None:
        return metric.write(found.value)
    return f"{metric.write(found.value)} ± {format.percent((found.high - found.low) / 2 / found.value)}"


def marks(step: StepResult) -> str:
    """Conditions that a reader must know before using a step's figures."""
    record = step.of_requests
    said = [step.no_interval_because]
    said += ["the generator was the limit" if record.generator.limited else None]
    said += [None if record.steady or record.ramp else "not steady"]
    return "; ".join(each for each in said if each)


def _print_intervals(result: LoadResult, console: Console) -> None:
    rows = []
    for name in _WITH_INTERVAL:
        metric = metrics.find(name)
        found = metric.estimate(result)
        if found.low is not None:
            said = f"{metric.write(found.value)} (95 %: {metric.write(found.low)} to {metric.write(found.high)})"
            rows.append((name, said))
    rows.append(("generator", f"{format.percent(result.record.generator.cpu_fraction)} of a core"))
    print_pairs(rows, console)


def _print_server(result: LoadResult, console: Console) -> None:
    """Prints a probed server's CPU time per request, split into user and system time."""
    if result.record.probe is None:
        return
    found = [
        f"{metrics.find(name).write(metrics.find(name).of_run(result))}{said}" for name, said in SERVER_METRICS.items()
    ]
    print_pairs([("server", ", ".join(found))], console)


def print_saturation(found: Saturation | None, console: Console) -> None:
    """Prints the bottleneck in one sentence."""
    if found is not None:
        console.print(Text(f"where the time goes: {found.sentence}"), soft_wrap=True)


def _print_machines(result: LoadResult, console: Console) -> None:
    machines = result.record.machines
    if not machines:
        return
    made = "streams" if result.is_streams else "requests/s"
    rows = table("machine", "share", made, "generator", "clock apart")
    rows.add_column("")
    for each in machines:
        figures = (
            format.percent(each.share),
            format.count(each.streams) if result.is_streams else format.number(each.requests_per_second, 4),
            format.percent(each.generator_cpu_fraction),
            format.seconds(each.clock_offset_seconds),
        )
        rows.add_row(Text(each.host), *figures, Text(each.failed_because or "", style="bold red"))
    console.print(rows)


def print_streams(result: LoadResult, console: Console) -> None:
    """Prints a run of viewers in at most a screenful."""
    record = result.of_streams
    streams = record.streaming.streams
    console.print(
        Text(f"{record.url}, {films(result)}, {stream_metrics.name(result)} by {record.connection}", style="dim"),
        soft_wrap=True,
    )
    share = format.percent(streams.conforming_fraction)
    found = f"{streams.conforming:,} of {streams.judged:,} streams conform ({share})"
    counted = ", ".join(f"{getattr(streams, key):,} {said}" for key, said in _COUNTED)
    console.print(Text(found, style="bold"), Text(counted), highlight=False)
    for reasons in (streams.faults, streams.refused_by_status, streams.failures_by_cause):
        for reason, count in reasons.items():
            console.print(Text(f"  {count:,} {reason.replace('_', ' ')}", style="red"))
    if streams.slow or streams.vanishing:
        console.print(Text(f"  not judged: {streams.slow:,} slow, {streams.vanishing:,} vanishing", style="dim"))
    times = table("", "mean", "p50", "p90", "p99", "p99.9", "max")
    for name, of in stream_metrics.times(result):
        _add_times(times, name, of(record))
    console.print(times)
    print_pairs([*_media(result), ("generator", _generator(result)), *_server(result)], console)
    for warning in record.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def films(result: LoadResult) -> str:
    """The number of films assigned to the viewers."""
    count = result.of_streams.films
    return "1 film" if count == 1 else f"{count:,} films"


_COUNTED = (
    ("started", "started"),
    ("refused", "refused"),
    ("timed_out", "timed out"),
    ("films_over", "to the end"),
    ("unfinished", "not started at the end"),
)


def _media(result: LoadResult) -> list[tuple[str, str]]:
    streaming = result.of_streams.streaming
    came, starvation, rates = stream_metrics.pieces(result), streaming.starvation, streaming.bit_rate
    throughput = result.record.bytes_per_second
    starved = format.seconds(starvation.seconds)
    said = format.NOT_MEASURED
    if came is not None:
        said = f"{came.received:,}: {came.lost:,} lost ({format.percent(came.lost_fraction)}), {came.late:,} late"
    if isinstance(came, Packets):
        said += f", {came.reordered:,} out of order, {came.duplicates:,} twice"
    rows = [
        ("received", format.bandwidth(None if throughput is None else 8 * throughput)),
        (stream_metrics.name(result), said),
        ("starvation", f"{starvation.streams:,} streams, {starvation.count:,} times, {starved}"),
    ]
    if rates:
        mean, least, most = (
            format.bandwidth(rate)
            for rate in (rates.mean_bits_per_second, rates.min_bits_per_second, rates.max_bits_per_second)
        )
        rows.append(("a stream", f"{mean} on average, from {least} to {most}"))
    return rows


def _generator(result: LoadResult) -> str:
    generator, came = result.of_streams.generator, stream_metrics.pieces(result)
    late = format.seconds(generator.receive_lag_seconds.p99)
    void = format.percent(came.void_fraction if came else None)
    return f"{format.percent(generator.cpu_fraction)} of a core; 99 % looked at within {late}; {void} of samples void"


def _server(result: LoadResult) -> list[tuple[str, str]]:
    """The cost of a stream's second on a probed server."""
    spent = result.record.probe.cpu_seconds_per_stream_second if result.record.probe else None
    if spent is None:
        return []
    said = (
        spent.unavailable
        if isinstance(spent, Unavailable)
        else f"{format.seconds(spent)} of CPU per second of a stream"
    )
    return [("server", said)]


_ENDINGS = {
    "out of time": "the time or the number of runs ran out before the interval was narrow and confirmed",
    "interrupted": "interrupted; this is the result so far",
}


def said(trial: Trial, found: Found, unit: str) -> Text:
    """One run, and the search's result after it."""
    values = ", ".join(f"{name} {metrics.find(name).write(value)}" for name, value in trial.values.items())
    verdict, style = (
        ("void", "yellow") if trial.void_because else ("pass", "green") if trial.passed else ("fail", "red")
    )
    known = f"   capacity {_between(found)}" if found.capacity is not None else ""
    line = Text(f"{len(found.trials):3}  {format.number(trial.load, 4):>8} {unit}  ")
    return line.append(verdict, style=style).append(f"  {values}{known}", style="dim")


def print_found(found: Found, search: SearchRecord, console: Console) -> None:
    """Prints the answer, then the runs by load."""
    conditions = " and ".join(search.thresholds)
    console.print(Text(f"largest load with {conditions}", style="dim"), soft_wrap=True)
    console.print(Text(answer(found, search.unit), style="bold"), soft_wrap=True)
    if found.ending in _ENDINGS:
        console.print(Text(_ENDINGS[found.ending], style="yellow"))
    rows = table(search.unit, "runs", "passed", "share, monotone")
    for load, runs, passed, share in found.pass_fractions:
        rows.add_row(format.number(load, 4), str(runs), str(passed), format.percent(share))
    console.print(rows)
    print_saturation(search.saturation, console)
    void = [trial for trial in found.trials if trial.void_because]
    if void:
        text = f"{len(void)} runs are void by the generator: {void[-1].void_because}"
        console.print(Text(text, style="yellow"), soft_wrap=True)


def answer(found: Found, unit: str) -> str:
    """The result in one sentence that claims no more than the runs show."""
    if found.capacity is not None:
        return f"{format.number(found.capacity, 4)} {unit} ({_between(found)}, 95 %)"
    at_least = None if found.low is None else f"at least {format.number(found.low, 4)} {unit}"
    if found.ending == "generator":
        return f"{at_least or 'nothing passed'}: the generator saturates first, so the server's limit is not known"
    if found.ending == "never passed":
        return "no load passed: even the smallest that was tried failed"
    if not found.trials:
        return "nothing was measured"
    if found.low is None and found.high is not None:
        return f"no load that was tried passed; the smallest, {format.number(found.high, 4)} {unit}, failed"
    return f"{at_least or 'nothing passed yet'}: no load failed, so the limit was not reached"


def _between(found: Found) -> str:
    return f"{format.number(found.low, 4)} to {format.number(found.high, 4)}"
