"""Progress of the run: one line with the time left on a terminal, otherwise a line per cell.

It is written only between cells, because a moving bar would take CPU time from the generator's core.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console

from benchmarks.server.cell import Cell
from sojourn.text import format

OVERHEAD_SECONDS_AT_FIRST = 0.6
"""Time to start, check and stop a server, until the measured cells tell it."""


class Progress:
    """Cells done and to do; the time left is that of their load plus the mean overhead per cell so far."""

    def __init__(self, console: Console, load_seconds: Sequence[float]) -> None:
        self._console = console
        self._left = list(load_seconds)
        self._total = len(load_seconds)
        self._overhead_seconds = 0.0
        self._began = 0.0
        self._name = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._show("")

    def leave_out(self, cells: int) -> None:
        """Takes the next cells from the plan."""
        del self._left[:cells]
        self._total -= cells

    def begin(self, name: str) -> None:
        self._began = time.monotonic()
        self._name = name
        self._show(f"{self._done + 1} of {self._total}, {format.duration(self._seconds_left())} left: {name}")

    def done(self, cell: Cell) -> None:
        """Counts a cell as done."""
        self._overhead_seconds += time.monotonic() - self._began - self._left.pop(0)
        if not self._console.is_terminal:
            self._console.print(
                f"{self._done} of {self._total}: {self._name}: {cell.said}", highlight=False, soft_wrap=True
            )

    def _show(self, said: str) -> None:
        if self._console.is_terminal:
            # Return to the start of the line and clear it; rich would remove the carriage return.
            self._console.file.write(f"\r\033[K{said}")
            self._console.file.flush()

    @property
    def _done(self) -> int:
        return self._total - len(self._left)

    def _seconds_left(self) -> float:
        each = self._overhead_seconds / self._done if self._done else OVERHEAD_SECONDS_AT_FIRST
        return sum(self._left) + each * len(self._left)
