"""Run folders: files are whole or not there, and what is not there is named."""

from pathlib import Path

import pytest

from sojourn.results import writing
from sojourn.results.run_folder import RunFolder


def test_what_cannot_be_written_is_named_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    # A folder where the file is to be: root can write everywhere else.
    (folder.path / "points.parquet").mkdir()
    assert not folder.write_table("points.parquet", [{"rate": 1.0}])
    assert folder.written("points.parquet") is None
    assert [path.name for path in folder.path.glob("*.partial")] == []
    failure = writing.failure()
    assert failure is not None
    assert failure.what == f"not written: in {folder.path} points.parquet (Is a directory)"
    assert failure.hint is not None
    assert writing.failure() is None


def test_what_is_written_in_the_end_is_not_named(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    (folder.path / "a.json").mkdir()
    assert not folder.write_json("a.json", {})
    (folder.path / "a.json").rmdir()
    assert folder.write_json("a.json", {})
    assert folder.written("a.json") == folder.path / "a.json"
    assert writing.failure() is None


def test_reasons_of_native_code_are_said_as_the_systems_own(tmp_path: Path) -> None:
    def refuse(partial: Path) -> None:
        raise OSError(f"{partial}: No space left on device (os error 28)")

    assert not writing.write(tmp_path / "x", refuse)
    failure = writing.failure()
    assert failure is not None
    assert failure.what.endswith("(No space left on device)")


def test_many_files_are_counted(tmp_path: Path) -> None:
    for number in range(writing.NAMED_MAX + 3):
        writing.missed(tmp_path / f"{number}.json", "Input/output error")
    failure = writing.failure()
    assert failure is not None
    assert "and 3 more (Input/output error)" in failure.what


def test_files_of_here_and_elsewhere_are_named_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    writing.missed(Path("run/summary.json"), "No space left on device")
    writing.missed(tmp_path / "load.csv", "No space left on device")
    failure = writing.failure()
    assert failure is not None
    assert failure.what == f"not written: in {tmp_path} run/summary.json, load.csv (No space left on device)"
