"""The file set of SPECweb99: directories of 36 files in four classes, sizes and popularity fixed by the benchmark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.queueing.arrays import Array

CLASS_PROBABILITIES = np.array([0.35, 0.50, 0.14, 0.01])
"""The access probability of each class, smallest files first."""
FILE_PROBABILITIES = np.array([0.039, 0.059, 0.088, 0.177, 0.353, 0.118, 0.071, 0.050, 0.044])
"""The access probability of the nine files of a class, as published: rounded, they sum to 0.999."""
SIZES_KILOBYTES = np.outer([0.1, 1.0, 10.0, 100.0], np.arange(1, 10))
"""File sizes by class and file."""
LARGEST_CLASS = 3
DIRECTORIES_FIXED = 25.0
DIRECTORIES_PER_CONNECTION = 40 / 61
CONNECTIONS_MAX = 200_000
"""With more connections, placing single files would need gigabytes of memory."""


@dataclass(frozen=True)
class FileSet:
    """The files for this many connections; a kilobyte is 1,024 bytes by default."""

    connections: float
    kilobyte: int = 1024

    @property
    def directories(self) -> float:
        """The number of directories: 25 + 40/61 per connection, as the benchmark scales them."""
        return DIRECTORIES_FIXED + DIRECTORIES_PER_CONNECTION * self.connections

    @property
    def size_bytes(self) -> float:
        """The size of all files."""
        return self.directories * directory_bytes(self.kilobyte)

    @property
    def largest_class_bytes(self) -> float:
        """The size of class 3."""
        return self.directories * float(SIZES_KILOBYTES[LARGEST_CLASS].sum()) * self.kilobyte

    def files(self) -> tuple[Array, Array]:
        """Size in bytes and access probability of every file, both of shape (36 x directories,).

        Directory i of N is asked for with probability 1/(i H_N), H_N being the sum of 1/1 … 1/N.
        """
        ranks = np.arange(1, round(self.directories) + 1)
        popularity = 1 / ranks / np.sum(1 / ranks)
        within = np.outer(CLASS_PROBABILITIES, FILE_PROBABILITIES).ravel()
        probabilities = np.outer(popularity, within).ravel()
        sizes = np.tile(SIZES_KILOBYTES.ravel() * self.kilobyte, len(ranks))
        return sizes, probabilities


def directory_bytes(kilobyte: int = 1024) -> float:
    """One directory: 4,999.5 kilobytes."""
    return float(SIZES_KILOBYTES.sum()) * kilobyte


def connections_of(size_bytes: float, kilobyte: int = 1024) -> float:
    """The number of connections with a file set of this size; 0 if it is smaller than the fixed directories."""
    directories = size_bytes / directory_bytes(kilobyte)
    return max(0.0, (directories - DIRECTORIES_FIXED) / DIRECTORIES_PER_CONNECTION)


def access_kilobytes() -> tuple[float, float]:
    """The mean size of an access, and class 3's part of it: 14.3668 and 4.895 kilobytes."""
    by_class = CLASS_PROBABILITIES * (SIZES_KILOBYTES @ FILE_PROBABILITIES)
    return float(by_class.sum()), float(by_class[LARGEST_CLASS])
