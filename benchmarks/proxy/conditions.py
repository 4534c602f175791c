"""The conditions: responses from the proxy's memory, forwarded responses, and responses that it also stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.server import conditions
from benchmarks.server.conditions import SIZES_BYTES
from sojourn.workload.site import Document

Kind = Literal["hit", "pass", "keep", "fastcgi", "store"]
"""hit: one document from memory, with the origin stopped. pass: documents never requested before that must not be
stored. keep: the same, but stored. fastcgi: as pass, from an application. store: the memory of stored documents."""

STORED_OBJECTS = 50_000
SIZES = ("500B", "5KB", "50KB", "500KB")
CACHE_CONTROL: dict[Kind, str] = {
    "hit": "max-age=86400",
    "pass": "no-store",
    "keep": "max-age=86400",
    "fastcgi": "no-store",
    "store": "max-age=86400",
}
"""The origin's Cache-Control."""


@dataclass(frozen=True)
class Condition(conditions.Condition):
    """A row of the plan; `store` counts as `idle`, because it measures memory, not load."""

    of: Kind = "hit"


def _condition(kind: Kind, size: str, words: str) -> Condition:
    shown = f"{SIZES_BYTES[size]:,}".replace(",000", " KB") + ("" if size.endswith("KB") else " B")
    return Condition(f"{kind}-{size}", f"{shown}, {words}", size, of=kind)


CONDITIONS: Sequence[Condition] = (
    *(_condition("hit", size, "from memory") for size in SIZES),
    *(_condition("pass", size, "through from the origin, not kept") for size in SIZES[:3]),
    *(_condition("keep", size, "through from the origin, and kept") for size in SIZES[:3]),
    *(_condition("fastcgi", size, "from an application by FastCGI, not kept") for size in SIZES[:3]),
    Condition("store-500B", f"{STORED_OBJECTS:,} answers of 500 B", "500B", idle=True, of="store"),
)


def documents() -> list[Document]:
    """The documents that the origin returns."""
    return [(f"/{name}", SIZES_BYTES[name]) for name in SIZES]
