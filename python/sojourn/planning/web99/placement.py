"""Which files go to RAM and which to a disk, so that the disk is the least busy.

A file of size s asked for with probability p spares the disk p·(a + s/r) seconds per access, a being its time to
reach a file and r its rate, and takes s bytes of RAM: a knapsack whose items can be cut with next to no loss, since
files are small beside RAM. The best is to take them in the order of p·(a/s + 1/r): with a = 0 the most popular
first, whatever their size; the longer it takes to reach a file, the more do small files belong in RAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sojourn.planning.web99.file_set import CONNECTIONS_MAX, FileSet
from sojourn.queueing.arrays import Array


@dataclass(frozen=True)
class Disk:
    """A disk, local or remote, as measured under the files that it is to hold."""

    name: str
    bytes_per_second: float
    access_seconds: float = 0.0
    """To reach a file, beside sending it; 0 where the rate was measured with it."""


@dataclass(frozen=True)
class Placement:
    """An optimal placement for a number of connections."""

    ram_bytes: float
    disk_bytes: float
    files_in_ram: int
    files_on_disk: int
    disk_access_fraction: float
    """Of accesses."""
    disk_byte_fraction: float
    """Of the bytes that are served."""
    disk_utilisation: float


class Ranking:
    """The files of a set in the order in which they earn their place in RAM."""

    def __init__(self, file_set: FileSet, disk: Disk, connection_bytes_per_second: float) -> None:
        sizes, probabilities = file_set.files()
        spared = probabilities * (disk.access_seconds + sizes / disk.bytes_per_second)
        order = np.argsort(-spared / sizes, kind="stable")
        self._sizes = _from_none(sizes[order])
        self._accesses = _from_none(probabilities[order])
        self._served = _from_none((probabilities * sizes)[order])
        # A connection gets its bytes in accesses of the mean size.
        accesses_per_second = file_set.connections * connection_bytes_per_second / self._served[-1]
        busy = _from_none(spared[order])
        self.utilisations = accesses_per_second * (busy[-1] - busy)
        """Of the disk, with the first k files in RAM, k = 0, 1, …"""
        # With all files in RAM there is no work for a disk, not even by rounding.
        self.utilisations[-1] = 0.0

    def within(self, ram_bytes: float) -> Placement:
        """As many files as the RAM holds."""
        kept = int(np.searchsorted(self._sizes, ram_bytes, side="right")) - 1
        return Placement(
            ram_bytes=float(self._sizes[kept]),
            disk_bytes=float(self._sizes[-1] - self._sizes[kept]),
            files_in_ram=kept,
            files_on_disk=len(self._sizes) - 1 - kept,
            disk_access_fraction=float(1 - self._accesses[kept] / self._accesses[-1]),
            disk_byte_fraction=float(1 - self._served[kept] / self._served[-1]),
            disk_utilisation=float(self.utilisations[kept]),
        )

    def smallest_ram_bytes(self) -> float:
        """With which the disk keeps up with the rest."""
        return float(self._sizes[int(np.argmax(self.utilisations <= 1))])


def largest_connections(ram_bytes: float, disk: Disk, connection_bytes_per_second: float, kilobyte: int) -> int:
    """The most connections with which the disk keeps up; the file set grows with them."""

    def fits(connections: int) -> bool:
        ranking = Ranking(FileSet(connections, kilobyte), disk, connection_bytes_per_second)
        return ranking.within(ram_bytes).disk_utilisation <= 1

    powers = [1 << power for power in range(CONNECTIONS_MAX.bit_length()) if 1 << power < CONNECTIONS_MAX]
    steps = pairwise([0, *powers, CONNECTIONS_MAX])
    low, high = next(((low, high) for low, high in steps if not fits(high)), (CONNECTIONS_MAX, CONNECTIONS_MAX))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _from_none(values: Array) -> Array:
    """The sums of none, the first, the first two values, and so on."""
    return np.concatenate([[0.0], np.cumsum(values)])
