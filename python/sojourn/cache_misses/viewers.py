"""Viewers of a streaming server whose time passes in steps: each begins a little after the one before, and all play on.

The server is late for nothing, since what it does takes no time of its own. That it sent what it should is seen in the
time stamps of what came: a viewer who got less of a film than time has passed was behind, and the run is void.
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
"""A simulated server is slow, not that slow."""
BEGINNING_SECONDS = 1.0
"""Viewers begin evenly within it, so that not all of them want the same at the same moment."""
PLAYED_SECONDS_MAX = 50.0
"""Viewers report nothing, and servers end a session of which nothing was heard for a minute."""
BEHIND_SECONDS = 1.0
"""A viewer that has so much less of the film than time has passed is behind: sound may come in packets of most of a
second."""
_START_STEP_SECONDS = 0.05
_START_STEPS_MAX = 200
_DESCRIPTORS_BESIDE = 64
_DESCRIPTORS_OF_A_VIEWER = 5


@dataclass(frozen=True)
class Viewers:
    """What is asked of a streaming server."""

    films: Sequence[str]
    """Paths, dealt to the viewers in turn."""
    clients: int
    seconds: float
    """For how long all play in the shorter runs; the longer are twice as long."""

    unit = "stream_second"
    steps = True

    def __post_init__(self) -> None:
        if 2 * self.seconds + BEGINNING_SECONDS > PLAYED_SECONDS_MAX:
            most = (PLAYED_SECONDS_MAX - BEGINNING_SECONDS) / 2
            raise CouldNotRun(
                f"{self.seconds:g} s is too long for viewers that report nothing", f"give {most:g} s at most"
            )

    @property
    def units(self) -> float:
        """Stream-seconds of the shorter runs."""
        return self.clients * self.seconds

    def as_json(self) -> dict[str, object]:
        """What was asked."""
        return {"clients": self.clients, "seconds": self.seconds, "films": len(self.films)}

    def ask(self, url: str, program: Program, factor: int) -> Counts:
        """All play for `factor` times the seconds; what came."""
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
            # What a viewer's leaving takes is in no run.
            program.end()
            return _seen(playing, end)


class Viewer:
    """One of them."""

    def __init__(self, url: str, program: Program) -> None:
        self.began = 0.0
        """Of the time that passes for the server."""
        self.tracks = list[Received]()
        self._talk = Conversation(url, _connected(url, program))
        self.url = url

    def begin(self, receiver: Receiver, seconds: float) -> None:
        """Plays."""
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
        """Whether less of a track came than there was time for."""
        return any(track.seconds < now - self.began - BEHIND_SECONDS for track in self.tracks)

    def close(self) -> None:
        """Leaves."""
        self._talk.close()


def films_of(path: Path) -> list[str]:
    """The films of a list: a path in each line."""
    try:
        films = path.read_text().split()
    except (OSError, ValueError) as error:
        raise CouldNotRun(f"{path} is no list of films: {error}", "write a path in each line") from error
    if not films:
        raise CouldNotRun(f"{path} names no film", "write a path in each line")
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
        what = f"{url} lasts {film.seconds:g} s, and viewers are to play for up to {seconds:g} s"
        raise CouldNotRun(what, "give fewer --seconds, or a longer film")


def _connected(url: str, program: Program) -> socket.socket:
    """A server may need some of its own time to start."""
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
        raise CouldNotRun(f"so many viewers need {count} descriptors, and {hard} are allowed", "raise ulimit -n")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
