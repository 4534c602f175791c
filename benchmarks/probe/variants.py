"""The ways to observe a server: not at all, with all sources, or with one group of sources alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.commands.probe import SOURCES


@dataclass(frozen=True)
class Variant:
    """A way to observe a server."""

    name: str
    is_probed: bool = True
    sources: str | None = None
    """None reads all sources that the machine offers."""


OFF = Variant("off", is_probed=False)
OFF_AGAIN = Variant("off again", is_probed=False)
"""Compared with the first, it shows the error of the comparison itself."""
ALL = Variant("all")
COMPARED: Sequence[Variant] = (OFF, OFF_AGAIN, ALL)
ALONE: Sequence[Variant] = (
    # The benchmark names no control group: its files are read without touching the server.
    *(Variant(name, sources=name) for name in SOURCES if name != "cgroup"),
)
VARIANTS: Sequence[Variant] = (*COMPARED, *ALONE)
