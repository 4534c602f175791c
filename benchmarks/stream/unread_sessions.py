"""UDP viewers that cost the machine next to nothing: sessions that share a few ports, which are never read.

A viewer of the generator needs five descriptors and inspects every packet. Many of these sessions share one RTSP
connection and one pair of ports; the kernel drops the packets that do not fit into the socket's small buffer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from random import Random
from urllib.parse import urlsplit

from sojourn.cache_misses.rtsp import Conversation, Track
from sojourn.systems.server import LOOPBACK

PORTS = 256
SESSIONS_PER_CONNECTION = 30
TIMEOUT_SECONDS = 20.0
RECEIVE_BUFFER_BYTES = 1
"""The kernel raises it to its minimum."""


@contextmanager
def watching(url: str, sessions: int, come_within_seconds: float, begin_within_seconds: float) -> Iterator[None]:
    """Plays this many sessions, which begin evenly over a time and at random points of the film's first seconds.

    Raises:
        CouldNotRun: the server does not accept them, or does not play to all.
    """
    random = Random(1)
    with ExitStack() as stack:
        ports = [stack.enter_context(_sink()).getsockname()[1] for _ in range(PORTS)]
        talks: list[Conversation] = []
        held: list[tuple[Conversation, str]] = []
        tracks: list[Track] = []
        for number in range(sessions):
            if number % SESSIONS_PER_CONNECTION == 0:
                talks.append(stack.enter_context(closing(Conversation(url, _connected(url)))))
                tracks = tracks or talks[-1].describe().tracks
            held.append((talks[-1], _set_up(talks[-1], tracks, random.sample(ports, 2))))
        began = time.monotonic()
        for number, (talk, session) in enumerate(held):
            time.sleep(max(0.0, began + number / sessions * come_within_seconds - time.monotonic()))
            talk.play(session, random.uniform(0, begin_within_seconds))
        for talk in talks:
            talk.settle()
        yield


def _set_up(talk: Conversation, tracks: Sequence[Track], ports: Sequence[int]) -> str:
    """Sets up a session with all tracks of the film."""
    session = ""
    for track in tracks:
        session = talk.set_up(track, (ports[0], ports[1]), session)
    return session


def _connected(url: str) -> socket.socket:
    split = urlsplit(url)
    return socket.create_connection((split.hostname or LOOPBACK, split.port or 554), TIMEOUT_SECONDS)


def _sink() -> socket.socket:
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    sink.bind((LOOPBACK, 0))
    return sink
