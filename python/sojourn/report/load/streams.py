"""The page of a run of viewers: how many streams conform, why others do not, packets and times."""

from __future__ import annotations

from sojourn.engine.results import Summary
from sojourn.loading import stream_metrics
from sojourn.loading.folder import LoadRun
from sojourn.report.assessment import measurement_tables
from sojourn.report.chart import Chart, Missing
from sojourn.report.drawing import figure
from sojourn.report.load import tables
from sojourn.report.load.page import marks, server_plots, warnings
from sojourn.report.load.plots import over_time, series_of
from sojourn.report.load.terminal import films
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.scales import linear, logarithmic
from sojourn.report.tables import grid, pairs, where_time_goes
from sojourn.text import format

_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
_HEAD = ("Mean", "p50", "p90", "p95", "p99", "p99.9", "Max")
_SOURCES = ("result.json", "latency/steps.hlog", "intervals.parquet", "timeline.parquet", "environment.json")


def page(run: LoadRun) -> str:
    record = run.result.of_streams
    plots = element("div", [figure(plot) for plot in (_streams(run), _bandwidth(run), _behind(run))], class_="plots")
    environment = measurement_tables.environment_table(run.environment or None)
    main = join(
        element("section", _first_screen(run), tables.thresholds(run), id="answer"),
        element("section", element("h2", "Over time"), plots, id="over-time"),
        element(
            "section",
            element("h2", f"Streams and {stream_metrics.name(run.result)}"),
            _faults(run),
            _packets(run),
            _times(run),
            id="streams",
        ),
        element(
            "section",
            element("h2", "Generator and server"),
            where_time_goes(record.saturation),
            _generator(run),
            tables.machines(run),
            server_plots(run),
            tables.probe(run),
            id="resources",
        ),
        element(
            "section",
            element("h2", "What was measured, and where"),
            element("div", tables.plan(run), environment, class_="columns"),
            id="environment",
        ),
    )
    subtitle = f"{films(run.result)} · {stream_metrics.name(run.result)} by {record.connection}"
    return shell("load report", record.url, subtitle, Markup(main), record.version, _SOURCES)


def _first_screen(run: LoadRun) -> Markup:
    record = run.result.of_streams
    streams, came = record.streaming.streams, stream_metrics.pieces(run.result)
    kind = stream_metrics.name(run.result).capitalize()
    share = format.percent(streams.conforming_fraction)
    number = element("p", element("strong", share), " of streams conform", class_="number")
    said = f"{streams.conforming:,} of {streams.judged:,} judged; {streams.started:,} begun"
    left = element("div", number, element("p", said, class_="interval"), class_="headline")
    throughput = record.bytes_per_second
    facts = {
        "Received": format.bandwidth(None if throughput is None else 8 * throughput),
        "Refused": format.count(streams.refused),
        "Timed out": format.count(streams.timed_out),
        f"{kind} lost": format.percent(came.lost_fraction if came else None),
        f"{kind} late": format.percent(came.late_fraction if came else None),
    }
    rows = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    right = element("div", element("dl", rows), class_="facts")
    return join(marks(run), element("div", left, right, class_="answer"), warnings(run))


def _streams(run: LoadRun) -> Chart | Missing:
    table = run.result.interval_table
    series = [
        series_of("playing", 1, "solid", table, "streams_playing", format.count),
        series_of("conforming so far", 3, "dashed", table, "streams_conforming", format.count),
        series_of("refused so far", 2, "dotted", table, "streams_refused", format.count),
    ]
    return over_time("streams", "Streams over time", series, "streams", linear, format.count, shape="wide")


def _bandwidth(run: LoadRun) -> Chart | Missing:
    series = [series_of("received", 1, "solid", run.result.interval_table, "bits_per_second", format.bandwidth)]
    return over_time("bandwidth", "Bandwidth over time", series, "bits per second", linear, format.bandwidth)


def _behind(run: LoadRun) -> Chart | Missing:
    table = run.result.interval_table
    series = [
        series_of(name, colour, "solid", table, f"behind_{name}_seconds", format.seconds)
        for name, colour in (("p99", 2), ("p50", 1))
    ]
    title = f"{stream_metrics.name(run.result).capitalize()} behind the first's pace"
    return over_time("behind", title, series, "behind", logarithmic, format.seconds)


def _faults(run: LoadRun) -> Markup:
    streams = run.result.of_streams.streaming.streams
    rows = [("conforming", format.count(streams.conforming))]
    rows += [(f"fault: {name.replace('_', ' ')}", format.count(count)) for name, count in streams.faults.items()]
    rows += [(f"refused with {code}", format.count(count)) for code, count in streams.refused_by_status.items()]
    causes = streams.failures_by_cause.items()
    rows += [(f"failed: {name.replace('_', ' ')}", format.count(count)) for name, count in causes]
    others = {"films_over": "played to the end", "unfinished": "not started at the end", "slow": "slow, not judged"}
    others["vanishing"] = "vanishing, not judged"
    rows += [(said, format.count(count)) for key, said in others.items() if (count := getattr(streams, key))]
    return pairs("table-streams", "Outcomes of the streams", rows)


def _packets(run: LoadRun) -> Markup:
    streaming = run.result.of_streams.streaming
    came, starvation, rates = stream_metrics.pieces(run.result), streaming.starvation, streaming.bit_rate
    rows = [
        (name.replace("_", " "), format.count(count)) for name, count in came or () if not name.endswith("_fraction")
    ]
    rows += [
        ("streams that starved", format.count(starvation.streams)),
        ("starvations", format.count(starvation.count)),
        ("time with nothing to show", format.seconds(starvation.seconds)),
    ]
    if rates:
        rows += [
            (f"rate of a stream, {name}", format.bandwidth(getattr(rates, f"{name}_bits_per_second")))
            for name in ("mean", "min", "p50", "max")
        ]
    return pairs("table-packets", f"{stream_metrics.name(run.result).capitalize()} and players", rows)


def _times(run: LoadRun) -> Markup:
    record = run.result.of_streams
    summaries = [(name, of(record) or Summary()) for name, of in stream_metrics.times(run.result)]
    summaries.append(("generator's lateness", record.generator.receive_lag_seconds))
    rows = [
        (name, format.count(summary.count), *(format.seconds(getattr(summary, each)) for each in _STATISTICS))
        for name, summary in summaries
    ]
    return grid("table-times", "Times", [("", "Count", *_HEAD)], rows)


def _generator(run: LoadRun) -> Markup:
    generator = run.result.of_streams.generator
    because = run.result.limited_because
    rows = [
        ("Was it the limit?", f"YES: {because}" if because else "no"),
        ("CPU", format.percent(generator.cpu_fraction)),
        ("CPU per second of a stream", format.seconds(generator.cpu_seconds_per_stream_second)),
        ("Samples are void beyond", format.seconds(generator.receive_lag_limit_seconds)),
        ("Clock of arrivals", generator.arrival_clock),
        ("Descriptors", format.count(generator.descriptors)),
    ]
    return pairs("table-generator", "The generator", rows)
