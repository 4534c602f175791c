"""A run of viewers on the terminal: how many streams conform and why others do not, packets, times, the generator."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sojourn.loading import stream_pieces
from sojourn.loading.result import LoadResult
from sojourn.report.terminal import print_pairs, table
from sojourn.text import format


def print_streams(result: LoadResult, console: Console) -> None:
    """The run in a screenful."""
    record, streaming = result.record, result.record["streaming"]
    streams = streaming["streams"]
    console.print(
        Text(f"{record['url']}, {films(result)}, {stream_pieces.name(result)} by {record['connection']}", style="dim"),
        soft_wrap=True,
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
    for name, key in stream_pieces.times(result):
        summary = record[key]
        if summary["count"]:
            figures = (summary[each] for each in ("mean", "p50", "p90", "p99", "p999", "max"))
            times.add_row(Text(name), *map(format.seconds, figures))
    console.print(times)
    print_pairs([*_media(result), ("generator", _generator(result)), *_server(result)], console)
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


def _media(result: LoadResult) -> list[tuple[str, str]]:
    streaming = result.record["streaming"]
    came, starvation, rates = stream_pieces.pieces(result), streaming["starvation"], streaming["bit_rate"]
    throughput = result.record["bytes_per_second"]
    starved = format.seconds(starvation["seconds"])
    said = (
        f"{came['received']:,}: {came['lost']:,} lost ({format.percent(came['lost_fraction'])}), {came['late']:,} late"
    )
    if "reordered" in came:
        said += f", {came['reordered']:,} out of order, {came['duplicates']:,} twice"
    rows = [
        ("received", format.bandwidth(None if throughput is None else 8 * throughput)),
        (stream_pieces.name(result), said),
        ("starvation", f"{starvation['streams']:,} streams, {starvation['count']:,} times, {starved}"),
    ]
    if rates:
        mean, least, most = (format.bandwidth(rates[f"{name}_bits_per_second"]) for name in ("mean", "min", "max"))
        rows.append(("a stream", f"{mean} on average, from {least} to {most}"))
    return rows


def _generator(result: LoadResult) -> str:
    generator = result.record["generator"]
    late = format.seconds(generator["receive_lag_seconds"]["p99"])
    void = format.percent(stream_pieces.pieces(result)["void_fraction"])
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
