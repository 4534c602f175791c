"""The table of load metrics that thresholds, searches, comparisons and the help share.

A metric has a value for the whole run and, if the run's intervals contain it, a confidence interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from sojourn import _native
from sojourn.engine.results import Rated
from sojourn.failure import CouldNotRun
from sojourn.loading import named
from sojourn.loading.metric import Figure, Metric, known
from sojourn.loading.record import ProbeUse, RequestsRecord, Step
from sojourn.loading.result import Interval, LoadResult, merged
from sojourn.loading.stream_metrics import STREAM_LATENCIES, STREAM_METRICS
from sojourn.probe.totals import CounterUse

LATENCIES = {
    "response": ("response_time", "response time, from when the request was due to the last byte"),
    "ttfb": ("time_to_first_byte_intended", "time to first byte, from when the request was due"),
    "connect": ("connect_time", "time to connect"),
    "handshake": ("handshake_time", "time of the TLS handshake"),
    "transfer": ("transfer_time", "time from the first byte to the last"),
    "lag": ("send_lag", "lateness of the generator"),
    **STREAM_LATENCIES,
}
"""Latencies by the name before the dot: the histogram's tag, and the description. Without a dot: the response time."""
STATISTICS = "p50, p99, p99.9, ...; mean; max"
_LATENCY = re.compile(r"(?:(?P<kind>[a-z]+)\.)?(?:p(?P<percent>\d+(?:\.\d+)?)|(?P<name>mean|max))")
_PERCENTILE = re.compile(r"\d{1,2}(?:\.\d+)?|9\d{2,5}")


def find(name: str) -> Metric:
    """Finds a metric by name, over all requests or, as in `login p95`, over those that match a name or pattern.

    Raises:
        CouldNotRun: there is no such metric; the hint lists all.
    """
    requests, _, name = name.rpartition(" ")
    pattern = requests.strip().removesuffix(":")
    if name in SCALARS:
        return named.count(pattern, SCALARS[name]) if pattern else SCALARS[name]
    match = _LATENCY.fullmatch(name)
    if match is None or (match["kind"] or "response") not in LATENCIES:
        raise CouldNotRun(f"{name!r} is not a metric", f"one of {', '.join(names())}")
    tag, help_text = LATENCIES[match["kind"] or "response"]
    if match["name"] == "mean":
        metric = Metric(name, f"mean {help_text}", "time", "lower", _mean_of_run(tag), _of_intervals(tag, _mean))
        return named.latency(pattern, metric, tag, _mean) if pattern else metric
    fraction = 1.0 if match["name"] == "max" else percentile(match["percent"])
    what = "longest" if fraction == 1 else f"{fraction * 100:g}th percentile of the"

    def quantile(found: _native.Histogram) -> float:
        return _quantile(found, fraction)

    of_intervals = None if fraction == 1 else _of_intervals(tag, quantile)
    metric = Metric(name, f"{what} {help_text}", "time", "lower", lambda run: run.quantile(fraction, tag), of_intervals)
    return named.latency(pattern, metric, tag, quantile) if pattern else metric


def percentile(number: str) -> float:
    """The fraction of a percentile's number, 0.95 of `95`; p999 is accepted for p99.9, as in the result's keys.

    Raises:
        CouldNotRun: it is not below 100.
    """
    if _PERCENTILE.fullmatch(number) is None:
        raise CouldNotRun(f"p{number} is not a percentile below p100", "write it as in p95 or p99.9")
    spelled = number if len(number) <= 2 or "." in number else f"{number[:2]}.{number[2:]}"
    return float(spelled) / 100


def names() -> list[str]:
    """All metric names; latencies appear as patterns such as `pNN`."""
    return ["pNN", *(f"{kind}.pNN" for kind in LATENCIES if kind != "response"), "mean", "max", *SCALARS]


def table() -> list[tuple[str, str]]:
    """Names with descriptions, for the help and the documentation."""
    latencies = [(f"{kind}.pNN", text) for kind, (_, text) in LATENCIES.items()]
    latencies[0] = ("pNN, mean, max", LATENCIES["response"][1] + f" ({STATISTICS})")
    return latencies + [(metric.name, metric.help) for metric in SCALARS.values()]


def _of_intervals(tag: str, figure: Callable[[_native.Histogram], float]) -> Figure | None:
    if tag not in ("response_time", "time_to_first_byte_intended"):
        return None
    return lambda intervals: figure(merged(interval.latencies[tag] for interval in intervals))


def _quantile(histogram: _native.Histogram, fraction: float) -> float:
    found = histogram.quantile(fraction)
    return math.nan if found is None else float(found)


def _mean(histogram: _native.Histogram) -> float:
    found = histogram.summary()["mean"]
    return math.nan if found is None else float(found)


def _mean_of_run(tag: str) -> Callable[[LoadResult], float]:
    return lambda run: _mean(run.latencies[tag]) if tag in run.latencies else math.nan


def _throughput(intervals: Sequence[Interval]) -> float:
    seconds = sum(interval.length_seconds for interval in intervals)
    return sum(interval.requests for interval in intervals) / seconds if seconds > 0 else math.nan


def _error_rate(run: LoadResult) -> float:
    # Requests without a response count, too: an overloaded server that answers nothing must not look fine.
    record = run.record
    missed = run.errors + (record.unfinished + record.skipped if isinstance(record, RequestsRecord) else 0)
    asked = run.requests + missed
    return missed / asked if asked else math.nan


def _rated(figure: Callable[[Rated], float]) -> Callable[[LoadResult], float]:
    """A figure of the clients with a target rate, over the last step; NaN if there are none."""

    def of_run(run: LoadResult) -> float:
        steps = run.record.steps if isinstance(run.record, RequestsRecord) else []
        rated = steps[-1].rated if steps else None
        return math.nan if rated is None else figure(rated)

    return of_run


