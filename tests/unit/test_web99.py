"""The SPECweb99 sizing against section 5 of the study of diskless servers, as corrected."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.planning.web99.file_set import FileSet, access_kilobytes, connections_of
from sojourn.planning.web99.placement import (
    Disk,
    Ranking,
    largest_connections,
    largest_connections_cached,
    page_cache,
)
from sojourn.planning.web99.sizing import Processor, size

GIB = 2**30
LOCAL, REMOTE = Disk("local", 17.7e6), Disk("remote", 14.8e6)
CONNECTION = 400e3 / 8


def test_the_file_set() -> None:
    assert access_kilobytes() == pytest.approx((14.366825, 4.895))
    assert FileSet(1_000).directories == pytest.approx(680.7, abs=0.05)
    assert FileSet(1_000).size_bytes / GIB == pytest.approx(3.246, abs=5e-4)
    assert FileSet(1_000).largest_class_bytes / GIB == pytest.approx(2.92, abs=5e-3)
    sizes, probabilities = FileSet(1_000).files()
    assert len(sizes) == 36 * 681
    # The published popularities of the files are rounded: they sum to 0.999.
    assert probabilities.sum() == pytest.approx(0.999)
    assert sizes.sum() == pytest.approx(FileSet(1_000).size_bytes, rel=1e-3)


@pytest.mark.parametrize(
    ("ram_bytes", "kilobyte", "connections"),
    [(4 * GIB, 1024, 1_241), (4e9, 1000, 1_182), (GIB, 1024, 282), (1e9, 1000, 267), (12 * GIB, 1024, 3_800)],
)
def test_connections_from_ram_alone(ram_bytes: float, kilobyte: int, connections: int) -> None:
    assert connections_of(ram_bytes, kilobyte) == pytest.approx(connections, abs=0.6)


def test_class_3_on_disk_carries_869_and_1039() -> None:
    sizing = size(
        ram_bytes=None,
        connections=None,
        disks=[LOCAL, REMOTE],
        connection_bits_per_second=400e3,
        kilobyte=1024,
    )
    assert [round(disk.class3_on_disk_connections) for disk in sizing.disks] == [1_039, 869]


def test_the_processor_carries_connections_by_the_utilisation_law() -> None:
    sizing = size(
        ram_bytes=None,
        connections=500,
        disks=[],
        connection_bits_per_second=400e3,
        kilobyte=1024,
        processor=Processor(2, 100e-6),
    )
    # 50,000 byte/s over 14,712 bytes.
    assert sizing.requests_per_second == pytest.approx(3.3987, rel=1e-4)
    assert sizing.processor_connections == pytest.approx(2 / (3.3987 * 100e-6), rel=1e-4)
    assert sizing.processor_utilisation == pytest.approx(500 * 3.3987 * 100e-6 / 2, rel=1e-4)


def test_optimal_placement_beats_the_hottest_of_class_3() -> None:
    # Keeping classes 0 to 2 and the hottest files of class 3 in 4 GiB carries 5,414 and 4,935.
    local, remote = (largest_connections(4 * GIB, disk, CONNECTION, 1024) for disk in (LOCAL, REMOTE))
    assert 5_414 < local < 5_700
    assert 4_935 < remote < 5_200
    assert 1 - remote / local == pytest.approx(0.088, abs=2e-3)


def test_one_connection_more_would_be_too_much() -> None:
    most = largest_connections(GIB, REMOTE, CONNECTION, 1024)
    utilisations = [
        Ranking(FileSet(connections), REMOTE, CONNECTION).within(GIB).disk_utilisation
        for connections in (most, most + 1)
    ]
    assert utilisations[0] <= 1 < utilisations[1]


@pytest.mark.parametrize("access_seconds", [0.0, 14e-3])
def test_no_exchange_of_two_files_is_better(access_seconds: float) -> None:
    disk, ram = Disk("local", 30e6, access_seconds), 200e6
    file_set = FileSet(100)
    placement = Ranking(file_set, disk, CONNECTION).within(ram)
    sizes, probabilities = file_set.files()
    spared = probabilities * (access_seconds + sizes / disk.bytes_per_second)
    # The linear relaxation bounds every placement from above; what the cut leaves is less than one file.
    order = np.argsort(-spared / sizes)
    filled = np.cumsum(sizes[order])
    relaxed = np.interp(ram, filled, np.cumsum(spared[order]))
    kept = spared.sum() * (1 - placement.disk_utilisation / Ranking(file_set, disk, CONNECTION).utilisations[0])
    assert kept <= relaxed
    assert kept >= relaxed - spared[order][placement.files_in_ram]


def test_small_files_belong_in_ram_where_reaching_them_takes_long() -> None:
    byte_bound, seek_bound = (
        Ranking(FileSet(1_000), disk, CONNECTION).within(GIB)
        for disk in (Disk("fast to reach", 30e6), Disk("slow to reach", 30e6, 20e-3))
    )
    assert seek_bound.disk_access_fraction < byte_bound.disk_access_fraction
    assert seek_bound.disk_byte_fraction > byte_bound.disk_byte_fraction


def test_the_smallest_ram_is_just_enough() -> None:
    ranking = Ranking(FileSet(3_800), LOCAL, CONNECTION)
    ram = ranking.smallest_ram_bytes()
    assert ranking.within(ram).disk_utilisation <= 1
    assert ranking.within(ram - 1).disk_utilisation > 1
    assert ram < FileSet(3_800).size_bytes / 4


def test_without_a_usable_disk_everything_is_in_ram() -> None:
    ranking = Ranking(FileSet(100), Disk("hardly", 1.0), CONNECTION)
    assert ranking.within(ranking.smallest_ram_bytes()).files_on_disk == 0


def test_a_page_cache_leaves_to_the_disk_what_a_simulated_one_does() -> None:
    ram, disk, file_set = 40 << 20, Disk("local", 2e6), FileSet(60)
    sizes, probabilities = file_set.files()
    found = page_cache(file_set, ram, disk, CONNECTION)
    generator = np.random.default_rng(1)
    warm_up, measured = 20_000, 400_000
    asked = generator.choice(len(sizes), warm_up + measured, p=probabilities / probabilities.sum())
    pages = np.ceil(sizes / 4096) * 4096
    cached: dict[int, None] = {}
    room, read, sent = float(ram), 0.0, 0.0
    for place, file in enumerate(asked.tolist()):
        counts = place >= warm_up
        sent += sizes[file] if counts else 0.0
        if file in cached:
            del cached[file]
        else:
            read += sizes[file] if counts else 0.0
            room -= pages[file]
            while room < 0:
                oldest = next(iter(cached))
                del cached[oldest]
                room += pages[oldest]
        cached[file] = None
    assert found.disk_byte_fraction == pytest.approx(read / sent, rel=0.05)
    assert found.disk_bytes_per_second == pytest.approx(60 * CONNECTION * found.disk_byte_fraction)
    assert found.disk_utilisation == pytest.approx(found.disk_bytes_per_second / 2e6)


def test_a_page_cache_carries_less_than_the_optimal_placement_and_more_than_ram_alone() -> None:
    ram, disk = 400 << 20, Disk("local", 5e6)
    cached = largest_connections_cached(ram, disk, CONNECTION, 1024)
    assert connections_of(ram) < cached < largest_connections(ram, disk, CONNECTION, 1024)
    before, after = (page_cache(FileSet(each), ram, disk, CONNECTION).disk_utilisation for each in (cached, cached + 1))
    assert before <= 1 < after
    whole = page_cache(FileSet(50), 2 * FileSet(50).size_bytes, disk, CONNECTION)
    assert whole.disk_utilisation == whole.disk_access_fraction == 0
