"""A minimal RTSP client for viewers: DESCRIBE, SETUP of each track over UDP, PLAY."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from sojourn.failure import CouldNotRun

_RANGE = re.compile(r"a=range:npt=[\d.]*-(?P<end>[\d.]+)\s*$", re.MULTILINE)
_CLOCK = re.compile(r"a=rtpmap:\d+ [^/]+/(?P<rate>\d+)")
_CONTROL = re.compile(r"a=control:(?P<url>\S+)")
_STATUS = re.compile(rb"RTSP/1\.0 (?P<code>\d{3})")


@dataclass(frozen=True)
class Track:
    """A video or audio track."""

    url: str
    clock: int
    """Ticks per second of its timestamps."""


@dataclass(frozen=True)
class Film:
    """A film as described by the server."""

    tracks: list[Track]
    seconds: float | None
    """The film's length; None if unknown."""


class Conversation:
    """A connection to a streaming server, shared by any number of sessions of one film."""

    def __init__(self, url: str, connection: socket.socket) -> None:
        self.url = url
        self._connection = connection
        self._answers = connection.makefile("rb")
        self._number = 0
        self._unsettled = 0

    def close(self) -> None:
        self._answers.close()
        self._connection.close()

    def describe(self) -> Film:
        """Requests the film's description."""
        fields, body = self._ask("DESCRIBE", self.url, "Accept: application/sdp")
        return described(body, fields.get("content-base", self.url))

    def set_up(self, track: Track, ports: tuple[int, int], session: str = "") -> str:
        """Sets a track up with one UDP port for packets and one for reports, in a new session if none is given."""
        transport = "Transport: RTP/AVP;unicast;client_port={}-{}".format(*ports)
        fields, _ = self._ask("SETUP", track.url, transport, *([f"Session: {session}"] if session else []))
        if not (session := fields.get("session", "").split(";")[0]):
            raise CouldNotRun(f"SETUP {track.url} was answered without a session")
        return session

    def play(self, session: str, begin_seconds: float = 0.0) -> None:
        """Starts playing a session's film from this time; `settle` waits for the response."""
        self._send("PLAY", self.url, f"Session: {session}", f"Range: npt={round(begin_seconds, 2):g}-")
        self._unsettled += 1

    def settle(self) -> None:
        """Waits until the server plays all sessions that asked."""
        while self._unsettled:
            self._answer("PLAY", self.url)
            self._unsettled -= 1

    def _ask(self, method: str, url: str, *fields: str) -> tuple[dict[str, str], str]:
        self._send(method, url, *fields)
        return self._answer(method, url)

    def _send(self, method: str, url: str, *fields: str) -> None:
        self._number += 1
        lines = [f"{method} {url} RTSP/1.0", f"CSeq: {self._number}", *fields, "", ""]
        with _answering(method, url):
            self._connection.sendall("\r\n".join(lines).encode())

    def _answer(self, method: str, url: str) -> tuple[dict[str, str], str]:
        with _answering(method, url):
            found = _STATUS.match(first := self._answers.readline())
            if found is None:
                raise CouldNotRun(f"{method} {url} got a response that is not RTSP: {first[:80]!r}")
            fields = dict[str, str]()
            while line := self._answers.readline().decode(errors="replace").strip():
                name, _, value = line.partition(":")
                fields[name.strip().lower()] = value.strip()
            body = self._answers.read(int(fields.get("content-length", "0"))).decode(errors="replace")
        if int(found["code"]) != HTTPStatus.OK:
            hint = "use films that the server has, and no more viewers than it admits"
            raise CouldNotRun(f"{method} {url} was answered with {found['code'].decode()}", hint)
        return fields, body


@contextmanager
def _answering(method: str, url: str) -> Iterator[None]:
    """Converts errors while waiting for a response."""
    try:
        yield
    except OSError as error:
        raise CouldNotRun(f"no answer to {method} {url}: {error or type(error).__name__}") from error


def described(text: str, base: str) -> Film:
    """Parses a session description.

    Raises:
        CouldNotRun: it has no track that can be set up.
    """
    whole, *media = re.split(r"^(?=m=)", text, flags=re.MULTILINE)
    tracks = [
        Track(_below(base, control["url"]), int(clock["rate"]))
        for each in media
        if (control := _CONTROL.search(each)) is not None and (clock := _CLOCK.search(each)) is not None
    ]
    if not tracks:
        raise CouldNotRun(f"{base} has no track", "name a film")
    end = _RANGE.search(whole)
    return Film(tracks, None if end is None else float(end["end"]))


def _below(base: str, control: str) -> str:
    return control if urlsplit(control).scheme else f"{base.rstrip('/')}/{control}"
