"""Memory of idle connections: by how much a server's processes grow when many clients stay connected.

Each connection has sent one request and read the response, as a browser's would. Resident memory counts a page that
several processes share in each of them; the proportional set size (PSS, proc_pid_smaps(5)) divides it among them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.server.conditions import Condition
from sojourn.failure import CouldNotRun
from sojourn.systems import Running

ANSWER_TIMEOUT_SECONDS = 3.0
"""There is one request at a time: a server that takes longer has no free worker."""
SETTLE_SECONDS = 0.5
RECEIVE_BYTES_MAX = 65_536


class Refused(CouldNotRun):
    """The server did not keep the connections."""


@dataclass(frozen=True)
class Growth:
    """Memory of all the server's processes, before and with the connections."""

    connections: int
    processes: int
    resident_bytes_before: int
    resident_bytes_after: int
    proportional_bytes_before: int
    proportional_bytes_after: int

    @property
    def resident_bytes_per_connection(self) -> float:
        """Returns the growth of resident memory per connection."""
        return (self.resident_bytes_after - self.resident_bytes_before) / self.connections

    @property
    def proportional_bytes_per_connection(self) -> float:
        """Returns the growth per connection with shared pages counted once."""
        return (self.proportional_bytes_after - self.proportional_bytes_before) / self.connections


def measure(server: Running, condition: Condition) -> Growth:
    """Fills a server with idle connections.

    Raises:
        Refused: the server did not answer on one of them, or closed it.
    """
    resident_before, proportional_before, _ = memory(server.pids)
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(each) for each in _connect(server, condition)]
        time.sleep(SETTLE_SECONDS)
        closed = _closed_by_server(idle)
        if closed:
            raise Refused(f"it closed {closed} of {len(idle)} idle connections")
        resident, proportional, processes = memory(server.pids)
    return Growth(len(idle), processes, resident_before, resident, proportional_before, proportional)


def _connect(server: Running, condition: Condition) -> Iterator[socket.socket]:
    """Connects one after the other, so that memory for simultaneous requests does not count as idle memory."""
    where = urlsplit(server.url)
    assert where.hostname is not None
    assert where.port is not None
    request = f"GET {condition.path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
    for number in range(condition.clients):
        try:
            connection = socket.create_connection((where.hostname, where.port), ANSWER_TIMEOUT_SECONDS)
            yield connection
            connection.sendall(request)
            _read_answer(connection, condition.size_bytes)
        except OSError as error:
            raise Refused(f"connection {number + 1:,} of {condition.clients:,}: {error}") from error


def _read_answer(connection: socket.socket, body_bytes: int) -> None:
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0 or len(received) < end + 4 + body_bytes:
        more = connection.recv(RECEIVE_BYTES_MAX)
        if not more:
            raise ConnectionError("closed before its answer")
        received += more
    if not received.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(f"answered {received.splitlines()[0].decode(errors='replace')}")


def _closed_by_server(connections: list[socket.socket]) -> int:
    """Returns the number of readable connections: an idle connection becomes readable only when it is closed."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN | select.POLLRDHUP)
    return len(poll.poll(0))


def memory(pids: list[int]) -> tuple[int, int, int]:
    """Returns resident and proportional bytes of the processes and their descendants, and the number of processes."""
    processes = list(tree(pids))
    totals = {"Rss": 0, "Pss": 0}
    for pid in processes:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in totals:
                totals[name] += int(value.split()[0]) * 1024
    return totals["Rss"], totals["Pss"], len(processes)


def tree(pids: Iterable[int]) -> Iterator[int]:
    """Yields the processes and their descendants."""
    for pid in pids:
        yield pid
        # It may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                yield from tree([int(child) for child in (task / "children").read_text().split()])
