"""Shows progress on standard error: bars on a terminal, a line per stage elsewhere, nothing in quiet mode."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from sojourn.text import format

if TYPE_CHECKING:
    from sojourn.engine.progress import ProgressLine
    from sojourn.report.live.server import LivePage


FRACTION_MIN = 0.05
"""From less progress, the time left cannot be told."""
SECONDS_MIN = 3.0
"""Shorter stages are over before it helps."""


class _Times(ProgressColumn):
    """How long a stage has taken, and about how long it will still take where its progress tells."""

    def render(self, task: Task) -> Text:
        elapsed = task.finished_time if task.finished else task.elapsed
        if elapsed is None:
            return Text("")
        said = format.duration(round(elapsed))
        left = task.fields["left_seconds"]
        if left is None:
            left = time_left(elapsed, task.completed, task.total)
        return Text(said if left is None or task.finished else f"{said}, {format.duration(round(left))} left")


def time_left(elapsed_seconds: float, done: float, total: float | None) -> float | None:
    """The seconds that the rest takes if it goes on as it went; None if that cannot be told yet."""
    if not total or done < FRACTION_MIN * total or elapsed_seconds < SECONDS_MIN:
        return None
    return elapsed_seconds * (total / done - 1)


class Stages:
    """The stages of a long command, with a bar each; a page of the run shows them, too."""

    def __init__(self, console: Console, *, quiet: bool = False, page: LivePage | None = None) -> None:
        self._console = console
        self._quiet = quiet
        self._page = page
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<14}", markup=False),
            BarColumn(bar_width=24),
            _Times(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._current: TaskID | None = None
        self._name = ""

    def __enter__(self) -> Stages:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def begin(self, name: str, total: float | None = None) -> None:
        """Starts the next stage and ends the previous one."""
        self.done()
        self._name = name
        self._current = self._bars.add_task(name, total=total, detail="", left_seconds=None)
        if self._page is not None:
            self._page.begin_stage(name)

    def update(
        self, done: float, total: float | None = None, detail: str = "", left_seconds: float | None = None
    ) -> None:
        """Updates the progress of the current stage; without `left_seconds`, what is left follows from the progress."""
        if self._current is not None:
            self._bars.update(self._current, completed=done, detail=detail, total=total, left_seconds=left_seconds)
            if self._page is not None:
                if left_seconds is None:
                    left_seconds = time_left(self._bars.tasks[self._current].elapsed or 0.0, done, total)
                left = "" if left_seconds is None else f", {format.about(left_seconds)} left"
                self._page.update_stage(done / total if total else None, f"{detail}{left}")

    def say(self, text: str) -> None:
        """Prints a sentence above the bars, and before the lines of the stages to come."""
        if not self._quiet:
            self._console.print(text, highlight=False, soft_wrap=True)

    @property
    def shows_lines(self) -> bool:
        """Whether anybody sees the lines of loads."""
        return self._page is not None

    def line(self, line: ProgressLine) -> None:
        """Passes a line of a load on, which only the page shows in full."""
        if self._page is not None:
            self._page(line)

    def done(self, detail: str | None = None) -> None:
        """Ends the current stage with a short note on its result."""
        if self._current is None:
            return
        task = self._bars.tasks[self._current]
        said = task.fields["detail"] if detail is None else detail
        total = task.total or 1.0
        self._bars.update(self._current, completed=total, total=total, detail=said)
        self._bars.stop_task(self._current)
        if self._page is not None:
            self._page.end_stage(said)
        if not self._quiet and not self._console.is_terminal:
            self._console.print(f"{self._name}: {said}" if said else self._name, highlight=False, soft_wrap=True)
        self._current = None
