"""Viewers of a streaming server with a simulated clock: they start one after the other, and all continue to play.

The server is never late, because its work takes no simulated time. The timestamps of received packets show whether it
sent everything: if a viewer received less of the film than the elapsed time, the run is void.
"""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sojourn.cache_misses.counts import Counts
from sojourn.cache_misses.program import Program
from sojourn.cache_misses.receiver import Received, Receiver
from sojourn.cache_misses.rtsp import Conversation, Film
from sojourn.failure import CouldNotRun

ANSWER_LIMIT_SECONDS = 120.0
"""The timeout of a response from a simulated server, which is slow."""
BEGINNING_SECONDS = 1.0
"""The time over which viewers start evenly, so that they do not all need the same at the same moment."""
PLAYED_SECONDS_MAX = 50.0
"""The longest play time: viewers send no reports, and servers end a session after a minute without any."""
BEHIND_SECONDS = 1.0
"""A viewer whose film lags the clock by more is behind: audio packets may hold almost a second."""
_START_STEP_SECONDS = 0.05
_START_STEPS_MAX = 200
_DESCRIPTORS_BESIDE = 64
_DESCRIPTORS_OF_A_VIEWER = 5


@dataclass(frozen=True)
class Viewers:
    """The viewers of a streaming server."""

    films: Sequence[str]
    """Paths of films, assigned to the viewers in turn."""
    clients: int
    seconds: float
    """The play time of all viewers in the shorter runs; the longer runs last twice as long."""

    unit = "stream_second"
    steps = True

    def __post_init__(self) -> None:
        if 2 * self.seconds + BEGINNING_SECONDS > PLAYED_SECONDS_MAX:
            most = (PLAYED_SECONDS_MAX - BEGINNING_SECONDS) / 2
            raise CouldNotRun(
                f"{self.seconds:g} s is too long for viewers that send no RTCP reports", f"give {most:g} s at most"
            )

    @property
    def units(self) -> float:
        """Stream-seconds of the shorter runs."""
        return self.clients * self.seconds

    def as_json(self) -> dict[str, object]:
        return {"clients": self.clients, "seconds": self.seconds, "films": len(self.films)}

    def ask(self, url: str, program: Program, factor: int) -> Counts:
        """Plays for `factor` times the seconds; returns counts of what was received."""
        _allow_descriptors(_DESCRIPTORS_BESIDE + _DESCRIPTORS_OF_A_VIEWER * self.clients)
        with contextlib.ExitStack() as stack:
            receiver = stack.enter_context(Receiver())
            playing = []
            for place in range(self.clients):
                film = url.rstrip("/") + self.films[place % len(self.films)]
                viewer = Viewer(film, program)
                stack.callback(viewer.close)
                viewer.begin(receiver, factor * self.seconds + BEGINNING_SECONDS)
                playing.append(viewer)
                passed = program.pass_time(BEGINNING_SECONDS / self.clients)
                viewer.began = passed - BEGINNING_SECONDS / self.clients
            end = program.pass_time(factor * self.seconds)
            receiver.wait_until_read()
            # The end of sessions is excluded from all runs.
            program.end()
            return _seen(playing, end)


class Viewer:
    def __init__(self, url: str, program: Program) -> None:
        self.began = 0.0
        """When the viewers began, in the server's virtual time."""
        self.tracks = list[Received]()
        self._talk = Conversation(url, _connected(url, program))
        self.url = url

    def begin(self, receiver: Receiver, seconds: float) -> None:
        film = self._talk.describe()
        _check(self.url, film, seconds)
        session = ""
        for track in film.tracks:
            port, received = receiver.open(track.clock)
            session = self._talk.set_up(track, (port, port + 1), session)
            self.tracks.append(received)
        self._talk.play(session)
        self._talk.settle()

    def is_behind(self, now: float) -> bool:
        """Returns true if a track received less than the elapsed time."""
        return any(track.seconds < now - self.began - BEHIND_SECONDS for track in self.tracks)

    def close(self) -> None:
        self._talk.close()


def films_of(path: Path) -> list[str]:
    """The films of a list, a path per line."""
    try:
        films = path.read_text().split()
    except (OSError, ValueError) as error:
        raise CouldNotRun(f"{path} is not a list of films: {error}", "write a path in each line") from error
    if not films:
        raise CouldNotRun(f"{path} lists no film", "write a path in each line")
    return [f"/{film.lstrip('/')}" for film in films]


def _seen(viewers: Sequence[Viewer], end: float) -> Counts:
    tracks = [track for viewer in viewers for track in viewer.tracks]
    return {
        "packets": sum(track.packets for track in tracks),
        "bytes": sum(track.bytes for track in tracks),
        "lost": sum(track.lost for track in tracks),
        "behind": sum(viewer.is_behind(end) for viewer in viewers),
    }


def _check(url: str, film: Film, seconds: float) -> None:
    if film.seconds is not None and film.seconds < seconds:
        what = f"{url} lasts {film.seconds:g} s, but viewers play for up to {seconds:g} s"
        raise CouldNotRun(what, "give fewer --seconds, or a longer film")


def _connected(url: str, program: Program) -> socket.socket:
    """Connects once the server accepts; it may need some simulated time to start."""
    parts = urlsplit(url)
    where = (parts.hostname or "", parts.port or 554)
    for _ in range(_START_STEPS_MAX):
        try:
            return socket.create_connection(where, ANSWER_LIMIT_SECONDS)
        except OSError as error:
            if program.has_ended():
                raise CouldNotRun(f"no server listens on {where[0]}:{where[1]}: {error}", program.hint()) from error
        program.pass_time(_START_STEP_SECONDS)
    raise CouldNotRun(f"no server listens on {where[0]}:{where[1]}", program.hint())


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise CouldNotRun(f"so many viewers need {count} descriptors, but the limit is {hard}", "raise ulimit -n")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
