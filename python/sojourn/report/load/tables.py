"""The tables of a load run's report."""

from __future__ import annotations

from collections.abc import Callable

from sojourn.engine.results import ServerUse, SizeFigures, Summary, Unavailable
from sojourn.loading import metrics
from sojourn.loading.folder import LoadRun
from sojourn.loading.steps import steps_of
from sojourn.probe.totals import CounterUse
from sojourn.report.load.terminal import LATENCIES, SERVER_METRICS, STEP_METRICS, WEBSTONE, between, marks
from sojourn.report.markup import Markup, element
from sojourn.report.tables import absent, grid, pairs
from sojourn.text import format

_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
_HEAD = ("Mean", "p50", "p90", "p95", "p99", "p99.9", "Max")


def latencies(run: LoadRun) -> Markup:
    """The phases of a request."""
    rows = [
        (name, format.count(summary.count), *_statistics(summary))
        for _, name, of in LATENCIES
        if (summary := of(run.result.of_requests)).count
    ]
    title = "Latencies by phase"
    if not rows:
        return absent("table-latencies", title, "there was no response")
    note = "Good responses only. Unless stated otherwise, a time counts from when the request was sent."
    return grid("table-latencies", title, [("", "Count", *_HEAD)], rows, note)


def steps(run: LoadRun) -> Markup | None:
    """Each step with the confidence intervals of its figures; None for a single step."""
    found = steps_of(run.result)
    if len(found) < 2:
        return None
    rows = [
        (
            str(step.number),
            step.offered,
            *(between(name, step) for name in STEP_METRICS),
            format.count(step.of_requests.errors),
            marks(step),
        )
        for step in found
    ]
    head = ("Step", "Offered", *STEP_METRICS, "Failed", "Marks")
    return grid("table-steps", "Step by step", [head], rows, "± is half of the 95 % confidence interval.")


def webstone(run: LoadRun) -> Markup | None:
    """The run by WebStone's definitions, if requested."""
    found = run.result.of_requests.webstone
    if not found:
        return None
    rows = [(said, format.number(getattr(found, key), 4)) for key, said in WEBSTONE.items()]
    return pairs("table-webstone", "By WebStone's definitions", rows)


def errors(run: LoadRun) -> Markup:
    """Failures by cause, with the time until each showed."""
    record = run.result.of_requests
    title = "What failed"
    rows = [
        (cause.replace("_", " "), format.count(count), *_statistics(record.error_time_seconds.get(cause)))
        for cause, count in record.errors_by_cause.items()
    ]
    left = [("unfinished at the end", record.unfinished), ("skipped: too many in flight", record.skipped)]
    left.append(("never sent: their session had failed", record.abandoned))
    rows += [(name, format.count(count), *[""] * len(_HEAD)) for name, count in left if count]
    if not rows:
        return pairs("table-errors", title, [("Failures", "none")])
    return grid("table-errors", title, [("Cause", "Requests", *_HEAD)], rows, "Times from when the request was due.")


def names(run: LoadRun) -> Markup | None:
    """A scenario's requests with their results; None without named requests."""
    found = run.result.of_requests.by_name
    if not found:
        return None
    rows = [
        (
            each.name,
            format.count(each.requests),
            format.number(each.requests_per_second or 0.0, 3),
            ", ".join(f"{count:,} {cause.replace('_', ' ')}" for cause, count in each.errors_by_cause.items()) or "0",
            format.count(each.redirects),
            format.count(each.abandoned),
            *_statistics(each.response_time_seconds),
        )
        for each in found
    ]
    head = ("Request", "Requests", "Per second", "Failed", "Redirections", "Abandoned", *_HEAD)
    return grid(
        "table-names", "By request", [head], rows, "Times from when the request was due, redirections included."
    )


def sizes(run: LoadRun) -> Markup:
    """Response times by the size of the body."""
    rows = [
        (_size_class(each), format.count(each.requests), *_statistics(each.response_time_seconds))
        for each in run.result.of_requests.by_size
        if each.requests
    ]
    title = "Response time by size"
    if not rows:
        return absent("table-sizes", title, "there was no response")
    return grid("table-sizes", title, [("Body", "Requests", *_HEAD)], rows)


def generator(run: LoadRun) -> Markup:
    """The generator's own figures: CPU usage, and lateness of its requests."""
    found = run.result.of_requests.generator
    because = run.result.limited_because
    rows = [
        ("Was it the limit?", f"YES: {because}" if because else "no"),
        ("CPU", f"{format.percent(found.cpu_fraction)} of a core"),
        ("CPU per request", format.seconds(found.cpu_seconds_per_request)),
        ("Lateness, p99", format.seconds(found.send_lag_p99_seconds)),
        ("Waited for its core", _reading(found.core_wait_fraction, format.percent)),
        ("Taken by the hypervisor", _reading(found.core_steal_fraction, format.percent)),
    ]
    if found.timer_slack_seconds is not None:
        rows.append(("Timer slack", format.seconds(found.timer_slack_seconds)))
    if found.real_time:
        rows.append(("Priority", "real-time"))
    if found.send_lag_limit_seconds is not None:
        rows.append(("Lateness allowed, p99", format.seconds(found.send_lag_limit_seconds)))
    rows.append(("Sent more than 1 ms late", f"{found.late_sends:,} requests"))
    little = [step.little for step in run.result.of_requests.steps if step.little]
    rows += [("Little's law N = X(R+Z)", f"holds to {format.error(each.relative_error)}") for each in little]
    return pairs("table-generator", "The generator's health", rows)


