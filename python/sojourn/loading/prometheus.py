"""A run of viewers as families of Prometheus' text format: name, kind, help, samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sojourn.loading import stream_pieces
from sojourn.loading.result import LoadResult

Family = tuple[str, str, str, list[tuple[str, Any]]]


def families(result: LoadResult) -> Iterator[Family]:
    """What became of streams and packets."""
    streaming = result.record["streaming"]
    streams, starvation = streaming["streams"], streaming["starvation"]
    for name in ("started", "judged", "conforming", "timed_out", "films_over", "unfinished"):
        yield f"streams_{name}", "gauge", f"Streams: {name.replace('_', ' ')}.", [("", streams[name])]
    share = [("", streams["conforming_fraction"])]
    yield "streams_conforming_fraction", "gauge", "Share of the judged streams that conform.", share
    refused = [(f'{{status="{status}"}}', count) for status, count in streams["refused_by_status"].items()]
    yield "streams_refused", "gauge", "Streams that the server refused.", refused or [("", 0)]
    failed = [(f'{{cause="{cause}"}}', count) for cause, count in streams["failures_by_cause"].items()]
    yield "streams_failed", "gauge", "Streams that failed.", failed or [("", 0)]
    kind, came = stream_pieces.name(result), stream_pieces.pieces(result)
    said = {stream_pieces.PACKETS: "Packets of RTP", stream_pieces.SEGMENTS: "Segments"}[kind]
    for name in ("received", "expected", "lost", "late", "reordered", "duplicates", "void", "overflowed"):
        if name in came:
            yield f"{kind}_{name}", "gauge", f"{said}: {name}.", [("", came[name])]
    yield "starvations", "gauge", "Times that a player had nothing to show.", [("", starvation["count"])]
    yield "starvation_seconds", "gauge", "How long players had nothing to show.", [("", starvation["seconds"])]
    yield (
        "bytes_per_second",
        "gauge",
        "Packets of RTP, or answers with segments, with their headers.",
        [("", result.record["bytes_per_second"])],
    )
