from pathlib import Path

import pytest

from sojourn.failure import CouldNotRun
from sojourn.workload import site


def test_files_have_the_right_size(tmp_path: Path) -> None:
    documents = [("/000/000000-10", 10), ("/000/000001-0", 0), ("/001/001000-2500000", 2_500_000)]
    assert site.build(tmp_path, documents, 10**7) == 3
    assert [(tmp_path / path.lstrip("/")).stat().st_size for path, _ in documents] == [10, 0, 2_500_000]


def test_what_is_there_is_kept_and_what_was_cut_off_is_written_again(tmp_path: Path) -> None:
    documents = [("/a", 10), ("/b", 20)]
    site.build(tmp_path, documents, 10**7)
    (tmp_path / "b").write_bytes(b"cut off")
    before = (tmp_path / "a").stat().st_mtime_ns
    assert site.build(tmp_path, documents, 10**7) == 1
    assert (tmp_path / "b").stat().st_size == 20
    assert (tmp_path / "a").stat().st_mtime_ns == before
    assert site.build(tmp_path, documents, 10**7) == 0


def test_a_site_above_the_limit_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match="more than --content-limit") as refusal:
        site.build(tmp_path / "site", [("/a", 2_000)], 1_000)
    assert refusal.value.hint is not None
    assert "--content-limit" in refusal.value.hint
    assert not (tmp_path / "site").exists()


def test_a_disk_too_small_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match="too small"):
        site.build(tmp_path, [("/a", 10**17)], 10**18)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((CouldNotRun, OSError)):
        site.build(tmp_path / "file", [("/a", 5)], 100)
