"""What RAM leaves to a disk: with files placed so that the disk is least busy, and with a page cache.

A file of size s with access probability p saves the disk p·(a + s/r) seconds per access, a being its time to reach a
file and r its rate, and takes s bytes of RAM: a knapsack whose items can be cut with next to no loss, since files are
small beside RAM. The optimum takes them in the order of p·(a/s + 1/r): with a = 0 the most popular first, whatever
their size; the longer the access time, the more small files belong in RAM.

A page cache does not know popularities. It keeps what was used last, the largest files with the others. A file is there
if it was accessed within the last T seconds, T being such that these files fill RAM (Che, Tung and Wang, IEEE JSAC 20,
2002).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sojourn.planning.web99.file_set import CONNECTIONS_MAX, FileSet
from sojourn.queueing.arrays import Array


@dataclass(frozen=True)
class Disk:
    """A local or remote disk, as measured with the files it would hold."""

    name: str
    bytes_per_second: float
    access_seconds: float = 0.0
    """The access time before sending; 0 if the rate was measured including it."""


@dataclass(frozen=True)
class Placement:
    """An optimal placement for a number of connections."""

    ram_bytes: float
    disk_bytes: float
    files_in_ram: int
    files_on_disk: int
    disk_access_fraction: float
    """The share of accesses that go to the disk."""
    disk_byte_fraction: float
    """The share of bytes served from the disk."""
    disk_utilisation: float


PAGE_BYTES = 4096
"""The page cache holds whole pages."""
NEWTON_STEPS_MAX = 60
NEWTON_TOLERANCE = 1e-9


@dataclass(frozen=True)
class PageCache:
    """What a page cache that keeps the files used last leaves to the disk."""

    disk_access_fraction: float
    """The share of accesses that go to the disk."""
    disk_byte_fraction: float
    """The share of bytes served from the disk."""
    disk_bytes_per_second: float
    disk_utilisation: float


def page_cache(file_set: FileSet, ram_bytes: float, disk: Disk, connection_bytes_per_second: float) -> PageCache:
    """The use of a disk below a page cache of this size."""
    sizes, probabilities = file_set.files()
    probabilities = probabilities / probabilities.sum()
    mean = float(probabilities @ sizes)
    accesses_per_second = file_set.connections * connection_bytes_per_second / mean
    missed = probabilities * np.exp(-probabilities * _remembered(sizes, probabilities, ram_bytes))
    return PageCache(
        disk_access_fraction=float(missed.sum()),
        disk_byte_fraction=float(missed @ sizes) / mean,
        disk_bytes_per_second=accesses_per_second * float(missed @ sizes),
        disk_utilisation=accesses_per_second * float(missed @ (disk.access_seconds + sizes / disk.bytes_per_second)),
    )


def _remembered(sizes: Array, probabilities: Array, ram_bytes: float) -> float:
    """After how many further accesses a file leaves the cache; infinite if all files fit."""
    pages = np.ceil(sizes / PAGE_BYTES) * PAGE_BYTES
    if pages.sum() <= ram_bytes:
        return math.inf
    # The bytes of files used within n accesses grow ever more slowly with n, so Newton's method approaches from below.
    accesses = ram_bytes / float(probabilities @ pages)
    for _ in range(NEWTON_STEPS_MAX):
        absent = np.exp(-probabilities * accesses)
        lacking = ram_bytes - float(pages @ (1 - absent))
        step = lacking / float((pages * probabilities) @ absent)
        accesses += step
        if step <= NEWTON_TOLERANCE * accesses:
            break
    return accesses


class Ranking:
    """The files of a set in the order in which they benefit most from RAM."""

    def __init__(self, file_set: FileSet, disk: Disk, connection_bytes_per_second: float) -> None:
        sizes, probabilities = file_set.files()
        spared = probabilities * (disk.access_seconds + sizes / disk.bytes_per_second)
        order = np.argsort(-spared / sizes, kind="stable")
        self._sizes = _from_none(sizes[order])
        self._accesses = _from_none(probabilities[order])
        self._served = _from_none((probabilities * sizes)[order])
        # A connection receives its bytes in accesses of the mean size.
        accesses_per_second = file_set.connections * connection_bytes_per_second / self._served[-1]
        busy = _from_none(spared[order])
        self.utilisations = accesses_per_second * (busy[-1] - busy)
        """The utilisation of the disk with the first k files in RAM, k = 0, 1, …"""
        # With all files in RAM the disk has no work, not even by rounding.
        self.utilisations[-1] = 0.0

    def within(self, ram_bytes: float) -> Placement:
        """Places as many files as fit into the RAM."""
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
        """The smallest RAM with which the disk keeps up."""
        return float(self._sizes[int(np.argmax(self.utilisations <= 1))])


def largest_connections(ram_bytes: float, disk: Disk, connection_bytes_per_second: float, kilobyte: int) -> int:
    """The most connections with which the disk keeps up; the file set grows with them."""

    def utilisation(connections: int) -> float:
        ranking = Ranking(FileSet(connections, kilobyte), disk, connection_bytes_per_second)
        return ranking.within(ram_bytes).disk_utilisation

    return _largest(utilisation)


def largest_connections_cached(ram_bytes: float, disk: Disk, connection_bytes_per_second: float, kilobyte: int) -> int:
    """The same if RAM is a page cache."""

    def utilisation(connections: int) -> float:
        return page_cache(FileSet(connections, kilobyte), ram_bytes, disk, connection_bytes_per_second).disk_utilisation

    return _largest(utilisation)


def _largest(utilisation: Callable[[int], float]) -> int:
    """The most connections with which a disk keeps up whose utilisation rises with them."""

    def fits(connections: int) -> bool:
        return utilisation(connections) <= 1

    powers = [1 << power for power in range(CONNECTIONS_MAX.bit_length()) if 1 << power < CONNECTIONS_MAX]
    steps = pairwise([0, *powers, CONNECTIONS_MAX])
    low, high = next(((low, high) for low, high in steps if not fits(high)), (CONNECTIONS_MAX, CONNECTIONS_MAX))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _from_none(values: Array) -> Array:
    """Cumulative sums, starting from 0."""
    return np.concatenate([[0.0], np.cumsum(values)])
