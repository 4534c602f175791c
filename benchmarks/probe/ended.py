"""Ended connections that the kernel remembers for a minute (TIME_WAIT), as on the machine of a busy server."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from sojourn.failure import CouldNotRun

COUNT_MIN = 20_000
_COUNT = 25_000
"""More than needed: the kernel forgets some while the cells are measured."""
_PER_ADDRESS = 10_000
"""A part of the ports for connections to one address."""
_ADDRESSES = 8
_REMEMBERED = re.compile(r"^TCP: .*\btw (\d+)", re.MULTILINE)


def remembered() -> int:
    """Returns their number."""
    found = _REMEMBERED.search(Path("/proc/net/sockstat").read_text())
    if found is None:
        raise CouldNotRun("/proc/net/sockstat tells no ended connections")
    return int(found[1])


def make_enough() -> None:
    """Connects to this process and closes, until there are enough.

    Raises:
        CouldNotRun: the kernel forgets them (`net.ipv4.tcp_max_tw_buckets`).
    """
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        for number in range(_ADDRESSES):
            for _ in range(min(_PER_ADDRESS, _COUNT - remembered())):
                # All of 127/8 is this machine, and each address has its own ports.
                with socket.create_connection((f"127.0.0.{2 + number}", port)) as connection:
                    listener.accept()[0].close()
                    connection.recv(1)
    if (count := remembered()) < COUNT_MIN:
        raise CouldNotRun(f"the kernel remembers {count:,} ended connections and not {COUNT_MIN:,}")
