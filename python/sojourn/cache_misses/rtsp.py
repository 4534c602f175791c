"""As much of RTSP as viewers need that are no players: DESCRIBE, SETUP of each track by UDP, PLAY."""

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
    """A picture or a sound."""

    url: str
    clock: int
    """Ticks of its time stamps in a second."""


@dataclass(frozen=True)
class Film:
    """What a description says of a film."""

    tracks: list[Track]
    seconds: float | None
    """None if it does not say."""


class Conversation:
    """A connection to a streaming server, in which any number of sessions see one film."""

    def __init__(self, url: str, connection: socket.socket) -> None:
        self.url = url
        self._connection = connection
        self._answers = connection.makefile("rb")
        self._number = 0
        self._unsettled = 0

    def close(self) -> None:
        """Ends it."""
        self._answers.close()
        self._connection.close()

    def describe(self) -> Film:
        """What there is to be seen."""
        fields, body = self._ask("DESCRIBE", self.url, "Accept: application/sdp")
        return described(body, fields.get("content-base", self.url))

    def set_up(self, track: Track, ports: tuple[int, int], session: str = "") -> str:
        """Has a track come to one UDP port and its reports to another; the session, a new one if none is given."""
        transport = "Transport: RTP/AVP;unicast;client_port={}-{}".format(*ports)
        fields, _ = self._ask("SETUP", track.url, transport, *([f"Session: {session}"] if session else []))
        if not (session := fields.get("session", "").split(";")[0]):
            raise CouldNotRun(f"SETUP {track.url} was answered without a session")
        return session

    def play(self, session: str, begin_seconds: float = 0.0) -> None:
        """Asks for a session's film from so far on; `settle` waits for the answer."""
        self._send("PLAY", self.url, f"Session: {session}", f"Range: npt={round(begin_seconds, 2):g}-")
        self._unsettled += 1

    def settle(self) -> None:
        """Waits until the server plays to all who asked."""
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
                raise CouldNotRun(f"{method} {url} was answered by what is no RTSP: {first[:80]!r}")
            fields = dict[str, str]()
            while line := self._answers.readline().decode(errors="replace").strip():
                name, _, value = line.partition(":")
                fields[name.strip().lower()] = value.strip()
            body = self._answers.read(int(fields.get("content-length", "0"))).decode(errors="replace")
        if int(found["code"]) != HTTPStatus.OK:
            hint = "name films that the server has, and no more viewers than it lets in"
            raise CouldNotRun(f"{method} {url} was answered with {found['code'].decode()}", hint)
        return fields, body


@contextmanager
def _answering(method: str, url: str) -> Iterator[None]:
    """What goes wrong on the way to an answer."""
    try:
        yield
    except OSError as error:
        raise CouldNotRun(f"no answer to {method} {url}: {error or type(error).__name__}") from error


def described(text: str, base: str) -> Film:
    """The film of a description.

    Raises:
        CouldNotRun: there is no track in it that could be set up.
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
