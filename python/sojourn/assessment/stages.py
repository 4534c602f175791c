"""How an assessment reports its progress: the seam between the pipeline and the terminal."""

from __future__ import annotations

from typing import Protocol


class Stages(Protocol):
    """The stages of a long run, one after the other."""

    def begin(self, name: str, total: float | None = None) -> None:
        """Ends the current stage and starts the next one."""

    def update(self, done: float, total: float | None = None, detail: str = "") -> None:
        """Says how far the current stage is."""

    def done(self, detail: str | None = None) -> None:
        """Ends the current stage; `detail` is its result in a few words."""