def _mean_of_class(run: LoadResult, place: int) -> float:
    sizes = run.record.by_size if isinstance(run.record, RequestsRecord) else ()
    answered = [each for each in sizes if each.requests]
    return known(answered[place].response_time_seconds.mean) if answered else math.nan


def _server_cpu_per_request(run: LoadResult) -> float:
    steps = run.record.steps if isinstance(run.record, RequestsRecord) else []
    used = [(step, step.server) for step in steps if step.server]
    answered = sum(_answered(step) for step, _ in used)
    if used and answered:
        return sum(known(server.cpu_seconds) for _, server in used) / answered
    return _probed(lambda probe: probe.cpu_seconds_per_request)(run)


def _probed(figure: Callable[[ProbeUse], object]) -> Callable[[LoadResult], float]:
    return lambda run: known(figure(run.record.probe)) if run.record.probe else math.nan


def _probed_per_second(*names: str) -> Callable[[LoadResult], float]:
    """The sum of a probed server's counters per second; NaN if one of them is missing."""

    def figure(run: LoadResult) -> float:
        probe = run.record.probe or ProbeUse()
        total = math.fsum(known(probe.counters.get(name, CounterUse()).total) for name in names)
        seconds = known(probe.duration_seconds)
        return total / seconds if seconds > 0 else math.nan

    return figure


def _answered(step: Step) -> float:
    return (step.requests_per_second or 0.0) * step.duration_seconds


def _server_cpu_of(intervals: Sequence[Interval]) -> float:
    # Processes may be sampled less often than intervals end.
    known = [interval for interval in intervals if not math.isnan(interval.server_cpu_seconds)]
    requests = sum(interval.requests for interval in known)
    seconds = sum(interval.server_cpu_seconds for interval in known)
    return seconds / requests if requests else math.nan


_SCALARS = (
    Metric(
        "rps",
        "good responses per second",
        "rate",
        "higher",
        lambda run: run.requests_per_second,
        _throughput,
    ),
    Metric(
        "throughput",
        "bits received per second: heads and bodies, or packets of streams",
        "bandwidth",
        "higher",
        lambda run: 8 * known(run.record.bytes_per_second),
    ),
    Metric("errors", "requests that failed", "count", "lower", lambda run: float(run.errors)),
    Metric("error_rate", "share of requests that failed or were not answered", "fraction", "lower", _error_rate),
    Metric(
        "conforming_clients",
        "clients with a target rate that received four fifths of it or more",
        "count",
        "higher",
        _rated(lambda rated: float(rated.conforming)),
    ),
    Metric(
        "conforming_share",
        "the same as a share of the clients with a target rate",
        "fraction",
        "higher",
        _rated(lambda rated: rated.conforming / rated.clients if rated.clients else math.nan),
    ),
    Metric(
        "smallest.mean",
        "mean response time of the smallest size class, of those with responses",
        "time",
        "lower",
        lambda run: _mean_of_class(run, 0),
    ),
    Metric(
        "largest.mean",
        "mean response time of the largest size class, of those with responses",
        "time",
        "lower",
        lambda run: _mean_of_class(run, -1),
    ),
    Metric(
        "generator.cpu",
        "CPU of the generator, as a share of one core",
        "fraction",
        "lower",
        lambda run: known(run.record.generator.cpu_fraction),
    ),
    Metric(
        "server.cpu_per_request",
        "CPU time of the server per good response, observed or probed",
        "time",
        "lower",
        _server_cpu_per_request,
        _server_cpu_of,
    ),
    Metric(
        "server.cpu_user_per_request",
        "CPU time in user code per good response, of a probed server",
        "time",
        "lower",
        _probed(lambda probe: probe.cpu_user_seconds_per_request),
        counters=("cpu_user_seconds_per_request",),
    ),
    Metric(
        "server.cpu_system_per_request",
        "CPU time in the kernel per good response, of a probed server",
        "time",
        "lower",
        _probed(lambda probe: probe.cpu_system_seconds_per_request),
        counters=("cpu_system_seconds_per_request",),
    ),
    Metric(
        "server.cpu",
        "CPU of the server as a share of one core, probed",
        "fraction",
        "lower",
        _probed_per_second("cpu_seconds"),
        counters=("cpu_seconds",),
    ),
    Metric(
        "server.minor_faults",
        "minor page faults per second, of a probed server",
        "rate",
        "lower",
        _probed_per_second("minor_faults"),
        counters=("minor_faults",),
    ),
    Metric(
        "server.major_faults",
        "major page faults per second, which waited for a disk, of a probed server",
        "rate",
        "lower",
        _probed_per_second("major_faults"),
        counters=("major_faults",),
    ),
    Metric(
        "server.disk_reads",
        "bytes read from a disk per second, of a probed server and with its read-ahead",
        "byte rate",
        "lower",
        _probed_per_second("disk_read_bytes"),
        counters=("disk_read_bytes",),
    ),
    Metric(
        "server.l1d_misses",
        "misses of the first data cache per second, of a probed server and the kernel for it",
        "rate",
        "lower",
        _probed_per_second("l1d_read_misses_user", "l1d_read_misses_kernel"),
        counters=("l1d_read_misses_user", "l1d_read_misses_kernel"),
    ),
    Metric(
        "server.llc_misses",
        "misses of the last cache per second, of a probed server and the kernel for it",
        "rate",
        "lower",
        _probed_per_second("llc_read_misses_user", "llc_read_misses_kernel"),
        counters=("llc_read_misses_user", "llc_read_misses_kernel"),
    ),
)
SCALARS = {metric.name: metric for metric in (*_SCALARS, *STREAM_METRICS)}
"""Metrics other than latencies."""
