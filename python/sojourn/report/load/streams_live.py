"""A run of viewers while it runs: streams, packets and how far behind they are, redrawn when the engine says."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from sojourn.report.load.live import HISTORY_SECONDS, LiveView, Screen, server_lines, sparkline, time_of
from sojourn.text import format


class StreamView(LiveView):
    """Draws what the engine's progress lines say of streams."""

    def __call__(self, progress: Mapping[str, Any]) -> None:
        """Shows an interval of the run."""
        if "streams_playing" in progress:
            self._playing.append(progress["streams_playing"])
            self._behind.append((progress.get("behind_seconds") or {}).get("p99") or 0.0)
            self._draw(self._stream_lines(progress))

    def __enter__(self) -> StreamView:
        self._playing: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._behind: deque[float] = deque(maxlen=HISTORY_SECONDS)
        super().__enter__()
        return self

    def _stream_lines(self, progress: Mapping[str, Any]) -> list[str]:
        screen = Screen.now()
        behind = progress.get("behind_seconds") or {}
        times = "  ".join(f"{name} {time_of(behind.get(name)):>8}" for name in ("p50", "p90", "p99", "max"))
        failed = [
            f"{progress[f'streams_{name}']:,} {said}"
            for name, said in (("refused", "refused"), ("timed_out", "timed out"), ("failed", "failed otherwise"))
        ]
        playing, conforming = progress["streams_playing"], progress["streams_conforming"]
        return [
            *self._head(screen, progress, "playing"),
            screen.line(
                "playing", f"{playing:>11,}   {conforming:,} conforming, {progress['streams_started']:,} started"
            ),
            screen.dim("", sparkline(self._playing, screen.room)),
            screen.line("received", f"{format.bandwidth(progress['bits_per_second'])}"),
            screen.line("behind", times),
            screen.dim("  p99", sparkline(self._behind, screen.room)),
            screen.line("streams", ", ".join(failed)),
            self._generator(screen, progress),
            *server_lines(progress.get("probe") or {}),
        ]
