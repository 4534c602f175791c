"""The conditions: responses of an application that keeps running, and of a process for each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.server import conditions
from sojourn.workload.site import Document

Kind = Literal["fastcgi", "cgi"]

SIZES_BYTES = {"1KB": 1_000, "5KB": 5_000, "50KB": 50_000}
CGI_CLIENTS = 4
"""Each client has a process on the server's core: more clients would only wait."""


@dataclass(frozen=True)
class Condition(conditions.Condition):
    """A row of the plan."""

    of: Kind = "fastcgi"

    @property
    def size_bytes(self) -> int:
        """The size of the body."""
        return SIZES_BYTES[self.size]


def _fastcgi(size: str) -> Condition:
    return Condition(f"fastcgi-{size}", f"{size.replace('KB', ' KB')} by FastCGI", size)


CONDITIONS: Sequence[Condition] = (
    *(_fastcgi(size) for size in SIZES_BYTES),
    Condition("cgi-1KB", "1 KB by CGI", "1KB", clients=CGI_CLIENTS, of="cgi"),
)


def documents() -> list[Document]:
    """The documents that the application returns."""
    return [(f"/{name}", size) for name, size in SIZES_BYTES.items()]
