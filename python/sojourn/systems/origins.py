"""Where a server's files are: on a disk of this machine, or on another machine, in one of several ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.systems.remote_blocks import with_remote_blocks
from sojourn.systems.remote_files import with_http, with_nfs, with_s3, with_sshfs
from sojourn.systems.running import Running
from sojourn.systems.server import Launch

LOCAL = "local"
Starter = Callable[[Launch, str, Path, Callable[[Launch], Running]], Running]
REMOTE: Mapping[str, Starter] = {
    "http": with_http,
    "s3": with_s3,
    "nfs": with_nfs,
    "sshfs": with_sshfs,
    "blocks": with_remote_blocks,
    "everything": partial(with_sshfs, everything=True),
}
"""By name: HTTP, an object store and NFS for servers that read them, a mounted SFTP server, a block device with a file
system of the server's own, and a mounted SFTP server with the server's configuration and log, too.
"""


@dataclass(frozen=True)
class Origin:
    """Where a server's files are."""

    name: str = LOCAL
    link: str = ""
    """Options of `sojourn link`: the network between the server and its files."""

    def start(self, launch: Launch, work: Path, start: Callable[[Launch], Running]) -> Running:
        """Starts a server by `start` with the files of the launch there; `work` keeps what is made of them.

        Raises:
            CouldNotRun: there is no such origin, the server cannot read it, or something did not start.
        """
        if self.name == LOCAL:
            return start(launch)
        if self.name not in REMOTE:
            raise CouldNotRun(f"{self.name!r} is no origin of files", f"one of {LOCAL}, {', '.join(REMOTE)}")
        return REMOTE[self.name](launch, self.link, work, start)
