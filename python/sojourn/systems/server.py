"""What a driver of a system under test is, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sojourn.machine import cores
from sojourn.machine.confinement import Confinement
from sojourn.systems.running import Running

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True)
class Launch:
    """How a server is to be started."""

    root: Path
    """The folder to serve."""
    work: Path
    """A folder for its configuration, logs and pid files."""
    core: int | None
    """The core it is pinned to."""
    architecture: str
    """Used by servers that have a choice."""
    access_log: bool = False
    """True if it writes a line per request, to `access.log` in the work folder."""

    confinement: Confinement | None = None
    """Less memory or a slower disk than the machine has."""
    address: str = LOOPBACK
    """Where it listens: clients behind a network link do not reach the loopback."""
    options: tuple[str, ...] = ()
    """Further options of the server's own command line, for those that take some."""
    helpers: int | None = None
    """For servers that have helpers; None: as many as the driver gives it."""
    upstream: str | None = None
    """The URL that a caching proxy passes requests on to; None: it gets a server of `root` of its own."""
    upstream_core: int | None = None
    """The core of that server, which is no part of the system under test."""

    def command(self, command: list[str]) -> list[str]:
        """What is started: `command` on its core and in its confinement."""
        return cores.pinned_command(self.core, self.confinement.command(command) if self.confinement else command)

    def with_architecture(self, name: str) -> Launch:
        """A copy that runs another architecture."""
        return replace(self, architecture=name)


class Server(Protocol):
    """A driver; `start` returns once the server listens."""

    @property
    def name(self) -> str:
        """The system's name in options and results."""
        ...

    has_architectures: bool
    builds_site: bool
    """True if it serves a folder we give it; one that already runs serves its own."""

    def start(self, launch: Launch) -> Running:
        """Starts the server.

        Raises:
            CouldNotRun: it is not installed, or it ended before it listened; the message holds what it said.
        """
        ...
