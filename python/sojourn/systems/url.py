"""A server that already runs: it is loaded, but neither started nor stopped.

If it listens on this machine, its processes are found through the kernel's socket tables, so that its CPU time can be
measured.
"""

from __future__ import annotations

import ipaddress
import socket
import urllib.parse

from sojourn.failure import CouldNotRun
from sojourn.systems.running import Running
from sojourn.systems.server import Launch
from sojourn.tiers.processes import listeners

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
