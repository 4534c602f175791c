"""The connections of tiers on this machine: how many each has from its clients, and how many to whom.

A worker that waits for another tier, or for somebody outside, has a connection there meanwhile: many of those that do
not grow further are workers or pools that are used up.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.tiers import processes

ESTABLISHED, LISTENING = "01", "0A"


@dataclass
class Connections:
    """Of one tier at one moment."""

    incoming: int = 0
    """To ports that it listens on."""
    outgoing: Counter[str] = field(default_factory=Counter)
    """By where they go: `HOST:PORT`."""
    accept_queue: int = 0
    """Connections that wait for the tier to take them."""


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
    """The connections of each tier, by name.

    Args:
        roots: the processes of each tier.
    """
    inodes = {name: processes.sockets(processes.members(pids)) for name, pids in roots.items()}
    all_sockets = _sockets()
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


def _sockets() -> list[_Socket]:
    found = []
    for name in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, state, queues, *_, inode = line.split()[:10]
            if state in (ESTABLISHED, LISTENING):
                waiting = int(queues.partition(":")[2], 16)
                found.append(_Socket(_address(local), _address(remote), state, waiting, int(inode)))
    return found


def _address(text: str) -> str:
    digits, _, port = text.partition(":")
    # Words of 32 bits in the order of this machine's bytes.
    words = [bytes.fromhex(digits[place : place + 8])[::-1] for place in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return f"{mapped or address}:{int(port, 16)}"
