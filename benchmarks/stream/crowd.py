"""Viewers by UDP who cost the machine next to nothing: sessions that share a few ports, at which nobody reads.

A viewer of the generator takes five descriptors and looks at every packet. Of these, many share a connection for what
they ask and a pair of ports for what they get; what a socket's small buffer does not hold, the kernel drops there.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from urllib.parse import urljoin, urlsplit

from sojourn.failure import CouldNotRun

PORTS = 256
SESSIONS_PER_CONNECTION = 30
TIMEOUT_SECONDS = 20.0
RECEIVE_BUFFER_BYTES = 1
"""The kernel makes it the least it allows."""
HEAD_BYTES_MAX = 65536
_LOOPBACK = "127.0.0.1"


@dataclass
class _Connection:
    """A connection over which sessions are set up, one request after the other."""

    socket: socket.socket
    asked: int = 0
    waited_for: int = 0
    """Answers that are still to come."""

    def send(self, method: str, url: str, *fields: str) -> None:
        self.asked += 1
        self.waited_for += 1
        lines = [f"{method} {url} RTSP/1.0", f"CSeq: {self.asked}", *fields]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())

    def ask(self, method: str, url: str, *fields: str) -> str:
        """The answer's head, and body if it came with it.

        Raises:
            CouldNotRun: the server refuses, or says nothing.
        """
        self.send(method, url, *fields)
        (text,) = self.answers(f"{method} {url}")
        return text

    def answers(self, what: str) -> list[str]:
        """The heads of all that is still to come, and of the last one's body what came with it.

        Raises:
            CouldNotRun: the server refuses, or says nothing.
        """
        came = b""
        try:
            while came.count(b"\r\n\r\n") < self.waited_for and (more := self.socket.recv(HEAD_BYTES_MAX)):
                came += more
        except OSError as error:
            raise CouldNotRun(f"{what} is not answered: {error}") from error
        self.waited_for = 0
        texts = re.split(r"(?<=\r\n\r\n)(?=RTSP/)", came.decode(errors="replace"))
        if refused := next((text for text in texts if not text.startswith("RTSP/1.0 200 ")), None):
            raise CouldNotRun(f"{what} is answered {refused.partition(chr(13))[0]!r}")
        return texts


@dataclass(frozen=True)
class _Session:
    connection: _Connection
    identifier: str

    def play(self, url: str, begin_seconds: float) -> None:
        """Asks to be played to; the answer is not waited for yet."""
        self.connection.send("PLAY", url, f"Session: {self.identifier}", f"Range: npt={begin_seconds:.2f}-")


@contextmanager
def watching(url: str, sessions: int, come_within_seconds: float, begin_within_seconds: float) -> Iterator[None]:
    """So many sessions, which begin evenly over a time and at random points of the film's first seconds.

    Raises:
        CouldNotRun: the server does not take them, or does not play to all.
    """
    random = Random(1)
    with ExitStack() as stack:
        ports = [stack.enter_context(_sink()).getsockname()[1] for _ in range(PORTS)]
        held: list[_Session] = []
        connections: list[_Connection] = []
        controls: list[str] = []
        for number in range(sessions):
            if number % SESSIONS_PER_CONNECTION == 0:
                connections.append(_Connection(stack.enter_context(_connected(url))))
                controls = controls or _controls(connections[-1].ask("DESCRIBE", url), url)
            held.append(_set_up(connections[-1], controls, random.sample(ports, 2)))
        began = time.monotonic()
        for number, session in enumerate(held):
            time.sleep(max(0.0, began + number / sessions * come_within_seconds - time.monotonic()))
            session.play(url, random.uniform(0, begin_within_seconds))
        for connection in connections:
            connection.answers(f"PLAY {url}")
        yield


def _set_up(connection: _Connection, controls: list[str], ports: list[int]) -> _Session:
    """A session with all tracks of the film."""
    transport = "Transport: RTP/AVP;unicast;client_port={}-{}".format(*ports)
    session: list[str] = []
    for control in controls:
        answer = connection.ask("SETUP", control, transport, *session)
        found = re.search(r"^Session: *(\w+)", answer, re.MULTILINE)
        if found is None:
            raise CouldNotRun(f"SETUP {control} is answered without a session")
        session = [f"Session: {found[1]}"]
    return _Session(connection, session[0].removeprefix("Session: "))


def _controls(description: str, url: str) -> list[str]:
    """The URLs of the film's tracks, which stand after its own."""
    found = re.search(r"^Content-Base: *(\S+)", description, re.MULTILINE)
    base = found[1] if found else f"{url}/"
    media = description.partition("\nm=")[2]
    named = re.findall(r"^a=control:(\S+)", media, re.MULTILINE)
    if not named:
        raise CouldNotRun(f"the description of {url} names no track")
    # urljoin knows relative URLs of http alone.
    return [
        each if "://" in each else urljoin(base.replace("rtsp", "http", 1), each).replace("http", "rtsp", 1)
        for each in named
    ]


def _connected(url: str) -> socket.socket:
    split = urlsplit(url)
    return socket.create_connection((split.hostname or _LOOPBACK, split.port or 554), TIMEOUT_SECONDS)


def _sink() -> socket.socket:
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    sink.bind((_LOOPBACK, 0))
    return sink
