import tempfile
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


def test_a_work_folder_that_is_not_ours_is_neither_used_nor_removed(tmp_path: Path) -> None:
    own = tmp_path / "work" / "thesis.tex"
    own.parent.mkdir()
    own.write_text("years of work")
    with site.work_folder(None, tmp_path) as work:
        assert work.parent == tmp_path.resolve()
        assert work.name != "work"
        (work / "page.html").write_text("")
    assert own.read_text() == "years of work"
    assert list(tmp_path.iterdir()) == [own.parent]


@pytest.mark.parametrize("has_room", [True, False])
def test_other_users_may_enter_what_replaces_a_work_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_room: bool
) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / "work").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))

    def check_room(folder: Path, documents: object) -> None:
        if folder.parent == run and not has_room:
            raise CouldNotRun("the disk is too small")

    monkeypatch.setattr(site, "check_room", check_room)
    with site.work_folder(None, run) as work:
        assert work.parent == (run if has_room else elsewhere).resolve()
        assert work.stat().st_mode & 0o777 == 0o755


def test_what_a_killed_run_left_is_used_again_and_removed(tmp_path: Path) -> None:
    left = tmp_path / "work"
    left.mkdir()
    (left / site.OURS).touch()
    (left / "site").mkdir()
    with site.work_folder(None, tmp_path) as work:
        assert work == left.resolve()
    assert not left.exists()
    asked = tmp_path / "asked"
    with site.work_folder(asked, tmp_path):
        (asked / "kept").touch()
    assert [path.name for path in asked.iterdir()] == ["kept"]
