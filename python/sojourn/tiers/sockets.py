"""The TCP connections of tiers on this machine: incoming from clients, and outgoing by destination.

A worker that waits for another tier or an external service holds a connection to it meanwhile. Many such connections
whose number no longer grows indicate an exhausted worker or connection pool.

The kernel says which connections there are by netlink, without the finished ones: below load these are so many that
`/proc/net/tcp`, which is read where there is no netlink, takes longer than a connection lives.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sojourn.tiers import processes

ESTABLISHED, LISTENING = 1, 10
"""The kernel's numbers of the states."""
SOCK_DIAG, SOCK_DIAG_BY_FAMILY, DUMP, ERROR, DONE = 4, 20, 0x301, 2, 3
"""Of netlink: the protocol, and types and flags of messages."""
RECEIVED_BYTES_MAX = 1 << 17
_HEADER = struct.Struct("=IHHII")
_ADDRESSES = struct.Struct("!BBxxHH16s16s")
"""Of a socket: family, state, ports and addresses."""
_QUEUE, _INODE = struct.Struct("=56xI"), struct.Struct("=68xI")
"""Of the same: what waits to be received, or accepted; the inode."""
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
    incoming_by_process: Counter[int] = field(default_factory=Counter)
    """The same by the process that accepted them."""
    outgoing: Counter[str] = field(default_factory=Counter)
    """Connections by destination: `HOST:PORT`."""
    accept_queue: int = 0
    """Connections waiting to be accepted."""


@dataclass(frozen=True)
class _Socket:
    local: str
    remote: str
    state: int
    queue: int
    inode: int

    @property
    def port(self) -> str:
        return self.local.rpartition(":")[2]

    def read(self) -> _Socket:
        return self


class _Message(NamedTuple):
    """A socket as netlink says it. Of thousands few are a tier's, so that the others are not read."""

    inode: int
    received: bytes
    at: int

    def read(self) -> _Socket:
        family, state, local_port, remote_port, local, remote = _ADDRESSES.unpack_from(self.received, self.at)
        size, (queue,) = 4 if family == socket.AF_INET else 16, _QUEUE.unpack_from(self.received, self.at)
        here, there = f"{_host(local[:size])}:{local_port}", f"{_host(remote[:size])}:{remote_port}"
        return _Socket(here, there, state, queue, self.inode)


_Entry = _Socket | _Message


def connections(roots: Mapping[str, list[int]]) -> dict[str, Connections]:
    """The connections of each tier by name.

    Args:
        roots: the processes of each tier.
    """
    # One that opens or ends during the look is in one of the two tables, so that it counts if it is seen at a process.
    before = _table()
    inodes = {name: processes.sockets(processes.members(pids)) for name, pids in roots.items()}
    known = before | _table()
    return {name: _of(owned, known) for name, owned in inodes.items()}


def _of(inodes: Mapping[int, set[int]], known: Mapping[int, _Entry]) -> Connections:
    """The connections of a tier, by the inodes of each of its processes."""
    mine = [known[inode].read() for inode in set[int]().union(*inodes.values()) & known.keys()]
    listeners = [each for each in mine if each.state == LISTENING]
    ports = {each.port for each in listeners}
    found = Connections(accept_queue=sum(each.queue for each in listeners))
    accepted = set[int]()
    for each in mine:
        if each.state != ESTABLISHED:
            continue
        if each.port in ports:
            accepted.add(each.inode)
        else:
            found.outgoing[each.remote] += 1
    found.incoming = len(accepted)
    found.incoming_by_process.update({pid: len(own & accepted) for pid, own in inodes.items() if own & accepted})
    return found


def _table() -> dict[int, _Entry]:
    """All TCP sockets that listen or are connected, by inode."""
    try:
        return {each.inode: each for family in (socket.AF_INET, socket.AF_INET6) for each in _by_netlink(family)}
    except OSError:
        return {each.inode: each for each in _by_text()}


def _by_netlink(family: int) -> Iterator[_Message]:
    states = 1 << ESTABLISHED | 1 << LISTENING
    asked = struct.pack("=BBxxI48x", family, socket.IPPROTO_TCP, states)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG) as netlink:
        netlink.send(_HEADER.pack(_HEADER.size + len(asked), SOCK_DIAG_BY_FAMILY, DUMP, 0, 0) + asked)
        while True:
            received, at = netlink.recv(RECEIVED_BYTES_MAX), 0
            while at < len(received):
                length, kind, *_ = _HEADER.unpack_from(received, at)
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError("netlink tells no sockets")
                (inode,) = _INODE.unpack_from(received, at + _HEADER.size)
                yield _Message(inode, received, at + _HEADER.size)
                at += (length + 3) & ~3


def _by_text() -> Iterator[_Socket]:
    for name in ("tcp", "tcp6"):
        try:
            table = Path("/proc/net", name).read_bytes()
        except OSError:
            continue
        for local, remote, state, waiting, inode in _LINE.findall(table):
            here, there = _address(local.decode()), _address(remote.decode())
            yield _Socket(here, there, int(state, 16), int(waiting, 16), int(inode))


def _address(text: str) -> str:
    digits, _, port = text.partition(":")
    # Words of 32 bits in this machine's byte order.
    words = [bytes.fromhex(digits[place : place + 8])[::-1] for place in range(0, len(digits), 8)]
    return f"{_host(b''.join(words))}:{int(port, 16)}"


@lru_cache(maxsize=4096)
def _host(packed: bytes) -> str:
    address = ipaddress.ip_address(packed)
    return str(getattr(address, "ipv4_mapped", None) or address)
