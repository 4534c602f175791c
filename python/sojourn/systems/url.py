"""A server that already runs: it is loaded, but neither started nor stopped.

If it listens on this machine, its processes are found through the kernel's socket tables, so that its CPU time can be
measured.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.systems.running import Running
from sojourn.systems.server import Launch
from sojourn.tiers.processes import parent

_LISTENS = "0A"
_PORTS = {"http": 80, "rtsp": 554}


class AlreadyRunning:
    """A server that already runs at a URL."""

    has_architectures = False
    builds_site = False

    def __init__(self, url: str, scheme: str = "http") -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != scheme or not parts.hostname:
            raise CouldNotRun(f"{url} is not a URL that can be loaded", f"give {scheme}://HOST:PORT")
        self.name = url.rstrip("/")
        self.host = parts.hostname
        self.port = parts.port or _PORTS[scheme]

    def start(self, launch: Launch) -> Running:
        """Checks that the URL accepts connections; starts nothing."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as connection:
                address = connection.getpeername()[0]
        except OSError as error:
            raise CouldNotRun(f"no server answers at {self.name}: {error}", "start the server first") from error
        pids = listeners(self.port) if ipaddress.ip_address(address).is_loopback else []
        return Running(self.name, "unknown", [], None, pids)


def listeners(port: int) -> list[int]:
    """The processes on this machine that listen on a TCP port and may be inspected, without the workers of others.

    Workers belong to the process that forked them, which may end them as it likes.
    """
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    found = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if wanted & _open_sockets(entry)]
    parents = {pid: parent(pid) for pid in found}
    # A process without a parent has ended meanwhile.
    return sorted(pid for pid, above in parents.items() if above is not None and above not in parents)


def _listening_inodes(port: int) -> set[str]:
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        inodes.update(_inodes_in(Path(table), port) if Path(table).exists() else ())
    return inodes


def _inodes_in(table: Path, port: int) -> Iterator[str]:
    """The kernel lists listeners first and generates the many connections as they are read, so it stops before them."""
    with table.open() as rows:
        next(rows)
        for row in rows:
            fields = row.split()
            if fields[3] != _LISTENS:
                return
            if int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _open_sockets(process: Path) -> set[str]:
    try:
        return {os.readlink(entry) for entry in (process / "fd").iterdir()}
    except OSError:
        return set()
