"""One client sends one request at a time, so that the server never has a choice of order.

All requests are on one connection, or each on a new one.

It starts and ends when the server is idle, so that no two events happen at once whose order could differ in another
run.
"""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from sojourn.cache_misses.counts import Counts
from sojourn.cache_misses.program import Program
from sojourn.failure import CouldNotRun

ANSWER_LIMIT_SECONDS = 60.0
"""The timeout of a response from a simulated server, which is slow."""
QUIET_SECONDS = 0.1
"""A server whose threads have not run for this long is idle."""
QUIET_LIMIT_SECONDS = 30.0
_START_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Mix:
    """The requested paths with their weights, drawn with a seed."""

    paths: Sequence[str]
    weights: Sequence[float]

    @classmethod
    def of_filelist(cls, path: Path) -> Mix:
        """Reads a WebStone file list: lines of `/path weight`."""
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
            raise CouldNotRun(f"{path} lists no path", "write lines of `/path weight`")
        return cls(paths, weights)

    def draw(self, count: int, seed: int) -> list[str]:
        """The first `count` requests; a longer list starts with the shorter one."""
        return random.Random(seed).choices(self.paths, self.weights, k=count)


@dataclass(frozen=True)
class Requests:
    """The requests for a web server."""

    mix: Mix
    requests: int = 500
    """The number of requests in the shorter runs; the longer runs make twice as many."""
    seed: int = 1
    connection: Literal["keep-alive", "close"] = "keep-alive"
    """One connection for all requests, or one each."""

    unit = "request"
    steps = False

    @property
    def units(self) -> float:
        """The number of requests of the shorter runs."""
        return self.requests

    def as_json(self) -> dict[str, object]:
        return {"requests": self.requests, "seed": self.seed, "connection": self.connection}

    def ask(self, url: str, program: Program, factor: int) -> Counts:
        """Makes `factor` times the requests, each after the response to the previous one."""
        parts = urlsplit(url)
        connection = _connected(http.client.HTTPConnection(parts.netloc, timeout=ANSWER_LIMIT_SECONDS), program)
        with closing(connection):
            wait_until_quiet(program)
            for path in self.mix.draw(factor * self.requests, self.seed):
                _ask(connection, parts.path.rstrip("/"), path, self.connection, program)
        # Including the end of the connection.
        wait_until_quiet(program)
        return {}


def _ask(connection: http.client.HTTPConnection, below: str, path: str, lasting: str, program: Program) -> None:
    try:
        # After a response that closes the connection, this opens another.
        connection.request("GET", below + path, headers={"Connection": lasting})
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException) as error:
        raise CouldNotRun(f"no answer to {path}: {error or type(error).__name__}", program.hint()) from error
    if response.status != http.client.OK:
        raise CouldNotRun(f"{path} was answered with {response.status}", "use paths that the server has")


def wait_until_quiet(program: Program, limit_seconds: float = QUIET_LIMIT_SECONDS) -> None:
    """Waits until none of the server's threads runs."""
    deadline = time.monotonic() + limit_seconds
    before = program.activity()
    while True:
        time.sleep(QUIET_SECONDS)
        now = program.activity()
        if now is not None and now == before:
            return
        if time.monotonic() > deadline:
            raise CouldNotRun("the server does not become idle", "it has timers of its own, or other clients")
        before = now


def _connected(connection: http.client.HTTPConnection, program: Program) -> http.client.HTTPConnection:
    deadline = time.monotonic() + _START_LIMIT_SECONDS
    while True:
        # A connection that arrives while the server still starts is accepted at a different moment in each run.
        wait_until_quiet(program, _START_LIMIT_SECONDS)
        try:
            connection.connect()
            return connection
        except OSError as error:
            if program.has_ended() or time.monotonic() > deadline:
                where = f"{connection.host}:{connection.port}"
                raise CouldNotRun(f"no server listens on {where}: {error}", program.hint()) from error
