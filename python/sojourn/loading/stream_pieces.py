"""What the media of a run of viewers came in: packets of RTP, or segments of HLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.loading.result import LoadResult

PACKETS = "packets"
SEGMENTS = "segments"

_TIMES = {
    PACKETS: (
        ("connecting until playing", "setup_time_seconds"),
        ("PLAY until the first packet", "time_to_first_packet_seconds"),
        ("packets behind the first's pace", "behind_seconds"),
        ("jitter of tracks", "jitter_seconds"),
    ),
    SEGMENTS: (
        ("connecting until the playlist", "setup_time_seconds"),
        ("asking until the first byte", "time_to_first_packet_seconds"),
        ("connecting until it is shown", "startup_time_seconds"),
        ("asking until a whole segment", "segment_time_seconds"),
        ("segments behind the first's pace", "behind_seconds"),
    ),
}


def name(result: LoadResult) -> str:
    """`packets` or `segments`."""
    return SEGMENTS if SEGMENTS in result.record["streaming"] else PACKETS


def pieces(result: LoadResult) -> Mapping[str, Any]:
    """What became of them; nothing in a run of requests."""
    streaming = result.record.get("streaming") or {}
    return streaming.get(SEGMENTS) or streaming.get(PACKETS) or {}


def times(result: LoadResult) -> tuple[tuple[str, str], ...]:
    """Rows of a table of times, by the result's keys."""
    return _TIMES[name(result)]
