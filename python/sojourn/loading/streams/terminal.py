"""A run of viewers on the terminal: how many streams conform and why others do not, packets, times, the generator."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sojourn.loading.result import LoadResult
from sojourn.report import format
from sojourn.terminal import print_pairs, table

TIMES = (
    ("connecting until playing", "setup_time_seconds"),
    ("PLAY until the first packet", "time_to_first_packet_seconds"),
    ("packets behind the first's pace", "behind_seconds"),
    ("jitter of tracks", "jitter_seconds"),
)
"""Rows of the table of times, by the result's keys."""


def print_streams(result: LoadResult, console: Console) -> None:
    """The run in a screenful."""
    record, streaming = result.record, result.record["streaming"]
    streams = streaming["streams"]
    console.print(
        Text(f"{record['url']}, {films(result)}, packets by {record['connection']}", style="dim"), soft_wrap=True
    )
    share = format.percent(streams["conforming_fraction"])
    found = f"{streams['conforming']:,} of {streams['judged']:,} streams conform ({share})"
    counted = ", ".join(f"{streams[key]:,} {said}" for key, said in _COUNTED)
    console.print(Text(found, style="bold"), Text(counted), highlight=False)
    for reasons in (streams["faults"], streams["refused_by_status"], streams["failures_by_cause"]):
        for reason, count in reasons.items():
            console.print(Text(f"  {count:,} {reason.replace('_', ' ')}", style="red"))
    if streams["slow"] or streams["vanishing"]:
        console.print(Text(f"  not judged: {streams['slow']:,} slow, {streams['vanishing']:,} vanishing", style="dim"))
    times = table("", "mean", "p50", "p90", "p99", "p99.9", "max")
    for name, key in TIMES:
        summary = record[key]
        if summary["count"]:
            figures = (summary[each] for each in ("mean", "p50", "p90", "p99", "p999", "max"))
            times.add_row(Text(name), *map(format.seconds, figures))
    console.print(times)
    print_pairs([*_packets(result), ("generator", _generator(result)), *_server(result)], console)
    for warning in record["warnings"]:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def films(result: LoadResult) -> str:
    """How many were dealt to the viewers."""
    count = result.record["films"]
    return "1 film" if count == 1 else f"{count:,} films"


_COUNTED = (
    ("started", "started"),
    ("refused", "refused"),
    ("timed_out", "timed out"),
    ("films_over", "to the end"),
    ("unfinished", "not begun at the end"),
)


def _packets(result: LoadResult) -> list[tuple[str, str]]:
    streaming = result.record["streaming"]
    packets, starvation, rates = streaming["packets"], streaming["starvation"], streaming["bit_rate"]
    throughput = result.record["bytes_per_second"]
    starved = format.seconds(starvation["seconds"])
    rows = [
        ("received", format.bandwidth(None if throughput is None else 8 * throughput)),
        (
            "packets",
            f"{packets['received']:,}: {packets['lost']:,} lost ({format.percent(packets['lost_fraction'])}), "
            f"{packets['late']:,} late, {packets['reordered']:,} out of order, {packets['duplicates']:,} twice",
        ),
        ("starvation", f"{starvation['streams']:,} streams, {starvation['count']:,} times, {starved}"),
    ]
    if rates:
        mean, least, most = (format.bandwidth(rates[f"{name}_bits_per_second"]) for name in ("mean", "min", "max"))
        rows.append(("a stream", f"{mean} on average, from {least} to {most}"))
    return rows


def _generator(result: LoadResult) -> str:
    generator, packets = result.record["generator"], result.record["streaming"]["packets"]
    late = format.seconds(generator["receive_lag_seconds"]["p99"])
    void = format.percent(packets["void_fraction"])
    return (
        f"{format.percent(generator['cpu_fraction'])} of a core; 99 % looked at within {late}; {void} of samples void"
    )


def _server(result: LoadResult) -> list[tuple[str, str]]:
    """What a second of a stream cost a probed server."""
    spent = (result.record.get("probe") or {}).get("cpu_seconds_per_stream_second")
    if spent is None:
        return []
    said = spent["unavailable"] if isinstance(spent, dict) else f"{format.seconds(spent)} of CPU per second of a stream"
    return [("server", said)]
