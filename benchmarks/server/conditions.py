"""The conditions: documents, use of connections, numbers of clients. You select a condition by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.server import httparena
from sojourn.workload.site import Document

Connection = Literal["keep-alive", "close"]

Handshake = Literal["full", "resumed"]

Protocol = Literal["http", "https", "http2"]
"""HTTP/1.1 in clear text, HTTP/1.1 by TLS, HTTP/2 by TLS."""

CLIENTS = 64
SECURE_CLIENTS = 10
HANDSHAKE_CLIENTS = 4
"""The generator keeps eight sessions to resume, one for a connection; some servers give it one by each connection."""
ARENA_CLIENTS = (64, 1_024, 4_096)
IDLE_CONNECTIONS = 10_000
SIZES_BYTES = {"500B": 500, "5KB": 5_000, "50KB": 50_000, "500KB": 500_000, "5MB": 5_000_000}


@dataclass(frozen=True)
class Condition:
    """A row of the plan; `idle` ones hold connections open instead of loading the server."""

    name: str
    title: str
    size: str
    connection: Connection = "keep-alive"
    clients: int = CLIENTS
    access_log: bool = False
    idle: bool = False
    protocol: Protocol = "http"
    streams: int = 1
    """Requests under way at once on each connection of HTTP/2."""
    handshake: Handshake | None = None
    """What each request's connection begins with, if connections are what is measured."""
    is_arena: bool = False
    """The files of HttpArena's static profile at random instead of one document."""
    is_start: bool = False
    """The server is started, and asked once."""

    @property
    def is_load(self) -> bool:
        """Returns true if what is measured is the CPU time of requests."""
        return not (self.idle or self.is_start)

    @property
    def path(self) -> str:
        """Returns the document's path on every server; a folder's if there are several."""
        return httparena.FOLDER if self.is_arena else f"/{self.size}"

    @property
    def size_bytes(self) -> int:
        return SIZES_BYTES[self.size]


_HANDSHAKES: Sequence[Handshake] = ("full", "resumed")
_SECURE_SIZES = {"500B": "500 B", "50KB": "50 KB"}
_SECURE_BULK = {"5MB": "5 MB"}
"""For bytes per second: what encryption costs, without the cost of requests."""
HTTP2_STREAMS = (1, 10, 100)
SECURE: Sequence[Condition] = (
    *(
        Condition(
            f"https-{size}", f"{shown}, TLS, HTTP/1.1, 10 clients", size, clients=SECURE_CLIENTS, protocol="https"
        )
        for size, shown in (_SECURE_SIZES | _SECURE_BULK).items()
    ),
    *(
        Condition(
            f"http2-{size}-{streams}",
            f"{shown}, TLS, HTTP/2, 10 clients, each with {streams} at once",
            size,
            clients=SECURE_CLIENTS,
            protocol="http2",
            streams=streams,
        )
        for size, shown in _SECURE_SIZES.items()
        for streams in HTTP2_STREAMS
    ),
)
"""The conditions with TLS that keep their connections."""

HANDSHAKES: Sequence[Condition] = tuple(
    Condition(
        f"handshake-{handshake}",
        f"500 B, TLS, a {handshake} handshake per request, {HANDSHAKE_CLIENTS} clients",
        "500B",
        connection="close",
        clients=HANDSHAKE_CLIENTS,
        protocol="https",
        handshake=handshake,
    )
    for handshake in _HANDSHAKES
)
"""The conditions in which requests per second are handshakes per second."""

ARENA: Sequence[Condition] = tuple(
    Condition(
        f"httparena-{clients}",
        f"the static files of HttpArena, {clients:,} clients",
        "5KB",
        clients=clients,
        is_arena=True,
    )
    for clients in ARENA_CLIENTS
)

CONDITIONS: Sequence[Condition] = (
    Condition("keep-alive-500B", "500 B, keep-alive, 64 clients", "500B"),
    Condition("keep-alive-5KB", "5 KB, keep-alive, 64 clients", "5KB"),
    Condition("keep-alive-50KB", "50 KB, keep-alive, 64 clients", "50KB"),
    Condition("keep-alive-500KB", "500 KB, keep-alive, 64 clients", "500KB"),
    Condition("keep-alive-5MB", "5 MB, keep-alive, 64 clients", "5MB"),
    Condition("close-500B", "500 B, a connection per request, 64 clients", "500B", connection="close"),
    Condition("clients-500", "500 B, keep-alive, 500 clients", "500B", clients=500),
    Condition("clients-5000", "500 B, keep-alive, 5,000 clients", "500B", clients=5_000),
    Condition("access-log", "500 B, keep-alive, 64 clients, access log on", "500B", access_log=True),
    *ARENA,
    *SECURE,
    *HANDSHAKES,
    Condition("idle", f"{IDLE_CONNECTIONS:,} idle connections", "500B", clients=IDLE_CONNECTIONS, idle=True),
    Condition("start", "start to the first answer", "500B", clients=1, is_start=True),
)


def documents() -> list[Document]:
    """Makes the site that every server serves."""
    return [(f"/{name}", size_bytes) for name, size_bytes in SIZES_BYTES.items()] + httparena.documents()