def _used_by_server(use: ServerUse) -> list[tuple[str, str]]:
    return [
        ("CPU", _reading(use.cpu_fraction, lambda value: f"{format.percent(value)} of a core")),
        ("CPU per request", _reading(use.cpu_seconds_per_request, format.seconds)),
        ("CPU in user mode", _reading(use.cpu_user_fraction, format.percent)),
        ("Its core was busy", _reading(use.core_busy_fraction, format.percent)),
        ("Soft interrupts on its core", _reading(use.core_softirq_fraction, format.percent)),
        ("Resident memory", _reading(use.resident_bytes, format.size)),
        ("Minor page faults", _reading(use.minor_faults, format.count)),
        ("Major page faults", _reading(use.major_faults, format.count)),
        ("Voluntary switches", _reading(use.voluntary_switches, format.count)),
        ("Involuntary switches", _reading(use.involuntary_switches, format.count)),
    ]


def server(run: LoadRun) -> Markup:
    """The usage of the observed server."""
    title = "The server's resources"
    observed = [(step.server, step.tcp) for step in run.result.of_requests.steps if step.server]
    if not observed:
        said = "by the run itself (--observe-pid, --observe-core); the probe's figures follow"
        return absent("table-server", title, said if run.result.record.probe else "it was not observed (--probe)")
    use, tcp = observed[-1]
    rows = _used_by_server(use)
    for key, value in tcp:
        rows.append((f"TCP: {key.replace('_', ' ')}", _reading(value, format.count)))
    return pairs("table-server", title, rows)


def probe(run: LoadRun) -> Markup | None:
    """Every counter of the probe over the measured time, and the cost per request."""
    found = run.result.record.probe
    if not found:
        return None
    title = "What the server used, by the probe"
    if found.unavailable is not None:
        return absent("table-probe", title, found.unavailable)
    spent = ["server.cpu_per_stream_second"] if run.result.is_streams else [*SERVER_METRICS]
    rows = [
        (metrics.find(name).help, "", metrics.find(name).write(metrics.find(name).of_run(run.result)), "", "")
        for name in spent
    ]
    counters = found.counters
    rows += [(name.replace("_", " "), *_used(each)) for name, each in counters.items() if each.unavailable is None]
    missing: dict[str, list[str]] = {}
    for name, each in counters.items():
        if each.unavailable is not None:
            missing.setdefault(each.unavailable, []).append(name)
    offset = found.offset_seconds
    notes = [f"Clock of the recording moved by {offset:+.6f} s." if offset else ""]
    notes += [f"Not measured: {', '.join(names)}: {why}." for why, names in missing.items()]
    head = ("Counter", "In all", "Mean or per second", "Least", "Most")
    return element("details", element("summary", title), grid("table-probe", title, [head], rows, " ".join(notes)))


def _used(used: CounterUse) -> tuple[str, str, str, str]:
    """One counter's row: a total with its rate, or a level with its range."""
    write = format.size if used.unit == "B" else lambda value: format.number(value, 4)
    unit = {"s": " s", "cores": " cores"}.get(used.unit, "")
    if used.total is not None:
        rate = f"{write(used.per_second)}{' cores' if used.unit == 's' else '/s'}"
        return f"{write(used.total)}{unit}", rate, "", ""
    mean, least, most = (f"{write(value)}{unit}" for value in (used.mean, used.minimum, used.maximum))
    return "", mean, least, most


def plan(run: LoadRun) -> Markup:
    record = run.result.record
    rows = [
        ("URL", record.url),
        ("Connections", record.connection),
        ("Options", " ".join(record.options)),
        ("Seed", str(record.seed)),
        ("Sojourn", record.version),
    ]
    return pairs("table-plan", "What was asked for", rows)


def machines(run: LoadRun) -> Markup | None:
    """Each machine's share; None for a single machine."""
    found, is_streams = run.result.record.machines, run.result.is_streams
    if not found:
        return None
    rows = [
        (
            each.host,
            format.percent(each.share),
            format.count(each.streams) if is_streams else format.number(each.requests_per_second, 4),
            format.percent(each.generator_cpu_fraction),
            format.seconds(each.clock_offset_seconds),
            each.failed_because or ("generator limited" if each.limited else ""),
        )
        for each in found
    ]
    made = "Streams" if is_streams else "Requests/s"
    head = ("Machine", "Share", made, "Generator CPU", "Clock apart", "Marks")
    return grid("table-machines", "The load machines", [head], rows)


def thresholds(run: LoadRun) -> Markup | None:
    # The verdicts come from the run's record and are not recomputed.
    judged = run.result.record.thresholds
    if not judged:
        return None
    rows = []
    for each in judged:
        metric = metrics.find(each.metric)
        between = ""
        if each.low is not None:
            between = f"{metric.write(each.low)} to {metric.write(each.high)}"
        verdict = ("pass" if each.passed else "FAIL") + (", too close to call" if each.clear is False else "")
        limit = f"{each.operator} {metric.write(each.limit)}"
        rows.append((metric.name, limit, metric.write(each.value), between, verdict))
    return grid("table-thresholds", "Thresholds", [("Metric", "Limit", "Measured", "95 %", "Verdict")], rows)


def _statistics(summary: Summary | None) -> list[str]:
    return [format.seconds(getattr(summary, name)) if summary else "" for name in _STATISTICS]


def _size_class(each: SizeFigures) -> str:
    if each.bytes_below is None:
        return f"{format.size(each.bytes_from)} and more"
    return f"{format.size(each.bytes_from)} to {format.size(each.bytes_below)}"


def _reading(value: float | Unavailable, write: Callable[[float], str]) -> str:
    return format.NOT_MEASURED if isinstance(value, Unavailable) else write(value)
