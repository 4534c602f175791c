"""Sizes RAM, disks, processor and network: connections for given resources, or resources for given connections.

Three schemes: the report's (classes 0 to 2 in RAM, all of class 3 on disk), the optimal placement of single files, and
a page cache, which is what servers have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.planning.web99.file_set import FileSet, access_kilobytes, connections_of
from sojourn.planning.web99.placement import (
    Disk,
    PageCache,
    Placement,
    Ranking,
    largest_connections,
    largest_connections_cached,
    page_cache,
)

NIC_BITS_PER_SECOND = 0.8e9
"""The measured throughput of a commodity gigabit card (section 5.2)."""
MINIMUM_BITS_PER_SECOND = 320e3
"""The benchmark's minimum rate of a connection; sizing uses more, to include overhead."""

CORRECTIONS = (
    "The report's 1,450 and 1,734 connections multiply by 4.9, which is 4.8950, the divisor: 14.3668/4.8950 is 2.935, "
    "and the scheme carries 869 (NFS) and 1,039 (local).",
    "Both are below what 4 GiB of RAM alone carry, so all of class 3 on disk does not improve 1,270 to over 1,700; "
    "optimal placement does, and more.",
    "4 GiB hold the files of 1,241 connections, not 1,270 (the fixed 25 directories were left out), and 3,800 "
    "connections need 12.0 GiB, not 4.",
    "The mean access is 14.3668 kilobytes; 14.2668 is a typing error.",
)
"""Differences from the report, for readers who compare."""
PAGE_CACHE = (
    "A page cache keeps what was used last, so it carries fewer connections than the optimal placement. Where the disk "
    "is nearly always busy, connections fall below their rate before that (the study diskless/web99 measures it)."
)
"""What the schemes mean for a server."""


@dataclass(frozen=True)
class Processor:
    """The cores of the server, and the CPU time that the mean request takes of one."""

    cores: float
    seconds_per_request: float


@dataclass(frozen=True)
class DiskAnswer:
    """The capacity that one disk adds."""

    name: str
    megabytes_per_second: float
    access_seconds: float
    class3_on_disk_connections: float
    """The report's scheme: the disk's rate over a connection's share of class 3."""
    class3_on_disk_ram_bytes: float
    class3_on_disk_disk_bytes: float
    optimal_connections: int | None
    """The optimum for the given RAM."""
    optimal_placement: Placement | None
    cached_connections: int | None
    """The connections that the disk carries if the given RAM is a page cache."""
    page_cache: PageCache | None
    """The use of the disk then, with the given connections or else with as many as it carries."""
    ram_needed_bytes: float | None
    """The RAM needed for the given connections, optimally placed."""
    placement: Placement | None


@dataclass(frozen=True)
class Sizing:
    """The complete sizing."""

    kilobyte: int
    connection_bits_per_second: float
    ram_bytes: float | None
    ram_alone_connections: float | None
    connections: int | None
    directories: float | None
    file_set_bytes: float | None
    class3_bytes: float | None
    network_minimum_bits_per_second: float | None
    network_bits_per_second: float | None
    network_cards: int | None
    requests_per_second: float
    """Of one connection: its rate over the mean access."""
    processor_connections: float | None
    """The connections with which the processor is always busy."""
    processor_utilisation: float | None
    """With the given connections."""
    disks: list[DiskAnswer]
    remote_loss_fraction: float | None
    """The relative difference of the slowest disk's optimum from the fastest's."""
    corrections: tuple[str, ...]


def size(
    *,
    ram_bytes: float | None,
    connections: int | None,
    disks: Sequence[Disk],
    connection_bits_per_second: float,
    kilobyte: int,
    processor: Processor | None = None,
) -> Sizing:
    """Computes connections for the RAM, RAM for the connections, or both; with a processor also its connections."""
    rate = connection_bits_per_second / 8
    answers = [_disk(disk, ram_bytes, connections, rate, kilobyte) for disk in disks]
    optima = [each.optimal_connections for each in answers if each.optimal_connections]
    files = None if connections is None else FileSet(connections, kilobyte)
    network = None if connections is None else connections * connection_bits_per_second
    requests = rate / (access_kilobytes()[0] * kilobyte)
    carried = None if processor is None else processor.cores / (requests * processor.seconds_per_request)
    return Sizing(
        kilobyte=kilobyte,
        connection_bits_per_second=connection_bits_per_second,
        ram_bytes=ram_bytes,
        ram_alone_connections=None if ram_bytes is None else connections_of(ram_bytes, kilobyte),
        connections=connections,
        directories=files.directories if files else None,
        file_set_bytes=files.size_bytes if files else None,
        class3_bytes=files.largest_class_bytes if files else None,
        network_minimum_bits_per_second=None if connections is None else connections * MINIMUM_BITS_PER_SECOND,
        network_bits_per_second=network,
        network_cards=None if network is None else math.ceil(network / NIC_BITS_PER_SECOND),
        requests_per_second=requests,
        processor_connections=carried,
        processor_utilisation=None if carried is None or connections is None else connections / carried,
        disks=answers,
        remote_loss_fraction=1 - min(optima) / max(optima) if len(optima) > 1 else None,
        corrections=CORRECTIONS,
    )


def _disk(disk: Disk, ram_bytes: float | None, connections: int | None, rate: float, kilobyte: int) -> DiskAnswer:
    access, of_class3 = access_kilobytes()
    # A class-3 file takes its access time plus the time for its bytes; their mean size is of_class3 / 0.01 kilobytes.
    mean_bytes = of_class3 / 0.01 * kilobyte
    delivered = mean_bytes / (disk.access_seconds + mean_bytes / disk.bytes_per_second)
    carried = delivered / rate * access / of_class3
    scheme = FileSet(carried, kilobyte)
    optimum = None if ram_bytes is None else largest_connections(ram_bytes, disk, rate, kilobyte)
    ranking = None if connections is None else Ranking(FileSet(connections, kilobyte), disk, rate)
    needed = ranking.smallest_ram_bytes() if ranking else None
    cached = None if ram_bytes is None else largest_connections_cached(ram_bytes, disk, rate, kilobyte)
    seen = connections or cached
    return DiskAnswer(
        name=disk.name,
        megabytes_per_second=disk.bytes_per_second / 1e6,
        access_seconds=disk.access_seconds,
        class3_on_disk_connections=carried,
        class3_on_disk_ram_bytes=scheme.size_bytes - scheme.largest_class_bytes,
        class3_on_disk_disk_bytes=scheme.largest_class_bytes,
        optimal_connections=optimum,
        optimal_placement=None
        if optimum is None or ram_bytes is None or optimum == 0
        else Ranking(FileSet(optimum, kilobyte), disk, rate).within(ram_bytes),
        cached_connections=cached,
        page_cache=None
        if ram_bytes is None or not seen
        else page_cache(FileSet(seen, kilobyte), ram_bytes, disk, rate),
        ram_needed_bytes=needed,
        placement=None if ranking is None or needed is None else ranking.within(needed),
    )
