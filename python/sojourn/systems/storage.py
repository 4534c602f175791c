"""A machine that holds the files of servers under test: a program at the other end of an emulated network link.

It has the limits of the server's own disk and memory, so that local and remote files differ by the network alone. It
ends with the server, also if this process is killed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.systems.running import Running, start_process, wait_until
from sojourn.systems.server import Launch

NETWORK = "10.78.0.0/16"
"""The link's network; that of the clients is another."""
STORAGE_ADDRESS = "10.78.0.2"
"""The first address at its other end."""
_ANSWER_SECONDS = 0.3


def start_storage(
    program: Sequence[str],
    url: str,
    is_ready: Callable[[], bool],
    link: str,
    launch: Launch,
    files: Path,
    *,
    name: str,
) -> Running:
    """Starts a program that gives out `files` behind a link with these options, and waits until it is ready.

    Its memory and its disk are limited as the launched server's would be with the files here, and the files' pages are
    dropped as they would be.

    Raises:
        CouldNotRun: it ended, or was not ready in time; the message includes its output.
    """
    said = launch.work / "storage.log"
    confinement = launch.confinement and replace(launch.confinement, site=files, processors=None)
    confined = confinement.command(list(program)) if confinement else list(program)
    words = [str(engine.path()), "link", "--network", NETWORK, *shlex.split(link), "--", *confined]
    process = start_process(cores.pinned_command(launch.upstream_core, words), said)
    wait_until(is_ready, process, f"{name} behind a link", said)
    return Running(url, "", words, process, [process.pid])


def without_files(launch: Launch) -> Launch:
    """The launch of a server whose files are elsewhere: no disk of this machine is read."""
    confinement = launch.confinement and replace(
        launch.confinement, disk_read_bytes_per_second=None, disk_reads_per_second=None, drop_pages="none"
    )
    return replace(launch, confinement=confinement)


def answers(port: int, greeting: bytes, expected: Callable[[bytes], bool]) -> bool:
    """Returns true if the storage answers `greeting` as expected.

    Before the link is up the address is anyone's, so an accepted connection says nothing.
    """
    try:
        with socket.create_connection((STORAGE_ADDRESS, port), timeout=_ANSWER_SECONDS) as connection:
            if greeting:
                connection.sendall(greeting)
            return expected(connection.recv(4096))
    except OSError:
        return False


def require_tools(packages: dict[str, str], what: str) -> None:
    """Checks for root and for programs, given with their Debian packages.

    Raises:
        CouldNotRun: what is missing for `what`.
    """
    if os.geteuid() != 0:
        raise CouldNotRun(f"only root can have {what}", "run it as root")
    if absent := [name for name in packages if find(name) is None]:
        missing = " ".join(sorted({packages[name] for name in absent}))
        raise CouldNotRun(f"{', '.join(absent)} missing for {what}", f"apt-get install {missing}")


def tool(name: str) -> str:
    """The path of a program, or its name if it is not installed."""
    return find(name) or name


def find(name: str) -> str | None:
    """The path of a program; ordinary users have no /usr/sbin in their PATH."""
    places = [os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", "/usr/lib/openssh"]
    return shutil.which(name, path=os.pathsep.join(places))
