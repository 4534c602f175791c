"""One client, one connection, one request at a time: the server never chooses what to do first.

It begins when the server has nothing to do and ends when it has nothing to do again, so that no two things happen at
once whose order could be another in the next run.
"""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sojourn.cache_misses.counts import Counts
from sojourn.cache_misses.program import Program
from sojourn.failure import CouldNotRun

ANSWER_LIMIT_SECONDS = 60.0
"""A simulated server is slow, not that slow."""
QUIET_SECONDS = 0.1
"""A server none of whose threads has run for this long has nothing to do."""
QUIET_LIMIT_SECONDS = 30.0
_CONNECT_EVERY_SECONDS = 0.05
_START_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Mix:
    """What is asked for: paths and how often, drawn from a seed."""

    paths: Sequence[str]
    weights: Sequence[float]

    @classmethod
    def of_filelist(cls, path: Path) -> Mix:
        """From a WebStone file list: lines of `/path weight`."""
        paths, weights = list[str](), list[float]()
        try:
            for line in path.read_text().splitlines():
                words = line.split("#")[0].split()
                if words:
                    paths.append(words[0])
                    weights.append(float(words[1]))
        except (OSError, IndexError, ValueError) as error:
            raise CouldNotRun(f"{path} is not a file list: {error}", "write lines of `/path weight`") from error
        if not paths or sum(weights) <= 0:
            raise CouldNotRun(f"{path} names nothing to ask for", "write lines of `/path weight`")
        return cls(paths, weights)

    def draw(self, count: int, seed: int) -> list[str]:
        """The first `count` requests; a longer list begins with the shorter one."""
        return random.Random(seed).choices(self.paths, self.weights, k=count)


@dataclass(frozen=True)
class Requests:
    """What is asked of a web server."""

    mix: Mix
    requests: int = 500
    """In the shorter runs; the longer make twice as many."""
    seed: int = 1

    unit = "request"
    steps = False

    @property
    def units(self) -> float:
        """Requests of the shorter runs."""
        return self.requests

    def as_json(self) -> dict[str, object]:
        """What was asked."""
        return {"requests": self.requests, "seed": self.seed}

    def ask(self, url: str, program: Program, factor: int) -> Counts:
        """Makes `factor` times the requests, each once the one before is answered."""
        parts = urlsplit(url)
        connection = _connected(http.client.HTTPConnection(parts.netloc, timeout=ANSWER_LIMIT_SECONDS), program)
        with connection.sock:
            wait_until_quiet(program)
            for path in self.mix.draw(factor * self.requests, self.seed):
                _ask(connection, parts.path.rstrip("/"), path, program)
        # Also with the end of the connection.
        wait_until_quiet(program)
        return {}


def _ask(connection: http.client.HTTPConnection, below: str, path: str, program: Program) -> None:
    try:
        connection.request("GET", below + path)
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException) as error:
        raise CouldNotRun(f"no answer to {path}: {error or type(error).__name__}", program.hint()) from error
    if response.status != http.client.OK:
        raise CouldNotRun(f"{path} was answered with {response.status}", "name paths that the server has")


def wait_until_quiet(program: Program) -> None:
    """Returns once none of the server's threads runs any more."""
    deadline = time.monotonic() + QUIET_LIMIT_SECONDS
    before = program.activity()
    while True:
        time.sleep(QUIET_SECONDS)
        now = program.activity()
        if now == before:
            return
        if time.monotonic() > deadline:
            raise CouldNotRun("the server does not come to rest", "its own timers run, or somebody else asks it")
        before = now


def _connected(connection: http.client.HTTPConnection, program: Program) -> http.client.HTTPConnection:
    deadline = time.monotonic() + _START_LIMIT_SECONDS
    while True:
        try:
            connection.connect()
            return connection
        except OSError as error:
            if program.has_ended() or time.monotonic() > deadline:
                where = f"{connection.host}:{connection.port}"
                raise CouldNotRun(f"no server listens on {where}: {error}", program.hint()) from error
        time.sleep(_CONNECT_EVERY_SECONDS)
