"""Where a fit says how far it is: whoever shows it gives stages, and nobody has to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Stages(Protocol):
    """Shows the stages of a fit."""

    def begin(self, name: str, total: float | None = None) -> None:
        """Ends the current stage and starts the next one."""

    def update(self, done: float, total: float | None = None) -> None:
        """Says how far the current stage is."""


class _Unseen:
    def begin(self, name: str, total: float | None = None) -> None:
        """Says nothing."""

    def update(self, done: float, total: float | None = None) -> None:
        """Says nothing."""


UNSEEN: Stages = _Unseen()
"""For a fit that nobody watches."""


def followed(stages: Stages, name: str, parts: Iterable[T], count: int) -> Iterator[T]:
    """The parts of a stage, each of which is done when the next one is asked for."""
    stages.begin(name, count)
    for done, part in enumerate(parts, 1):
        yield part
        stages.update(done, count)
