"""Starting a server: the time from its start to its first answer, its memory then, and the size of its program."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from benchmarks.server import idle
from benchmarks.server.conditions import Condition
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.systems import Running

STARTS = 10
TIMEOUT_SECONDS = 10.0
ANY_PORT = ":0"


@dataclass(frozen=True)
class Start:
    """A server that has answered once."""

    seconds: float
    """From the start of its process, median of several; that of the command which pins it to its core is in it."""
    proportional_bytes: int
    """Memory of all its processes (PSS)."""
    program_bytes: int
    """The size of its program's file, without the libraries and modules that it loads."""


def measure(server: Running, condition: Condition, core: int | None) -> Start:
    """Stops the server, and starts it again several times on its port.

    Raises:
        CouldNotRun: it does not answer.
    """
    where = urlsplit(server.url)
    assert where.hostname is not None
    assert where.port is not None
    listen = f":{where.port}"
    # The first of our ports is that of requests; the others may be any.
    words = list(server.command)
    for index, word in enumerate(words):
        if word.endswith(ANY_PORT):
            words[index] = word.removesuffix(ANY_PORT) + listen
            break
    server.stop()
    request = f"GET {condition.path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
    seconds, memory = [], []
    for _ in range(STARTS):
        begun = time.perf_counter()
        process = subprocess.Popen(
            cores.pinned_command(core, words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with replace(server, process=process, pids=[process.pid]) as started:
            _wait_for_answer(started, (where.hostname, where.port), request)
            seconds.append(time.perf_counter() - begun)
            memory.append(idle.memory(started.pids)[1])
    program = Path(shutil.which(server.command[0]) or server.command[0])
    return Start(median(seconds), int(median(memory)), program.stat().st_size)


def _wait_for_answer(server: Running, address: tuple[str, int], request: bytes) -> None:
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    while time.perf_counter() < deadline and not server.has_died:
        try:
            with socket.create_connection(address, TIMEOUT_SECONDS) as connection:
                connection.sendall(request)
                if connection.recv(idle.RECEIVE_BYTES_MAX).startswith(b"HTTP/1.1 200"):
                    return
        except OSError:
            # It does not listen yet.
            pass
    raise CouldNotRun(f"{server.command[0]} did not answer within {TIMEOUT_SECONDS:.0f} s of its start")
