"""The TCP connections of tiers on this machine: incoming from clients, and outgoing by destination.

A worker that waits for another tier or an external service holds a connection to it meanwhile. Many such connections
whose number no longer grows indicate an exhausted worker or connection pool.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.tiers import processes

ESTABLISHED, LISTENING = "01", "0A"
_LINE = re.compile(
    # Finished connections (TIME_WAIT) can outnumber open ones a hundred to one.
    rb"^ *\d+: ([0-9A-F]+:[0-9A-F]{4}) ([0-9A-F]+:[0-9A-F]{4}) (01|0A) "
    rb"[0-9A-F]{8}:([0-9A-F]{8}) \S+ \S+ +\d+ +\d+ (\d+)",
    re.MULTILINE,
)


@dataclass
class Connections:
    """The connections of one tier at one moment."""

    incoming: int = 0
    """Connections to its listening ports."""
    outgoing: Counter[str] = field(default_factory=Counter)
    """Connections by destination: `HOST:PORT`."""
    accept_queue: int = 0
    """Connections waiting to be accepted."""


@dataclass(frozen=True)
class _Socket:
    local: str
    remote: str
    state: str
    queue: int
    inode: int

    @property
    def port(self) -> str:
        return self.local.rpartition(":")[2]


def connections(roots: Mapping[str, list[int]]) -> dict[str, Connections]:
    """The connections of each tier by name.

    Args:
        roots: the processes of each tier.
    """
    inodes = {name: processes.sockets(processes.members(pids)) for name, pids in roots.items()}
    all_sockets = _sockets(set().union(*inodes.values()))
    return {name: _of(all_sockets, owned) for name, owned in inodes.items()}


def _of(all_sockets: list[_Socket], owned: set[int]) -> Connections:
    mine = [each for each in all_sockets if each.inode in owned]
    listeners = [each for each in mine if each.state == LISTENING]
    ports = {each.port for each in listeners}
    found = Connections(accept_queue=sum(each.queue for each in listeners))
    for each in mine:
        if each.state != ESTABLISHED:
            continue
        if each.port in ports:
            found.incoming += 1
        else:
            found.outgoing[each.remote] += 1
    return found


def _sockets(owned: set[int]) -> list[_Socket]:
    found = []
    for name in ("tcp", "tcp6"):
        try:
            table = Path("/proc/net", name).read_bytes()
        except OSError:
            continue
        for local, remote, state, waiting, inode in _LINE.findall(table):
            if int(inode) in owned:
                addresses = (_address(local.decode()), _address(remote.decode()))
                found.append(_Socket(*addresses, state.decode(), int(waiting, 16), int(inode)))
    return found


def _address(text: str) -> str:
    digits, _, port = text.partition(":")
    # Words of 32 bits in this machine's byte order.
    words = [bytes.fromhex(digits[place : place + 8])[::-1] for place in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return f"{mapped or address}:{int(port, 16)}"
