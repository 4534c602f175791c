"""The interface of drivers for systems under test, and their start parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sojourn.machine import cores
from sojourn.machine.confinement import Confinement
from sojourn.systems.mounts import Mount
from sojourn.systems.running import Running

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True)
class Certificate:
    """A server's certificate and its private key, files in PEM."""

    chain: Path
    key: Path


@dataclass(frozen=True)
class Launch:
    """The parameters for starting a server."""

    root: Path
    """The folder to serve."""
    work: Path
    """A folder for its configuration, logs and pid files."""
    core: int | None
    """The core it is pinned to."""
    architecture: str
    """The architecture, for servers that have a choice."""
    access_log: bool = False
    """True to write a line per request to `access.log` in the work folder."""

    confinement: Confinement | None = None
    """Limits on memory, disk and CPU below the machine's."""
    mount: Mount | None = None
    """The remote file system that holds `root`, if it is not on a disk of this machine."""
    content: str | None = None
    """The URL of the files, for a server that reads them by itself from elsewhere; otherwise they are in `root`."""
    environment: tuple[str, ...] = ()
    """Variables of the server's environment: `NAME=VALUE`."""
    address: str = LOOPBACK
    """The address to listen on: clients behind a network link cannot reach the loopback."""
    options: tuple[str, ...] = ()
    """Additional command-line options of the server, if it supports any."""
    helpers: int | None = None
    """The number of helpers, for servers that have them; None for the driver's default."""
    upstream: str | None = None
    """The URL that a caching proxy forwards to; None for a server of `root` of its own."""
    upstream_core: int | None = None
    """The core of that server, which is not under test."""
    certificate: Certificate | None = None
    """With a certificate the server speaks TLS, with HTTP/1.1 and HTTP/2; without, HTTP/1.1 in clear text."""

    def command(self, command: list[str]) -> list[str]:
        """Wraps `command` with its core, its confinement, its remote file system and its environment."""
        here = ["env", *self.environment, *command] if self.environment else command
        here = self.mount.command(here) if self.mount else here
        return cores.pinned_command(self.core, self.confinement.command(here) if self.confinement else here)

    def with_architecture(self, name: str) -> Launch:
        """A copy with another architecture."""
        return replace(self, architecture=name)


class Server(Protocol):
    """A driver; `start` returns once the server listens."""

    @property
    def name(self) -> str:
        """The system's name in options and results."""
        ...

    has_architectures: bool
    builds_site: bool
    """True if it serves a folder given to it; a server that already runs has its own."""

    def start(self, launch: Launch) -> Running:
        """Starts the server.

        Raises:
            CouldNotRun: it is not installed, or it ended before it listened; the message includes its output.
        """
        ...
