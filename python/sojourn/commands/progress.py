"""Shows progress on standard error: bars on a terminal, a line per stage elsewhere, nothing in quiet mode."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Stages:
    """The stages of a long command, with a bar each."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<14}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
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
        self._current = self._bars.add_task(name, total=total, detail="")

    def update(self, done: float, total: float | None = None, detail: str = "") -> None:
        """Updates the progress of the current stage."""
        if self._current is not None:
            self._bars.update(self._current, completed=done, detail=detail, total=total)

    def done(self, detail: str | None = None) -> None:
        """Ends the current stage with a short note on its result."""
        if self._current is None:
            return
        task = self._bars.tasks[self._current]
        said = task.fields["detail"] if detail is None else detail
        total = task.total or 1.0
        self._bars.update(self._current, completed=total, total=total, detail=said)
        self._bars.stop_task(self._current)
        if not self._quiet and not self._console.is_terminal:
            self._console.print(f"{self._name}: {said}" if said else self._name, highlight=False, soft_wrap=True)
        self._current = None
