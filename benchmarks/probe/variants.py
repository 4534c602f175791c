"""In which ways a server is observed: not at all, by everything, or by one group of sources alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.commands.probe import SOURCES


@dataclass(frozen=True)
class Variant:
    """A way to be observed."""

    name: str
    is_probed: bool = True
    sources: str | None = None
    """None reads everything that the machine offers."""


OFF = Variant("off", is_probed=False)
OFF_AGAIN = Variant("off again", is_probed=False)
"""Beside the first, it says what the comparison makes of no difference at all."""
ALL = Variant("all")
COMPARED: Sequence[Variant] = (OFF, OFF_AGAIN, ALL)
ALONE: Sequence[Variant] = (
    # No control group was named: its files are read without touching the server.
    *(Variant(name, sources=name) for name in SOURCES if name != "cgroup"),
)
VARIANTS: Sequence[Variant] = (*COMPARED, *ALONE)
