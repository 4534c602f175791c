"""The live view of a run: a few lines on standard error, redrawn with each progress line of the engine.

Drawing must not disturb the measurement, so it is plain string formatting on the thread that reads the engine's
output: no timer, no additional wake-up, no library. At the end the lines are erased, and the result follows.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO

from sojourn.engine.progress import ProgressLine, RequestsAdvance, StreamsAdvance
from sojourn.engine.results import Summary
from sojourn.text import format

BARS = "▁▂▃▄▅▆▇█"
HISTORY_SECONDS = 120
GENERATOR_BUSY = 0.9
"""From this share of a core on, the generator may be the limit."""
_UP, _WIPE_LINE, _WIPE_BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_BOLD, _DIM, _YELLOW, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[31m", "\x1b[0m"


@dataclass(frozen=True)
class Screen:
    """The terminal's width, and the lines drawn on it."""

    width: int

    @classmethod
    def now(cls) -> Screen:
        """A screen with the terminal's present width, at most 100 columns."""
        return cls(min(shutil.get_terminal_size().columns, 100))

    @property
    def room(self) -> int:
        """The width left beside a line's name."""
        return max(10, self.width - 12)

    def line(self, name: str, said: str) -> str:
        """A line with its name."""
        return f"{name:<11} {said}"

    def dim(self, name: str, said: str) -> str:
        """A dimmed line with its name."""
        return f"{_DIM}{self.line(name, said)}{_PLAIN}"


class LiveView:
    """Draws the engine's progress; a context manager."""

    def __init__(self, title: str, output: TextIO = sys.stderr) -> None:
        self._title = title
        self._output = output
        self._drawn = 0
        self._rates: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._latencies: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._errors = 0.0
        self._began = time.monotonic()

    def __enter__(self) -> LiveView:
        self._draw([self._title, "starting"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._output.write("\r" + _UP.format(self._drawn) + _WIPE_BELOW)
            self._output.flush()

    def __call__(self, progress: ProgressLine) -> None:
        if not isinstance(progress, RequestsAdvance):
            return
        self._rates.append(progress.requests_per_second)
        self._latencies.append(progress.time_to_first_byte_intended_seconds.p99 or 0.0)
        self._errors += progress.errors_per_second
        self._draw(self._lines(progress))

    def _lines(self, progress: RequestsAdvance) -> list[str]:
        screen = Screen.now()
        state = "measuring" if progress.step is not None else "warming up"
        times = _times(progress.time_to_first_byte_intended_seconds)
        errors = progress.errors_per_second
        rate = f"{_BOLD}{progress.requests_per_second:>11,.0f}{_PLAIN}   in flight {progress.in_flight:,}"
        return [
            *self._head(screen, progress.progress, state),
            screen.line("requests/s", rate),
            screen.dim("", sparkline(self._rates, screen.room)),
            screen.line("first byte", times),
            screen.dim("  p99", sparkline(self._latencies, screen.room)),
            screen.line("errors", f"{_RED if self._errors else ''}{errors:,.0f}/s, {self._errors:,.0f} in all{_PLAIN}"),
            self._generator(screen, progress.generator_cpu_fraction),
            *server_lines(progress.probe),
        ]

    def _head(self, screen: Screen, done: float, state: str) -> list[str]:
        """The command, and the progress of its run."""
        elapsed = time.monotonic() - self._began
        filled = round(done * (screen.room - 24))
        bar = "█" * filled + "░" * max(0, screen.room - 24 - filled)
        return [
            f"{_BOLD}{self._title[: screen.width]}{_PLAIN}",
            screen.line(state, f"{bar} {done * 100:3.0f} %  {elapsed:4.0f} s"),
        ]

    def _generator(self, screen: Screen, busy: float) -> str:
        """The generator's CPU usage, with a warning near its limit."""
        warning = "  near its limit: figures may be the generator's" if busy > GENERATOR_BUSY else ""
        return screen.line("generator", f"{_YELLOW if warning else ''}{busy * 100:.0f} % of a core{warning}{_PLAIN}")

    def _draw(self, lines: list[str]) -> None:
        # More lines than the terminal has rows would scroll, so that moving up would miss the top.
        lines = lines[: max(1, shutil.get_terminal_size().lines - 1)]
        up = "\r" + _UP.format(self._drawn) if self._drawn else ""
        # A wrapped line would occupy two rows, and the next drawing would start too low.
        text = "".join(line + _WIPE_LINE + "\n" for line in lines)
        self._output.write(up + _NO_WRAP + text + _WRAP + _WIPE_BELOW)
        self._output.flush()
        self._drawn = len(lines)


def sparkline(values: deque[float], width: int) -> str:
    """The last values as a bar chart from zero to their maximum, one bar per column."""
    shown = list(values)[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return BARS[0] * len(shown)
    return "".join(BARS[min(len(BARS) - 1, int(value / top * len(BARS)))] for value in shown)


def server_lines(used: Mapping[str, float]) -> list[str]:
    """A probed server's usage in the last second, as far as it is known."""
    cpu = {name: used.get(f"cpu_{key}seconds") for name, key in (("", ""), ("user", "user_"), ("system", "system_"))}
    said = [f"{value:.2f} {f'in {name}' if name else 'cores'}" for name, value in cpu.items() if value is not None]
    counts = {
        "accept queue": used.get("accept_queue"),
        "switches/s": used.get("voluntary_switches"),
        "major faults/s": used.get("major_faults"),
    }
    rest = [f"{name} {value:,.0f}" for name, value in counts.items() if value is not None]
    if "resident_bytes" in used:
        rest.append(f"{used['resident_bytes'] / 2**20:,.0f} MiB resident")
    lines = [("server", said), ("", rest)]
    return [f"{name:<11} {', '.join(parts)}" for name, parts in lines if parts]


_SHOWN = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9"}
"""The display names of percentile keys."""


def _times(found: Summary) -> str:
    return "  ".join(f"{name} {time_of(getattr(found, key)):>7}" for key, name in _SHOWN.items())


def time_of(seconds: float | None) -> str:
    """A time in a suitable unit."""
    if seconds is None:
        return "-"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


class StreamView(LiveView):
    """Draws the engine's progress of a run of viewers."""

    def __call__(self, progress: ProgressLine) -> None:
        if isinstance(progress, StreamsAdvance):
            self._playing.append(progress.streams_playing)
            self._behind.append(progress.behind_seconds.p99 or 0.0)
            self._draw(self._stream_lines(progress))

    def __enter__(self) -> StreamView:
        self._playing: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._behind: deque[float] = deque(maxlen=HISTORY_SECONDS)
        super().__enter__()
        return self

    def _stream_lines(self, progress: StreamsAdvance) -> list[str]:
        screen = Screen.now()
        times = _times(progress.behind_seconds)
        failed = [
            f"{progress.streams_refused:,} refused",
            f"{progress.streams_timed_out:,} timed out",
            f"{progress.streams_failed:,} failed otherwise",
        ]
        playing, conforming = progress.streams_playing, progress.streams_conforming
        return [
            *self._head(screen, progress.progress, "playing"),
            screen.line("playing", f"{playing:>11,}   {conforming:,} conforming, {progress.streams_started:,} started"),
            screen.dim("", sparkline(self._playing, screen.room)),
            screen.line("received", f"{format.bandwidth(progress.bits_per_second)}"),
            screen.line("behind", times),
            screen.dim("  p99", sparkline(self._behind, screen.room)),
            screen.line("streams", ", ".join(failed)),
            self._generator(screen, progress.generator_cpu_fraction),
            *server_lines(progress.probe),
        ]
